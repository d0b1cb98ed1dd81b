"""A fork starts from another run's pool."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.lifecycle import fork
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.trainer_log import TrainerLog
from rods.calls import Call
from rods.environments.base import reference
from rods.environments.loading import Environments
from rods.errors import RefusedError, UserError
from rods.tasks import EnvironmentRef, Task
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
        "snapshots",
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


WORLD = '''
from dataclasses import dataclass
from rods.environments.typed import TypedEnvironment

@dataclass
class Shop:
    stock: int = 9

WORLD = TypedEnvironment("shop.py:environment", Shop, behaviour=1)

@WORLD.tool("Stock")
def sell(shop: Shop, pieces: int) -> int:
    """Sells pieces."""
    shop.stock -= pieces
    return shop.stock

@WORLD.tool("Stock")
def buy(shop: Shop, pieces: int) -> int:
    """Buys pieces."""
    shop.stock += pieces
    return shop.stock

def environment():
    return WORLD
'''


def sold(world: EnvironmentRef, tool: str, pieces: int, **more: Any) -> Task:
    return Task(
        environment=world,
        type="base",
        script=(f"{tool} {pieces}",),
        calls=((Call(tool, {"pieces": pieces}),),),
        tools=("sell", "buy"),
        state={"stock": 9},
        **more,
    )


def test_a_fork_takes_what_still_holds_into_a_changed_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(WORLD)
    world = reference(Environments().load("shop.py:environment"))
    tasks = [sold(world, "sell", pieces) for pieces in range(1, 5)]
    tasks += [sold(world, "buy", 1), sold(world, "buy", 2, split="test")]
    ours = {"generation": 1, "origin": "variant", "root": tasks[0].id, "seed": tasks[4].id}
    tasks += [sold(world, "sell", 5, provenance=ours)]
    run = create_run(Path("run"), config(), tasks)
    # a word of a docstring, and a tool that is gone
    Path("shop.py").write_text(
        WORLD.replace("Sells pieces", "Sells some pieces").replace("def buy", "def order")
    )
    monkeypatch.delitem(sys.modules, str(Path("shop.py").absolute()))  # as in a new process
    with pytest.raises(RefusedError, match="rods trainer fork run NEW"):
        Run.open(run.path).check_environments()
    new = fork(Run.open(run.path), Path("new"))
    Run.open(new.path).check_environments()
    assert verify(new.path).ok
    parent = new.manifest["parent"]
    assert [(left["task"], left["split"]) for left in parent["left_out"]] == [
        (tasks[4].id, "train"),
        (tasks[5].id, "test"),
    ]
    assert "no tool 'buy'" in parent["left_out"][0]["why"]
    renewed = parent["renewed"]
    assert list(renewed) == [task.id for task in (*tasks[:4], tasks[6])]
    assert list(new.training) == list(renewed.values())
    assert all(task.tools == ("sell",) for task in new.tasks)
    variant = new.training[renewed[tasks[6].id]].provenance
    assert (variant["origin"], variant["generation"]) == ("variant", 1)
    assert variant["root"] == renewed[tasks[0].id]
    assert variant["seed"] == tasks[4].id  # it stayed behind
    # too few are left: what stayed behind is said
    with pytest.raises(UserError, match=r"a batch needs 6, and 2 are left out.*2 × .*no tool"):
        fork(Run.open(run.path), Path("other"), config(training={"batch_tasks": 6}))
    # a fork of the fork has nothing to renew
    assert fork(Run.open(new.path), Path("third")).manifest["parent"]["renewed"] == {}
