"""A whole run over a served policy: what is learnt is served before the next batch is rolled out,
and is validated."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.config import Config, parse_config
from rods.errors import UserError
from rods.trainer import trl_grpo, trl_start
from rods.trainer.advantages import AdvantageEstimate
from rods.trainer.engines.local import LocalEngine
from rods.trainer.nano.warm_start import warm_started
from rods.trainer.training_run import TrainingRun
from rods.worlds.sources import load_tasks
from tests.trainer.runs import live_steps
from tests.trainer.served_stub import Served, served

pytestmark = pytest.mark.slow

VALUES: dict[str, Any] = {
    "data": {"tasks": "desk-small", "train": 4, "held_out": 4},
    "policy": {"kind": "nano", "warm_start_steps": 1},
    "rollouts": {
        "rollouts_per_task": 2,
        "max_reply_tokens": 6,
        "max_context_tokens": 256,
        "max_steps": 2,
    },
    "training": {
        "batch_tasks": 2,
        "steps": 3,
        "learning_rate": 0.001,
        "kl": 0.0,
        "checkpoint_steps": 1,
    },
    "curriculum": {
        "stages": [{"until": "plateau", "epochs": 9, "expand": False}, {"expand": False}]
    },
}


def alternating(estimate: AdvantageEstimate) -> Any:
    """A policy that has learnt nothing earns nothing: pretend that every second rollout did, and
    weigh it double, since equal rollouts would cancel out."""
    signs = np.arange(estimate.advantages.size) % 2 * 3.0 - 1.0
    return signs.reshape(estimate.advantages.shape)


def configured(**operation: Any) -> Config:
    training = {**VALUES["training"], "advantage_hook": f"{__name__}:alternating"}
    values = {
        **VALUES,
        "training": training,
        "operation": {"threads": 1, "trace_every": 1, **operation},
    }
    return parse_config(values, where="test")


@pytest.fixture
def initial(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("RODS_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    config = configured()
    return LocalEngine.load(warm_started(config), config.rollouts).model.eval()


def trained(folder: Path, state: Served) -> Run:
    config = configured(rollout_servers=[{"model": "nano", "urls": [state.url]}])
    run = create_run(folder / "run", config, load_tasks(config.data, folder))
    with TrainingRun(run) as training:
        trl_start.train(training)
    return run


def policy_of(run: Run, step: int) -> dict[str, torch.Tensor]:
    (folder,) = (run.path / "checkpoints").glob(f"step_{step:08d}.a*")
    found: dict[str, torch.Tensor] = load_file(folder / "policy" / "model.safetensors")
    return found


@pytest.mark.numeric
def test_each_batch_is_rolled_out_by_what_the_steps_before_it_have_learnt(
    tmp_path: Path, initial: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, torch.Tensor]] = []
    serving: list[dict[str, torch.Tensor]] = []
    scored = trl_grpo.RunTrainer._generate_and_score_completions

    def watch(self: Any, inputs: Any) -> Any:
        output = scored(self, inputs)
        seen.append(output)
        serving.append(deepcopy(state.model.state_dict()))
        return output

    monkeypatch.setattr(trl_grpo.RunTrainer, "_generate_and_score_completions", watch)
    with served(deepcopy(initial)) as state:
        run = trained(tmp_path, state)
    assert [step for step, *_ in live_steps(run.path)] == [1, 2, 3]
    for step, output in enumerate(seen):
        learnt = policy_of(run, step)
        assert all(torch.equal(serving[step][name], weights) for name, weights in learnt.items())
        own = output["tool_mask"].bool()
        assert (output["importance_sampling_ratio"][own] - 1).abs().max() < 1e-3
        assert not output["old_per_token_logps"][~own].any()
    before = policy_of(run, 0)
    after = policy_of(run, 1)
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert len(state.loaded) == 4  # once a batch, and for the validation between the two epochs


def test_a_server_with_another_model_is_found_out_before_anything_is_learnt(
    tmp_path: Path, initial: Any
) -> None:
    other = deepcopy(initial)
    with torch.no_grad():
        for weights in other.parameters():
            weights.mul_(-3.0)
    other.load_state_dict = lambda *given, **options: None  # it says that it takes others
    with served(other) as state, pytest.raises(UserError, match="serves other weights"):
        trained(tmp_path, state)
