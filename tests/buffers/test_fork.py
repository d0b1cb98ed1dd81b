"""A fork starts from another run's pool."""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.lifecycle import fork
from rods.buffers.run.run import Run
from rods.buffers.trainer_log import TrainerLog
from rods.errors import UserError
from tests.buffers.world import Players, SyncDaemonLog, config, make_run


def test_a_fork_has_originals_and_active_variants_empty_logs_and_a_parent(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        players = Players(run, trainer, daemon)
        for number in range(4):
            players.epoch(number)
        active = dict(trainer.state.active)
        step = trainer.state.pool.epochs[-1].step
    forked = fork(run, tmp_path / "new", config(pool={"max_generated": 9}))
    assert set(forked.training) == set(active)
    assert [task.id for task in forked.held_out] == [task.id for task in run.held_out]
    assert forked.config.pool.max_generated == 9
    parent = forked.manifest["parent"]
    assert (parent["run"], parent["epoch"], parent["step"]) == ("run", 3, step)
    assert sorted(path.name for path in forked.path.iterdir()) == [
        "config.toml",
        "manifest.json",
        "tasks.jsonl",
    ]
    with pytest.raises(UserError, match="already"):
        fork(run, tmp_path / "new")
    reopened = Run.open(forked.path)
    with TrainerLog(reopened) as trainer, SyncDaemonLog(reopened) as daemon:
        trainer.start()
        for member in trainer.state.active.values():
            assert member.generation == active[member.task_id].generation
        players = Players(reopened, trainer, daemon)
        players.rewards = lambda step, slot, expected: [0, 0]
        for number in range(3):
            players.epoch(number)
        left = set(trainer.state.active)
    assert set(run.training) <= left
    assert not {task_id for task_id, member in active.items() if member.generated} & left
    assert verify(forked.path).ok
