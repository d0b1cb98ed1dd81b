"""Rollouts of a vLLM whose log-probabilities are far from the policy's end the run."""

from __future__ import annotations

import pytest
import torch

from rods.errors import UserError
from rods.trainer.engines.choose import compare
from rods.trainer.ranks import Ranks


def scored(apart: float) -> dict[str, torch.Tensor]:
    """Two rollouts of three tokens, the last of each said by the environment."""
    old = torch.tensor([[-1.0, -2.0, -50.0], [-3.0, -1.0, -60.0]])
    own = torch.tensor([[1, 1, 0], [1, 1, 0]])
    return {
        "tool_mask": own,
        "old_per_token_logps": old,
        "sampling_per_token_logps": old * own - apart * own,
    }


def test_a_vllm_that_draws_from_something_else_than_the_policy_ends_the_run() -> None:
    compare(scored(0.01), Ranks())
    with pytest.raises(UserError, match="serves other weights"):
        compare(scored(1.5), Ranks())
