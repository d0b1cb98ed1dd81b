"""What became of turns that need a house rule is read from their calls and verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.teaching_practice import shares
from rods import dialects
from rods.calls import Call
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import goal_of
from rods.family.house_rules.house import House
from rods.family.house_rules.keeping import house_tasks
from rods.tasks import Task

pytestmark = pytest.mark.needs("house_rules")
COMPACT, HOUSE = dialects.load("compact"), House(3)


def played(task: Task, calls: Sequence[Sequence[Call]]) -> Trace:
    """An episode with these calls, by turn."""
    replies = [text for turn in calls for text in (*(COMPACT.write([call]) for call in turn), COMPACT.answer("done"))]

    def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
        return [Reply(replies.pop(0)) for _ in waiting]

    return run_lockstep([Job(task, HOUSE, COMPACT, goal_of(HOUSE, task))], complete)[0]


def test_a_turn_is_known_without_a_refusal_and_found_after_one() -> None:
    task = next(
        task for task in house_tasks(HOUSE, 3, 8, 10) if len({turn for turn, _ in task.provenance["rules"]}) == 1
    )
    ((turn, tool), *_) = task.provenance["rules"]
    astray = [[*([Call(tool, {})] if number == turn else []), *calls] for number, calls in enumerate(task.calls)]
    known, found, neither = (played(task, calls) for calls in (task.calls, astray, [()] * len(task.calls)))
    assert shares([(task, known)]) == (1, 0) and shares([(task, found)]) == (0, 1)
    assert shares([(task, known), (task, found), (task, neither), (task, neither)]) == (0.25, 0.25)
