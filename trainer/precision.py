"""How torch computes: number format and threads, as `[operation]` says. Training, warm-up and scoring share it."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from rods.config import Config


def bf16(config: Config) -> bool:
    """Whether matrix products are in bfloat16 (`operation.precision`)."""
    if config.operation.precision == "auto":
        return config.policy.kind == "transformers" and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return config.operation.precision == "bf16"


def lower(device: torch.device, enabled: bool) -> AbstractContextManager[None]:
    """A context in which matrix products on `device` are in bfloat16, if `enabled`; weights keep their format."""
    context: AbstractContextManager[None] = torch.autocast(device.type, torch.bfloat16, enabled=enabled)
    return context


def settle_threads(config: Config) -> None:
    """Takes `operation.threads` torch threads (0: torch's own choice), and one in deterministic mode by default."""
    if config.operation.threads or config.training.deterministic:
        torch.set_num_threads(config.operation.threads or 1)
