"""A run goes on longer than it was created for: on record, in agreement, never shorter than what
was done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.lifecycle import extend
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXTENSIONS
from rods.buffers.trainer_log import TrainerLog
from rods.errors import RefusedError, UserError
from tests.buffers.world import Players, SyncDaemonLog, config, make_run

STAGES = [{"epochs": 3}]


def lasting(steps: int, *stages: dict[str, Any], **others: Any) -> Any:
    return config(
        training={"steps": steps}, curriculum={"stages": list(stages or STAGES)}, **others
    )


def played(folder: Path, epochs: int, **others: Any) -> Run:
    """A run of at most 100 steps and three epochs, of which `epochs` were begun."""
    run = make_run(folder, training={"steps": 100}, curriculum={"stages": STAGES}, **others)
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        players = Players(run, trainer, daemon)
        for number in range(epochs):
            players.epoch(number)
    return run


def test_an_extension_is_on_record_and_every_later_start_has_to_agree(tmp_path: Path) -> None:
    run = played(tmp_path / "run", 2)
    files = {
        name: (run.path / name).read_bytes()
        for name in ("manifest.json", "config.toml", "observations.jsonl")
    }
    longer = lasting(200, {"epochs": 4}, {"reward": "binary"})
    with pytest.raises(RefusedError, match=r"training\.steps: 100 → 200.*rods trainer extend"):
        Run.open(run.path, longer)
    epochs, stage, steps = extend(run, longer)
    assert (epochs, steps) == ("curriculum.stages.0.epochs: 3 → 4", "training.steps: 100 → 200")
    assert stage.startswith("curriculum.stages.1: None → {")
    assert extend(Run.open(run.path), longer) == []  # nothing is left to do
    assert extend(Run.open(run.path), lasting(150, {"epochs": 4}, {"reward": "binary"})) == [
        "training.steps: 200 → 150"
    ]
    found = list(read(run.path / EXTENSIONS))
    assert [(one["number"], one["steps"], len(one["stages"])) for one in found] == [
        (1, 200, 2),
        (2, 150, 2),
    ]
    opened = Run.open(run.path)
    assert (
        opened.config.training.steps == 150
        and opened.config.curriculum.stages[1].reward == "binary"
    )
    with pytest.raises(RefusedError, match=r"training\.steps: 150 → 100"):
        Run.open(run.path, lasting(100, {"epochs": 4}, {"reward": "binary"}))
    assert {name: (run.path / name).read_bytes() for name in files} == files
    checked = verify(run.path)
    assert checked.ok and any("to 150 steps, 2 stages" in note for note in checked.notes)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (lambda: lasting(3), r"training\.steps = 3, and step \d+ is done"),
        (lambda: lasting(100, {"epochs": 1}), "stage 1 would end after 1 epochs, and 2 have begun"),
        (
            lambda: lasting(100, {"epochs": 3, "reward": "binary"}),
            "of stage 1 only `epochs` may change",
        ),
        (
            lambda: lasting(200, zones={"window": 3}),
            r"changes training\.steps and .* alone, not zones\.window",
        ),
    ],
)
def test_what_was_done_and_everything_else_stays(tmp_path: Path, asked: Any, why: str) -> None:
    run = played(tmp_path / "run", 2)
    with pytest.raises(RefusedError, match=why):
        extend(run, asked())
    assert not (run.path / EXTENSIONS).exists()


def test_a_stage_that_is_over_stays_and_none_is_taken_away(tmp_path: Path) -> None:
    stages = [{"epochs": 1}, {"epochs": 2}]
    run = make_run(tmp_path / "run", training={"steps": 100}, curriculum={"stages": stages})
    with TrainerLog(run) as trainer:
        trainer.start()
        trainer.merge(0, 1)
    with pytest.raises(RefusedError, match="none may be taken away"):
        extend(run, lasting(100, {"epochs": 1}))
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        Players(run, trainer, daemon).epoch(0)
        trainer.merge(1, 2)
    with pytest.raises(RefusedError, match="stage 1 is over"):
        extend(run, lasting(100, {"epochs": 2}, {"epochs": 2}))
    assert extend(run, lasting(100, {"epochs": 1}, {"epochs": 5}))


def test_a_stage_needs_tasks(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", training={"steps": 100}, curriculum={"stages": STAGES})
    with pytest.raises(
        UserError, match="stage 2 has 3 training tasks of its types, a batch needs 4"
    ):
        extend(run, lasting(100, *STAGES, {"types": ["base"]}))


@pytest.mark.slow
def test_nobody_may_be_at_work_and_who_has_just_started_learns_of_it(tmp_path: Path) -> None:
    run = played(tmp_path / "run", 1)
    before = Run.open(run.path)
    for log in (TrainerLog, SyncDaemonLog):
        with log(run), pytest.raises(RefusedError, match=r"pid \d+"):
            extend(run, lasting(200))
    extend(run, lasting(200))
    for log in (TrainerLog, SyncDaemonLog):
        with pytest.raises(RefusedError, match="was extended while"), log(before):
            pass
        with log(Run.open(run.path)):
            pass


def test_a_damaged_record_is_no_extension(tmp_path: Path) -> None:
    run = played(tmp_path / "run", 1)
    extend(run, lasting(200))
    file = run.path / EXTENSIONS
    file.write_bytes(file.read_bytes().replace(b'"steps":200', b'"steps":900'))
    with pytest.raises(UserError, match="restore it from a copy"):
        Run.open(run.path)
