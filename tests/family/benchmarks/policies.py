"""Policies whose scores are known beforehand, on a benchmark's items."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rods.calls import Call
from rods.episode.drivers import Job
from rods.episode.engine import NeedText, Reply
from rods.evaluation.scoring import by_task
from rods.family.benchmarks import episodes
from rods.family.benchmarks.contract import Benchmark, chosen, slots
from rods.family.benchmarks.folder import Episode, Settings
from rods.tasks import AnyTask, Task

# what it does in a turn of an item: calls, or words
Policy = Callable[[AnyTask, int], Sequence[Call] | str]


def nothing(task: AnyTask, turn: int) -> str:
    return "I cannot do that."


def with_fault(calls: Sequence[Call]) -> list[Call]:
    """The calls with an argument that no tool has."""
    return [
        Call(call.name, {**call.arguments, "an_argument_that_no_tool_has": 1}) for call in calls
    ]


def truth(task: AnyTask, turn: int) -> str:
    """A right answer to one of BFCL's questions."""
    answers = task.provenance["answers"] or ("nothing",)
    return f"{{'answer': '{answers[0]}', 'context': 'The user said so.'}}"


def answer_in_a_call(task: AnyTask, turn: int) -> Sequence[Call] | str:
    """One that stands in a call, and not in the last output."""
    answers = task.provenance["answers"]
    return [Call(task.tools[0], {"text": answers[0]})] if answers else ""


def by_turn(task: AnyTask, turn: int) -> Sequence[Call]:
    """The calls of the ground truth."""
    assert isinstance(task, Task)
    return task.calls[turn]


def by_turn_with_fault(task: AnyTask, turn: int) -> Sequence[Call]:
    return with_fault(by_turn(task, turn))


def resolved_by_nothing(task: AnyTask) -> float:
    """The share of the turns in which no call is right."""
    assert isinstance(task, Task)
    return sum(not calls for calls in task.calls) / task.expected


class Replies(episodes.EndpointReplies):
    """Of each turn what the policy does in it first, then a sentence."""

    def __init__(self, policy: Policy, job: Job, sample: int) -> None:
        self.job = job
        self._policy = policy
        self._turn = -1

    async def reply(self, need: NeedText) -> Reply:
        made = self._policy(self.job.task, need.turn) if need.turn != self._turn else ()
        self._turn = need.turn
        dialect = self.job.dialect
        if made and not isinstance(made, str):
            return Reply(dialect.write(made))
        return Reply(dialect.answer(str(made or "I cannot do that.")))


def earned(
    benchmark: Benchmark, settings: Settings, policy: Policy, user: Any = None
) -> Mapping[str, Mapping[str, float]]:
    """What the policy earns by measure and item; `user` speaks in the place of a model."""
    maker = benchmark.maker(settings)
    if user is not None:
        job = maker.job
        own: Any = maker
        own.job = lambda task, before=None: replace(job(task, before), user=user)
    ended: list[Episode] = []
    left = slots(benchmark, chosen(benchmark, settings), 1)
    replies = partial(Replies, policy)
    stopped = asyncio.run(episodes.play(replies, maker, left, 64, ended.append, lambda: False))
    assert not stopped.total()
    scores = ((episode.task, benchmark.score(episode).measures) for episode in ended)
    return by_task(benchmark.measures, [score for score in scores if score[1]])
