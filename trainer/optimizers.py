"""Optimizers by name: AdamW for everything, or Muon for the matrices and AdamW for the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch.optim import AdamW, Muon, Optimizer

REST = 0.1  # AdamW's learning rate for embeddings and norms in GRPO, as a share of Muon's for the matrices


def make(name: Literal["adamw", "muon"], model: Any, learning_rate: float, rest: float = REST) -> Optimizer:
    """An optimizer over all trainable parameters of `model`, without weight decay (GRPO's usual choice).

    With Muon, `rest` is the learning rate of what AdamW trains, as a share of `learning_rate`.
    """
    if name == "adamw":
        return AdamW([p for p in model.parameters() if p.requires_grad], lr=learning_rate, weight_decay=0.0)
    return MuonWithAdamW(model, learning_rate, rest)


class MuonWithAdamW(Optimizer):
    """`torch.optim.Muon` for the matrices inside the layers, AdamW for embeddings, output head and norms, as one
    optimizer: both share their parameter groups with this object, so that a scheduler drives both."""

    def __init__(self, model: Any, learning_rate: float, rest_share: float) -> None:
        outer = {id(parameter) for parameter in _embeddings(model)}
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        matrices = [parameter for parameter in trained if parameter.ndim == 2 and id(parameter) not in outer]
        inside = {id(parameter) for parameter in matrices}
        rest = [parameter for parameter in trained if id(parameter) not in inside]
        self.parts: list[Optimizer] = [Muon(matrices, lr=learning_rate, weight_decay=0.0)]
        if rest:  # nothing with LoRA, whose parameters are all matrices
            self.parts.append(AdamW(rest, lr=learning_rate * rest_share, weight_decay=0.0, betas=(0.9, 0.95)))
        super().__init__([group for part in self.parts for group in part.param_groups], {})
        self._share()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part in self.parts:
            part.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for part, state in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        self._share()

    def _share(self) -> None:
        self.param_groups = [group for part in self.parts for group in part.param_groups]


def _embeddings(model: Any) -> list[Any]:
    return [
        parameter
        for module in (model.get_input_embeddings(), model.get_output_embeddings())
        if module is not None
        for parameter in module.parameters()
    ]
