"""Log-probabilities and entropies of the tokens that a loss is about, and of no others."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import pad

IGNORED = -100  # a label that is not scored
Scores = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]


def score_tokens(
    compute: Callable[..., Scores],
    model: Callable[..., Any],
    ids: torch.Tensor,
    seen: torch.Tensor,
    completion: int,
    *,
    rows: int,
    own: torch.Tensor | None,
    **options: Any,
) -> Scores:
    """Log-probabilities and entropies of the last `completion` columns of `ids`, [batch,
    completion], and a mixture's balancing loss, by TRL's `compute`, `rows` at a time; without the
    columns that are padding in all of these rows (TRL pads to the longest of a whole batch), and
    without the tokens that are not the policy's: both get 0.

    `seen` is 0 for padding: prompts are padded on the left, completions on the right, and none of
    them is empty. `own` [batch, completion] is 0 for tokens that are not to be scored.
    """
    logps: list[torch.Tensor] = []
    entropies: list[torch.Tensor] = []
    balance: list[torch.Tensor] = []
    for start in range(0, len(ids), rows):
        part = slice(start, start + rows)
        used = seen[part].any(0).nonzero()[:, 0]
        first = int(used[0])
        last = int(used[-1]) + 1
        behind = ids.shape[1] - last  # columns of padding
        scored = model if own is None else _only(model, own[part, : completion - behind])
        inside = part, slice(first, last)
        logp, entropy, loss = compute(
            scored, ids[inside], seen[inside], completion - behind, **options
        )
        logps.append(pad(logp, (0, behind)))
        if entropy is not None:
            entropies.append(pad(entropy, (0, behind)))
        if loss is not None:
            balance.append(loss)
    mean_balance = torch.stack(balance).mean() if balance else None
    return torch.cat(logps), torch.cat(entropies) if entropies else None, mean_balance


def _only(model: Callable[..., Any], own: torch.Tensor) -> Callable[..., Any]:
    """`model`, called with labels for the tokens that are `own` and no others."""

    def called(*, labels: torch.Tensor, **inputs: Any) -> Any:
        behind = labels.shape[1] - own.shape[1]
        return model(**inputs, labels=labels.masked_fill(pad(own, (behind, 0)) == 0, IGNORED))

    return called
