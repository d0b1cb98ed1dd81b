"""A fork that takes the weights along trains them, with an optimizer of its own."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rods.buffers.checkpoints import ADOPTED, UNSTARTED, Checkpoint, Checkpoints
from rods.buffers.lifecycle import fork
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.config import parse_config
from rods.errors import EXIT_OK, UserError
from rods.trainer import trl_start
from rods.trainer.sharding import OPTIMIZER, PARTITIONS
from rods.trainer.training_run import TrainingRun
from rods.worlds.sources import load_tasks
from tests.trainer.nano_parts import saved
from tests.trainer.replayed import drift
from tests.trainer.runs import train, train_replayed, write_config
from tests.trainer.test_sharding import ADAMW, LIKE, assert_close, launch

VALUES: dict[str, dict[str, Any]] = {
    "data": {"tasks": "desk-small", "train": 6, "held_out": 4},
    "rollouts": {
        "rollouts_per_task": 4,
        "max_reply_tokens": 6,
        "max_context_tokens": 256,
        "max_steps": 2,
    },
    "training": {
        "batch_tasks": 3,
        "steps": 1,
        "learning_rate": 0.01,
        "kl": 0.0,
        "advantage_hook": "tests.trainer.runs:alternating",
    },
    "operation": {"threads": 1},
}


def configured(model: Path, **changes: dict[str, Any]) -> Any:
    values = {
        **VALUES,
        "policy": {"kind": "transformers", "model": str(model), "dialect": "compact"},
    }
    return parse_config(
        values | {name: values[name] | keys for name, keys in changes.items()}, where="test"
    )


def trained(run: Run) -> dict[str, torch.Tensor]:
    """The weights after the run's last step."""
    with TrainingRun(run) as training:
        trl_start.train(training)
    return load_file(newest(run).policy / "model.safetensors")


def newest(run: Run) -> Checkpoint:
    found = Checkpoints(run.path).newest(lambda attempt, step: True)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of one step of AdamW."""
    folder = tmp_path_factory.mktemp("parent")
    config = configured(saved(folder / "policy"))
    run = create_run(folder / "run", config, load_tasks(config.data, folder))
    trained(run)
    return run


def child(parent: Run, folder: Path, **changes: dict[str, Any]) -> Run:
    """A fork that takes the policy along, with another configuration."""
    run = fork(parent, folder, configured(parent.path.parent / "policy", **changes))
    Checkpoints(folder).adopt(newest(parent))
    return run


@pytest.mark.numeric
@pytest.mark.slow
def test_a_fork_takes_its_first_step_with_its_own_learning_rate(
    parent: Run, tmp_path: Path
) -> None:
    start = load_file(newest(parent).policy / "model.safetensors")
    after = trained(child(parent, tmp_path / "child", training={"learning_rate": 1e-5}))
    moved = max(float((after[name] - start[name]).abs().max()) for name in start)
    assert 0 < moved < 2e-5  # AdamW's first step moves a weight by its learning rate


@pytest.mark.slow
def test_a_fork_may_have_another_optimizer(parent: Run, tmp_path: Path) -> None:
    run = child(parent, tmp_path / "child", training={"optimizer": "muon"})
    taken = newest(run)
    assert not (taken.policy / OPTIMIZER).exists()
    start = load_file(taken.policy / "model.safetensors")
    after = trained(run)
    assert any(not torch.equal(after[name], start[name]) for name in start)
    assert "parts" in torch.load(newest(run).policy / OPTIMIZER, weights_only=True)


def test_what_deepspeed_remembers_stays_behind_too(tmp_path: Path) -> None:
    source = Checkpoint(tmp_path / "source", UNSTARTED, {})
    (source.policy / PARTITIONS).mkdir(parents=True)
    for file in (OPTIMIZER, "model.safetensors"):
        (source.policy / file).write_bytes(b"")
    (tmp_path / "child").mkdir()
    taken = Checkpoints(tmp_path / "child").adopt(source)
    assert {path.name for path in taken.policy.iterdir()} == {"model.safetensors", ADOPTED}


def test_a_policy_that_does_not_fit_the_fork_is_never_replaced_by_the_untrained_one(
    parent: Run, tmp_path: Path
) -> None:
    run = child(parent, tmp_path / "child", policy={"lora_rank": 4})  # its parent has no adapter
    with (
        TrainingRun(run) as training,
        pytest.raises(UserError, match=r"without --weights.*in policy\.model") as refused,
    ):
        trl_start.train(training)
    assert "the one before" not in str(refused.value)


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["fsdp2", "zero2", "zero3"])
def test_processes_that_share_a_policy_train_the_one_that_was_taken_along(
    tmp_path: Path, how: str
) -> None:
    if how != "fsdp2" and find_spec("deepspeed") is None:
        pytest.skip("DeepSpeed is not installed")
    config = write_config(tmp_path / "c.toml", ADAMW)
    assert train(tmp_path / "parent", config).returncode == EXIT_OK
    parent = Run.open(tmp_path / "parent")
    alone, shared = (fork(parent, tmp_path / name) for name in ("alone", "shared"))
    for run in (alone, shared):
        Checkpoints(run.path).adopt(newest(parent))
    given = tmp_path / "alone.drawn"
    drawn = tmp_path / "shared.drawn"
    assert train_replayed(alone.path, config, given).returncode == EXIT_OK
    said = launch(shared.path, config, how, drawn, given)
    assert (shared.path / "checkpoints" / "step_00000003.a1").exists(), said[-3000:]
    assert drift(given, drawn) < LIKE
    assert_close(alone.path, shared.path, 3)
