"""A policy that makes mistakes: ground-truth calls left out, misnamed, or with spoilt arguments,
keyed by a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from rods import dialects
from rods.calls import Call
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import GroundTruth
from rods.interfaces import IDENTITY, Interface
from rods.tasks import Task
from tests.environments import load


def spoilt(call: Call, task: Task, rng: random.Random) -> Call:
    """`call` with one mistake, or as it is."""
    name = call.name
    arguments = dict(call.arguments)
    values: list[Any] = [
        value for turn in task.calls for one in turn for value in one.arguments.values()
    ]
    kind = rng.randrange(7)
    if kind == 0:
        name = rng.choice([f"get_{name}", name.replace("_", ""), f"{name}s", "open_window"])
    elif kind == 1:
        arguments["extra"] = 1
    elif arguments and kind == 2:
        arguments.pop(rng.choice(list(arguments)))
    elif arguments and kind < 6:
        value = rng.choice([*values, "nowhere/at all", "zzz", -5, 123_456, [], True])
        arguments[rng.choice(list(arguments))] = value
    return Call(name, arguments)


def replies(task: Task, dialect: Any, rng: random.Random) -> list[list[str]]:
    """The replies of each turn; the last one ends it."""
    turns = []
    for calls in task.calls:
        made = [spoilt(call, task, rng) for call in calls if rng.random() < 0.7]
        turns.append([dialect.write([call]) for call in made] + [dialect.answer("done")])
    return turns


def play(
    tasks: Sequence[Task], interface: Interface = IDENTITY, dialect: str = "tags", seed: int = 0
) -> list[Trace]:
    """One careless episode a task; what the policy does depends on the seed alone, never on what it
    is shown."""
    form = dialects.load(dialect)  # type: ignore[arg-type]
    jobs = []
    scripts = []
    for number, task in enumerate(tasks):
        world = load(task.environment.name)
        jobs.append(Job(task, world, form, GroundTruth(world, task), interface=interface))
        scripts.append(
            [
                text
                for turn in replies(task, form, random.Random(f"{seed}-{number}"))
                for text in turn
            ]
        )

    def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
        return [Reply(scripts[index].pop(0)) for index, _ in waiting]

    return run_lockstep(jobs, complete)
