"""How torch computes and learns, as `[operation]` and `[training]` say: number format, threads, determinism, optimizer.

Training, warm-up and scoring share it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal

import torch
from torch.optim import AdamW, Muon, Optimizer

from rods.config import Operation

REST = 0.1  # AdamW's learning rate for embeddings and norms in GRPO, as a share of Muon's for the matrices


def bf16(operation: Operation, kind: str = "transformers") -> bool:
    """Whether matrix products of a policy of that `kind` are in bfloat16 (`operation.precision`)."""
    if operation.precision == "auto":
        return kind == "transformers" and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return operation.precision == "bf16"


def lower(device: torch.device, enabled: bool) -> AbstractContextManager[None]:
    """A context in which matrix products on `device` are in bfloat16, if `enabled`; weights keep their format."""
    context: AbstractContextManager[None] = torch.autocast(device.type, torch.bfloat16, enabled=enabled)
    return context


def settle_threads(operation: Operation, otherwise: int = 0) -> None:
    """Takes `operation.threads` torch threads; where that is 0, `otherwise` (0: torch's own choice)."""
    if operation.threads or otherwise:
        torch.set_num_threads(operation.threads or otherwise)


def settle_determinism() -> None:
    """From now on torch refuses operations whose results vary between runs (`training.deterministic`)."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)


def make_optimizer(name: Literal["adamw", "muon"], model: Any, learning_rate: float, rest: float = REST) -> Optimizer:
    """An optimizer over all trainable parameters of `model`, without weight decay (GRPO's usual choice): AdamW, or Muon
    for the matrices and AdamW for the rest. With Muon, `rest` is the learning rate of what AdamW trains, as a share of
    `learning_rate`."""
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
