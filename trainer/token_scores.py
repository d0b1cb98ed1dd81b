"""Computes log-probabilities for the loss without the padding and tokens that do not count.

TRL pads every row to the longest prompt and the longest completion of a whole batch, and scores every token after the
prompts. Multi-turn episodes differ much in length, and half of their tokens are the environment's. So a part of a batch
is computed without the columns that are padding in all its rows, and the environment's tokens are not scored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import pad

IGNORED = -100  # a label that is not scored
Scores = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]


def score(
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
    """Log-probabilities and entropies of the last `completion` columns of `ids`, [batch, completion], and a mixture's
    balancing loss, by TRL's `compute`, `rows` at a time.

    `seen` is 0 for padding: prompts are padded on the left, completions on the right, and none of them is empty. `own`
    [batch, completion] is 0 for tokens that are not to be scored. What is not scored gets 0.
    """
    logps: list[torch.Tensor] = []
    entropies: list[torch.Tensor] = []
    balance: list[torch.Tensor] = []
    for start in range(0, len(ids), rows):
        part = slice(start, start + rows)
        used = seen[part].any(0).nonzero()[:, 0]
        first, last = int(used[0]), int(used[-1]) + 1
        behind = ids.shape[1] - last  # columns of padding
        scored = model if own is None else _only(model, own[part, : completion - behind])
        found = compute(scored, ids[part, first:last], seen[part, first:last], completion - behind, **options)
        logps.append(pad(found[0], (0, behind)))
        if found[1] is not None:
            entropies.append(pad(found[1], (0, behind)))
        if found[2] is not None:
            balance.append(found[2])
    return (
        torch.cat(logps),
        torch.cat(entropies) if entropies else None,
        torch.stack(balance).mean() if balance else None,
    )


def _only(model: Callable[..., Any], own: torch.Tensor) -> Callable[..., Any]:
    """`model`, called with labels for the tokens that are `own` and no others."""

    def called(*, labels: torch.Tensor, **inputs: Any) -> Any:
        behind = labels.shape[1] - own.shape[1]
        return model(**inputs, labels=labels.masked_fill(pad(own, (behind, 0)) == 0, IGNORED))

    return called
