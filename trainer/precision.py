"""How torch computes: number format and threads, as `[operation]` says. Training, warm-up and scoring share it."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from rods.config import Operation


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
