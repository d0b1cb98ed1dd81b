"""Batches whose tasks are drawn for their step, alone or beside those of the pool (001): on record
before they are played, the same after every restart, and of a difficulty that follows what they
earn."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.log.record_bytes import Record, line, record
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS, TRACKER
from rods.buffers.state import RunState, read_state
from rods.buffers.trainer_log import TrainerLog
from rods.config import parse_config
from rods.console.main import run as rods
from rods.errors import EXIT_FAILED, EXIT_OK, EXIT_REFUSED, RefusedError, UserError
from rods.family.simulation.generating import Wanted
from rods.family.simulation.settings import DRAWN
from rods.family.simulation.source import generator
from rods.tasks import AnyTask
from rods.trainer.main import run as rods_train
from tests.buffers.world import group
from tests.trainer.runs import live_steps, write_config

STEPS = 9
SHARED: dict[str, Any] = {
    "source.drawn": 0.5,
    "data.tasks": "desk-small",
    "data.train": 12,
    "data.held_out": 4,
    "policy.growth": 0.02,
    "training.steps": STEPS,
    "training.checkpoint_steps": 3,
}
ALONE: dict[str, Any] = {
    "source.drawn": 1.0,
    "source.epoch_steps": 2,
    "data.tasks": "none",
    "data.train": 0,
    "data.held_out": 0,
    "training.steps": 5,
}


def played(folder: Path, changes: dict[str, Any], **further: Any) -> Path:
    config = write_config(folder / "c.toml", changes | further)
    assert rods_train([str(folder / "run"), "--config", str(config)]) in (EXIT_OK, 5)
    return folder / "run"


def drawn(run: Path) -> list[tuple[int, int, int, str]]:
    """Step, slot, difficulty and task of every record."""
    return [
        (one["step"], one["slot"], one["difficulty"], one["task"]["id"])
        for one in read(run / DRAWN)
    ]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of nine steps: eight tasks each, four of them drawn."""
    return played(tmp_path_factory.mktemp("shared"), SHARED)


@pytest.fixture
def copied(shared: Path, tmp_path: Path) -> Path:
    shutil.copytree(shared, tmp_path / "run")
    return tmp_path / "run"


def test_a_batch_has_tasks_of_the_pool_and_behind_them_drawn_ones(shared: Path) -> None:
    state = read_state(Run.open(shared))
    known = {(step, slot): task for step, slot, _, task in drawn(shared)}
    assert len(known) == len(drawn(shared)) == STEPS * 4
    visited = []
    for step, _, groups in live_steps(shared):
        assert [one["role"] for one in groups] == ["active"] * 4 + ["drawn"] * 4
        assert [one["task"] for one in groups[4:]] == [known[step, slot] for slot in range(4, 8)]
        visited += [one["task"] for one in groups[:4]]
    assert [one.step for one in state.pool.epochs] == [0, 3, 6], (
        "twelve tasks of the pool are three steps"
    )
    assert len(set(visited[:12])) == 12
    # No step meets a drawn task again: no window is kept of it, but it is found.
    assert not set(known.values()) & set(state.tracker.tasks)
    task = state.task(known[STEPS, 7])
    assert (
        task.split == "train"
        and task.environment.hash == Run.open(shared).manifest["environments"]["repository"]
    )


@pytest.mark.needs("page")
def test_difficulty_follows_what_drawn_tasks_earn_and_everybody_tells_it(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.open(shared)
    # the difficulty that is due
    state = RunState(run)
    at = 1
    course = {step: difficulty for step, _, difficulty, _ in drawn(shared)}
    for step in state.steps():
        assert course[step.step] == at
        earned = [one for group in step.groups if group.role == "drawn" for one in group.rollouts]
        mean = sum(2 * one.resolved / one.expected - 1 for one in earned) / len(earned)
        at += 3 * ((mean > 0.5) - (mean < 0.0)) if at > 1 or mean > 0.5 else 0
        assert state.folds["simulation"].value == at
    assert at > 13
    told = orjson.loads((shared / TRACKER).read_bytes())["difficulty"]
    assert (
        told["next"] == at
        and told["last"]["step"] == STEPS
        and told["last"]["levels"]["tools"] >= 2
    )
    assert state.gauges()["difficulty/next"] == at and state.gauges()["difficulty/calls"] == 1
    assert rods(["status", str(shared)]) == EXIT_OK
    assert f"4 in step {STEPS}, difficulty {course[STEPS]} (tools " in capsys.readouterr().out
    _, slot, difficulty, task = drawn(shared)[-1]
    assert rods(["inspect", str(shared), task]) == EXIT_OK
    said = capsys.readouterr().out
    assert (
        "base, drawn, train" in said
        and f"drawn (slot {slot}, difficulty {difficulty}, mean " in said
    )


def test_a_run_without_a_pool_opens_an_epoch_every_so_many_steps(tmp_path: Path) -> None:
    run = played(tmp_path, ALONE)
    state = read_state(Run.open(run))
    assert [one.step for one in state.pool.epochs] == [0, 2, 4] and not state.active
    assert {one["role"] for _, _, groups in live_steps(run) for one in groups} == {"drawn"}
    assert len(drawn(run)) == 5 * 8 and verify(run, replay=True).ok


def test_conversations_of_drawn_tasks_are_really_played(tmp_path: Path) -> None:
    """By a policy that is told what is expected, and is as good as its skill: its traces come to
    what is on record, and a better one earns more."""
    told: dict[str, Any] = {
        "policy.plays": True,
        "policy.dialect": "tags",
        "curriculum.stages": [{"reward": "rubric"}],
    }
    told |= ALONE | {"training.steps": 2, "operation.trace_every": 1}
    earned = []
    for name, skill in (("poor", -0.2), ("good", 1.0)):
        (tmp_path / name).mkdir()
        run = played(tmp_path / name, told, **{"policy.skill": skill})
        found = verify(run, replay=True)
        assert found.ok and found.counts["judged episodes"] == 2 * 8 * 4, list(found.lines())
        groups = [group for _, _, groups in live_steps(run) for group in groups]
        assert {tuple(group["reward"]["range"]) for group in groups} == {(-1.0, 1.0)}
        earned.append([one["reward"] for group in groups for one in group["rollouts"]])
    poor, good = (sum(one) / len(one) for one in earned)
    assert poor < -0.3 and good > 0.9


def test_a_start_that_goes_back_takes_the_same_tasks_and_draws_none_again(
    shared: Path, tmp_path: Path
) -> None:
    run = played(tmp_path, SHARED, **{"operation.step_limit": 5})  # two steps behind its checkpoint
    (latest,) = (run / "checkpoints").glob("step_00000005.*")
    shutil.rmtree(latest)
    before = (run / DRAWN).read_bytes()
    played(tmp_path, SHARED)
    assert (run / DRAWN).read_bytes().startswith(before)
    assert drawn(run) == drawn(shared) and live_steps(run) == live_steps(shared)
    assert verify(run, replay=True).ok


def test_another_difficulty_is_drawn_for_anew_and_an_earlier_one_taken_again(copied: Path) -> None:
    run = Run.open(copied)
    before = drawn(copied)
    asked: list[Wanted] = []

    def generate(wanted: Any) -> Any:
        asked.extend(wanted)
        return generator(run)(wanted)

    def again(log: TrainerLog, from_step: int) -> list[AnyTask]:
        log.start(from_step)
        ((slots, source),) = log.state.sources
        assert slots == range(4, 8)
        source.generate = generate  # type: ignore[attr-defined]
        return log.draw(from_step + 1)

    with TrainerLog(run) as log:
        assert [task.id for task in again(log, 6)] == [
            task for step, _, _, task in before if step == 7
        ]
        assert not asked
        pool = [slot.task_id for slot in log.merge(2, 1).slots[:4]]
        tasks = [*map(log.task, pool), *log.draw(7)]
        assert log.write_step(
            7,
            2,
            [group(one, [0] * 4, "drawn" if i > 3 else "active") for i, one in enumerate(tasks)],
        )
        lower = log.state.folds["simulation"].value
        made = log.draw(8)
        assert [(one.step, one.slot, one.difficulty) for one in asked] == [
            (8, slot, lower) for slot in range(4, 8)
        ]
        assert drawn(copied)[:-4] == before and [task.id for task in made] == [
            one[3] for one in drawn(copied)[-4:]
        ]
        with pytest.raises(
            RefusedError, match="tasks are drawn for step 8 of a started attempt, not for step 9"
        ):
            log.draw(9)
    with TrainerLog(run) as log:  # what was drawn and never played stays, and is not drawn twice
        assert again(log, 7) == made and len(asked) == 4


def test_a_task_is_on_the_disk_before_it_is_handed_out(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run.open(copied)
    synced: list[int] = []
    with TrainerLog(run) as log:
        log.start(STEPS)
        log.merge(3, 1)
        monkeypatch.setattr("os.fdatasync", lambda descriptor: synced.append(len(drawn(copied))))
        log.draw(STEPS + 1)
    assert synced[-1] == STEPS * 4 + 4


def rewritten(run: Path, change: Callable[[list[Record]], list[Record]]) -> None:
    """The log of drawn tasks with other records, whose seqs, ids and checksums are right."""
    records = [
        {key: one[key] for key in one if key not in ("seq", "id", "crc")}
        for one in read(run / DRAWN)
    ]
    made = (record(**one) for one in change(records))
    (run / DRAWN).write_bytes(b"".join(line(seq, one) for seq, one in enumerate(made, start=1)))


def edited(records: list[Record]) -> list[Record]:
    task = records[5]["task"]
    return [*records[:5], records[5] | {"task": task | {"system": "Another text."}}, *records[6:]]


def exchanged(records: list[Record]) -> list[Record]:
    """Another task of the same levels, with an id of its own."""
    task = records[5]["task"]
    other = AnyTask.from_json(
        {key: value for key, value in task.items() if key != "id"} | {"system": "Another text."}
    )
    return [*records[:5], records[5] | {"task": other.as_json()}, *records[6:]]


def levelled(records: list[Record]) -> list[Record]:
    task = records[5]["task"]
    levels = task["provenance"]["levels"] | {"tools": 9}
    other = task | {"provenance": task["provenance"] | {"levels": levels}}
    return [*records[:5], records[5] | {"task": other}, *records[6:]]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (edited, "does not match the content"),
        (exchanged, "at difficulty 4"),
        (levelled, "its levels are not those of difficulty 4"),
        (lambda records: [*records[:5], *records[6:]], "none was drawn there"),
        (
            lambda records: [*records, records[5]],
            "slot 5 of step 2 at difficulty 4 was drawn before",
        ),
    ],
)
def test_verify_finds_tasks_that_were_edited_lost_or_drawn_twice(
    copied: Path, change: Callable[[list[Record]], list[Record]], told: str
) -> None:
    assert verify(copied, replay=True).ok
    rewritten(copied, change)
    found = verify(copied)
    assert any(told in problem["what"] for problem in found.problems), found.problems
    assert rods(["verify", str(copied)]) == EXIT_FAILED


def test_verify_draws_the_tasks_again(copied: Path) -> None:
    """One that nobody has played yet may be anything, until it is derived."""
    last = drawn(copied)[-1]

    def further(records: list[Record]) -> list[Record]:
        return [*records, records[-1] | {"step": last[0] + 1}]

    rewritten(copied, further)
    problems = verify(copied, replay=True).problems
    assert problems and all(DRAWN in problem["where"] for problem in problems)


def test_a_log_that_lost_its_end_is_not_written_on(copied: Path, tmp_path: Path) -> None:
    lines = (copied / DRAWN).read_bytes().splitlines(keepends=True)
    (copied / DRAWN).write_bytes(b"".join(lines[:-3]))
    assert any(
        "it lacks 3 of the tasks that step 9" in one["what"] for one in verify(copied).problems
    )
    assert rods_train([str(copied)]) == EXIT_REFUSED
    assert (copied / DRAWN).read_bytes() == b"".join(lines[:-3])


def test_a_trainer_from_outside_cannot_draw(copied: Path) -> None:
    before = (copied / OBSERVATIONS).read_bytes()
    assert rods(["trainer", "merge", str(copied), "--epoch", "0"]) == EXIT_REFUSED
    assert rods(["trainer", "observe", str(copied)]) == EXIT_REFUSED
    assert (copied / OBSERVATIONS).read_bytes() == before


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"source": {"drawn": 0.01}}, "is 0 drawn tasks"),
        ({"source": {"drawn": 0.99}, "training": {"batch_tasks": 8}}, "is 8 drawn tasks"),
        ({"source": {"drawn": 1.0}, "pool": {"static": True}}, "source.drawn = 1 none is made"),
        *(
            (
                {"source": {"drawn": 1.0}, "curriculum": {"stages": [{"reward": kind}]}},
                f"the reward {kind} needs ground truth",
            )
            for kind in ("toolrl", "exact_calls")
        ),
        ({"difficulty": {"hardest": ["luck"]}}, "should be 'tools', 'calls'"),
        (
            {"difficulty": {"down_below": 0.6}},
            r"down_below \(0.6\) must not lie above up_above \(0.5\)",
        ),
    ],
)
def test_a_source_that_cannot_be_is_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        parse_config(values, where="test")
