"""How torch computes and learns, in training, warm-up and scoring: number format, threads,
optimizer."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch.optim import AdamW, Muon, Optimizer, _muon

from rods.config import Operation

# AdamW's learning rate for embeddings and norms in GRPO, as a share of Muon's for the matrices
REST = 0.1


def bf16(operation: Operation, kind: str = "transformers") -> bool:
    """Whether matrix products of a policy of that `kind` are in bfloat16
    (`operation.precision`)."""
    if operation.precision == "auto":
        return (
            kind == "transformers" and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
        )
    return operation.precision == "bf16"


def settle_threads(operation: Operation, otherwise: int = 0) -> None:
    """Takes `operation.threads` torch threads; where that is 0, `otherwise` (0: torch's own
    choice)."""
    if operation.threads or otherwise:
        torch.set_num_threads(operation.threads or otherwise)


def make_optimizer(
    name: Literal["adamw", "muon"], model: Any, learning_rate: float, rest: float = REST
) -> Optimizer:
    """An optimizer over all trainable parameters of `model`, without weight decay: AdamW, or Muon
    for the matrices and AdamW for the rest at `rest` times the learning rate."""
    if name == "adamw":
        trained = [p for p in model.parameters() if p.requires_grad]
        return AdamW(trained, lr=learning_rate, weight_decay=0.0, fused=_fused(trained))
    return MuonWithAdamW(model, learning_rate, rest)


def _fused(parameters: Sequence[torch.Tensor]) -> bool | None:
    """Whether AdamW takes a step in one kernel: otherwise it makes, on a GPU, a copy as large as
    all that it moves."""
    return all(parameter.is_cuda for parameter in parameters) or None


_in_bfloat16 = _muon._zeropower_via_newtonschulz


def _orthogonalised(
    grad: torch.Tensor, ns_coefficients: tuple[float, float, float], ns_steps: int, eps: float
) -> torch.Tensor:
    """Muon's quintic Newton-Schulz iteration over a matrix, whose singular values come to about 1.
    torch has it in bfloat16 alone, which a CPU without instructions for it multiplies at a
    twentieth of the speed of float32."""
    if grad.is_cuda:
        return _in_bfloat16(grad, ns_coefficients, ns_steps, eps)
    a, b, c = ns_coefficients
    tall = grad.shape[0] > grad.shape[1]
    wide = grad.T if tall else grad
    wide = wide / wide.norm().clamp(min=eps)
    for _ in range(ns_steps):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide.T if tall else wide


_muon._zeropower_via_newtonschulz = _orthogonalised


class MuonWithAdamW(Optimizer):
    """`torch.optim.Muon` for the matrices inside the layers, AdamW for embeddings, output head and
    norms, as one optimizer: both share their parameter groups with it, so that a scheduler drives
    both."""

    def __init__(self, model: Any, learning_rate: float, rest_share: float) -> None:
        heads = filter(None, (model.get_input_embeddings(), model.get_output_embeddings()))
        outer = {id(parameter) for head in heads for parameter in head.parameters()}
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        matrices = [
            parameter for parameter in trained if parameter.ndim == 2 and id(parameter) not in outer
        ]
        inside = {id(parameter) for parameter in matrices}
        rest = [parameter for parameter in trained if id(parameter) not in inside]
        self.parts: list[Optimizer] = [Muon(matrices, lr=learning_rate, weight_decay=0.0)]
        if rest:  # nothing with LoRA, whose parameters are all matrices
            rate = learning_rate * rest_share
            fused = _fused(rest)
            self.parts.append(
                AdamW(rest, lr=rate, weight_decay=0.0, betas=(0.9, 0.95), fused=fused)
            )
        super().__init__([group for part in self.parts for group in part.param_groups], {})
        self._share()

    # nobody here gives it a closure
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for part, state in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        self._share()

    def _share(self) -> None:
        self.param_groups = [group for part in self.parts for group in part.param_groups]
