"""Whatever a writer of ours writes, in whatever state a run is, our readers take."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from rods.buffers.audit.repair import agree
from rods.buffers.audit.verify import verify
from rods.buffers.checkpoints import UNSTARTED, Checkpoints
from rods.buffers.lifecycle import extend, fork
from rods.buffers.log.record_bytes import record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import RECORDED, operation
from rods.buffers.state import read_state
from rods.buffers.trainer_log import TrainerLog
from rods.errors import InfrastructureError
from rods.observations import Update
from tests.buffers.world import Players, SyncDaemonLog, config, make_run

LAST = 12  # steps of a run that is finished


def playing(run: Run, epochs: int, steps: int | None = None, back: int | None = None) -> None:
    """A trainer starts, plays `epochs` epochs, or of the last one its first `steps` steps, and
    starts again at `back`."""
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        players = Players(run, trainer, daemon)
        for number in range(epochs):
            players.epoch(number, steps=steps if number == epochs - 1 else None)
        if back is not None:
            trainer.start(back)


STATES: dict[str, Callable[[Run], None]] = {
    "new": lambda run: None,
    "started": partial(playing, epochs=0),
    "merged": partial(playing, epochs=1, steps=0),
    "first step": partial(playing, epochs=1, steps=1),
    "back to the beginning": partial(playing, epochs=2, back=0),
    "finished": partial(playing, epochs=3),
}


def starts(run: Run) -> None:
    with TrainerLog(run) as trainer:
        trainer.start(0)


def trains(run: Run) -> None:
    """The next epoch, or the rest of the open one; an update that nothing is known of."""
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        trainer.write_update(Update(float("nan"), float("inf")))
        trainer.flush()
        Players(run, trainer, daemon).epoch(trainer.state.epoch + 1)
        trainer.write_update(Update(0.5, float("nan")))
        trainer.flush()


def considers(run: Run) -> None:
    """A daemon that has nothing to do, and one that notes a failure late."""
    step = read_state(run).last_step
    with SyncDaemonLog(run) as daemon:
        if step > daemon.state.last_considered:
            daemon.picked(step, 0, [])
        daemon.rejected("1-x", 0, stage="plan", error="", evidence=None)


def saves(run: Run) -> None:
    run.log_start("trainer")
    saved = Checkpoints(run.path).write(UNSTARTED, lambda folder: (folder / "x").touch())
    run.log_operation("trainer", [record("checkpoint", **saved.noted())])


def forks(run: Run) -> None:
    new = fork(run, run.path.with_name("new"))
    assert read_state(Run.open(new.path)).epoch == -1
    extends(new)
    assert Run.open(new.path).config.training.steps == LAST + 1


def extends(run: Run) -> None:
    assert extend(run, config(training={"steps": LAST + 1}))


WRITERS: dict[str, Callable[[Run], None]] = {
    "extends": extends,
    "forks": forks,
    "starts": starts,
    "trains": trains,
    "considers": considers,
    "saves": saves,
    "agrees": lambda run: agree(run, [{"where": "x", "what": "y"}]),
}


@pytest.mark.parametrize("state", STATES)
def test_what_a_writer_writes_in_any_state_every_reader_takes(tmp_path: Path, state: str) -> None:
    before = make_run(tmp_path / "before", training={"steps": LAST})
    STATES[state](before)
    for name, write in WRITERS.items():
        path = tmp_path / name / "run"
        shutil.copytree(before.path, path)
        write(Run.open(path))
        for log in (*RECORDED, operation("trainer")):
            list(read(path / log))
        read_state(Run.open(path))
        checked = verify(path)
        assert checked.ok, (name, checked.problems)


def test_a_record_that_no_reader_would_take_does_not_reach_the_disk(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with closing(LogWriter(log)) as writer:
        writer.append([record("start", attempt=1, from_step=0)])
        whole = log.read_bytes()
        with pytest.raises(InfrastructureError, match=r"start\.from_step is no count"):
            writer.append([record("start", attempt=2, from_step=-1)])
        assert log.read_bytes() == whole
        writer.append([record("start", attempt=2, from_step=1)])  # it goes on
    assert [each["attempt"] for each in read(log)] == [1, 2]
