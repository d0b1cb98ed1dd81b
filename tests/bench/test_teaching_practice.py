"""What became of turns that need a house rule is read from their calls and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.teaching_practice import begun_as, shares, trained_progress
from bench.teaching_study import STUDY
from rods import dialects
from rods.buffers.trainer_log import TrainerLog
from rods.calls import Call
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import goal_of
from rods.family.house_rules.house import House
from rods.family.house_rules.keeping import house_tasks
from rods.observations import Group, Rollout
from rods.tasks import Task
from tests.daemon.runs import make_run

pytestmark = pytest.mark.needs("house_rules")
COMPACT = dialects.load("compact")
HOUSE = House(3)


def played(task: Task, calls: Sequence[Sequence[Call]]) -> Trace:
    """An episode with these calls, by turn."""
    replies = [
        text
        for turn in calls
        for text in (*(COMPACT.write([call]) for call in turn), COMPACT.answer("done"))
    ]

    def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
        return [Reply(replies.pop(0)) for _ in waiting]

    return run_lockstep([Job(task, HOUSE, COMPACT, goal_of(HOUSE, task))], complete)[0]


def test_a_turn_is_known_without_a_refusal_and_found_after_one() -> None:
    task = next(
        task
        for task in house_tasks(HOUSE, 3, 8, 10)
        if len({turn for turn, _ in task.provenance["rules"]}) == 1
    )
    ((turn, tool), *_) = task.provenance["rules"]
    astray = [
        [*([Call(tool, {})] if number == turn else []), *calls]
        for number, calls in enumerate(task.calls)
    ]
    known, found, neither = (
        played(task, calls) for calls in (task.calls, astray, [()] * len(task.calls))
    )
    assert shares([(task, known)]) == (1, 0, 0) and shares([(task, found)]) == (0, 1, 1)
    assert shares([(task, known), (task, found), (task, neither), (task, neither)]) == (
        0.25,
        0.25,
        1,
    )


def test_a_right_guess_is_the_first_call_after_a_refusal() -> None:
    task = next(task for task in house_tasks(HOUSE, 3, 8, 10) if task.provenance["rules"])
    turn, tool = task.provenance["rules"][0]
    twice = [
        [*([Call(tool, {})] * 2 if number == turn else []), *calls]
        for number, calls in enumerate(task.calls)
    ]
    assert shares([(task, played(task, twice))])[2] == 0


def test_training_progress_is_told_by_quarter_and_of_tasks_without_a_tool(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", {"training": {"batch_tasks": 2, "steps": 8}, "sync": "lockstep"}
    )
    trained = [task for task in run.tasks if task.split == "train"]
    without, other = (
        next(task.id for task in trained if (task.type == "miss_func") is is_it)
        for is_it in (True, False)
    )
    log = TrainerLog(run)
    log.start()
    log.merge(0, 1)

    def group(name: str, resolved: int) -> Group:
        return Group(
            name,
            1,
            "identity",
            "progress",
            (0.0, 1.0),
            (Rollout(resolved, 4, 0, 0.0, 0.0, "finished"),) * 2,
        )

    log.write_step(1, 0, [group(without, 1), group(other, 3)])
    log.write_step(2, 0, [group(without, 0), group(other, 4)])
    log.write_step(3, 0, [group(other, 2), group(other, 4)])
    log.close()
    quarters = ("1", 0.5), ("1, miss_func", 0.125), ("2", 0.75)
    assert trained_progress(tmp_path / "run") == {
        f"training progress in quarter {part}": mean for part, mean in quarters
    }


def test_the_start_is_played_once_but_for_tasks_that_tell_the_rules() -> None:
    others = {
        name: begun for name in STUDY.conditions if (begun := begun_as(name)) != "static data"
    }
    assert others == {"rules told": "rules told"}
