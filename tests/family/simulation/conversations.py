"""Conversations with drawn tasks: a witness that does what is expected, and how it is played."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from rods import dialects
from rods.asking import Question
from rods.calls import Call
from rods.conversations import Persona, Rubric
from rods.environments.base import reference
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import Reply, Trace
from rods.family.simulation.difficulty import Levels, levels
from rods.family.simulation.generating import draw_task, open_task
from rods.family.simulation.repository import shipped
from rods.family.simulation.settings import DifficultyRules, Dimension
from rods.players import Players
from rods.tasks import OpenTask
from tests.environments import ENVIRONMENTS

TAGS = dialects.load("tags")
WORLD = ENVIRONMENTS.load("repository")
DONE = TAGS.answer("That is done.")
# The dimensions that each ablation of 001 §4.3 keeps at the highest level.
ABLATIONS: Mapping[str, tuple[Dimension, ...]] = {
    "tool": ("tools", "calls"),
    "turn": ("turns",),
    "sys": ("system",),
    "user": ("persona", "ambiguity"),
    "crit": ("criteria",),
}


@cache
def drawn(random_seed: int = 4) -> tuple[OpenTask, ...]:
    """A hundred tasks of all difficulties."""
    rules = DifficultyRules()
    return tuple(
        one_drawn(levels(rules, step, random_seed, step, 0), random_seed, step)
        for step in range(1, 101)
    )


def one_drawn(given: Levels, random_seed: int = 4, step: int = 1) -> OpenTask:
    return open_task(draw_task(shipped(), given, random_seed, step, 0), reference(WORLD))


def expected(task: OpenTask) -> tuple[Call, ...]:
    assert isinstance(task.goal, Rubric)
    return task.goal.calls


def witness(task: OpenTask, calls: Iterable[Call] | None = None) -> list[str]:
    """The replies of a policy that asks for what is hidden and then makes the expected calls, as
    early as the requests of the user are shared out over its turns."""
    assert isinstance(task.user, Persona)
    made = list(expected(task) if calls is None else calls)
    turns = 1 + len(task.user.further)
    small, more = divmod(len(made), turns)
    replies: list[str] = []
    if task.provenance["hidden"]:
        replies.append(TAGS.answer(f"Could you tell me: {', '.join(task.provenance['hidden'])}?"))
    for turn in range(turns):
        part = [made.pop(0) for _ in range(small + (turn < more))]
        replies += [*([TAGS.write(part)] if part else []), DONE]
    return replies


def played(jobs: Sequence[Job], replies: Sequence[Sequence[str]]) -> list[Trace]:
    left: list[Iterator[str]] = [iter(one) for one in replies]
    return run_lockstep(
        jobs, lambda waiting: [Reply(next(left[index], DONE)) for index, _ in waiting]
    )


def play(players: Players, task: OpenTask, replies: Sequence[str]) -> Trace:
    return played([players.job(task, TAGS, max_steps=8)], [replies])[0]


def again(question: Question[Any], problem: str) -> Question[Any]:
    """The question as it is asked after an answer with a problem; empty: as it is asked first."""
    if not problem:
        return question
    fields = {**question.fields, "problem": problem}
    return replace(question, fields=fields, sections=(*question.sections, "mend"))
