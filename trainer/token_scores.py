"""The loss over the policy's own tokens: log-probabilities and entropies of these alone."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import pad
from trl import GRPOTrainer

from rods.canonical import JsonObject
from rods.config import Config
from rods.observations import Update

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


class OwnTokenLoss(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer, whose loss scores the policy's own tokens that have an advantage, and which
    notes what its updates show. To be named before the class that sets `config`."""

    config: Config

    def __init__(self, *positional: Any, **named: Any) -> None:
        self.gradient_norm: float | None = None  # of the last update, before clipping
        # a micro-batch of a first pass: sum over own tokens, their number
        self._entropy: list[torch.Tensor] = []
        # which tokens of a completion the loss is about, while it is computed
        self._own: torch.Tensor | None = None
        super().__init__(*positional, **named)

    def measured(self) -> Update:
        """The mean entropy, over all processes, and the norm of the update that was just done."""
        total, count = self.accelerator.reduce(
            torch.stack(self._entropy).sum(0), reduction="sum"
        ).tolist()
        self._entropy.clear()
        return Update(total / count if count else None, self.gradient_norm)

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        self.gradient_norm = float(norm)
        return norm

    def _compute_loss(self, model: Any, inputs: Any) -> torch.Tensor:
        inputs = self._with_advantage(inputs)
        self._own = inputs["tool_mask"]
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        self._own = None
        return loss

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Any,
        attention_mask: Any,
        logits_to_keep: int,
        batch_size: int = 0,
        **options: Any,
    ) -> Scores:
        compute = super()._get_per_token_logps_and_entropies
        rows = batch_size or len(input_ids)
        own = self._own
        scores = score_tokens(
            compute, model, input_ids, attention_mask, logits_to_keep, rows=rows, own=own, **options
        )
        if (
            own is not None
            and scores[1] is not None
            and self.state.global_step % self.config.training.passes == 0
        ):
            scored = own * attention_mask[:, -logits_to_keep:]
            self._entropy.append(
                torch.stack([(scores[1].detach() * scored).sum(), scored.sum()]).double()
            )
        return scores

    def _with_advantage(self, inputs: JsonObject) -> JsonObject:
        """`inputs` without the rollouts whose advantage is 0, where nothing but advantages makes a
        gradient: they count in the number of tokens that the loss is divided by, but need no
        passes. Where all are such one stays, of which TRL makes a loss of 0."""
        settings = self.config.training
        values = inputs["advantages"]
        if settings.kl or settings.loss != "token" or self.aux_loss_enabled:
            return inputs
        rows = (values.reshape(len(values), -1) != 0).any(1).nonzero()[:, 0]
        if not len(rows):
            rows = rows.new_zeros(1)
            inputs = {**inputs, "tool_mask": torch.zeros_like(inputs["tool_mask"])}
        return {
            name: value[rows] if torch.is_tensor(value) and value.ndim else value
            for name, value in inputs.items()
        }
