"""Writes worlds and the tasks in them, topic by topic: builds, assesses, fills with scenarios, keeps what passed, and
records what was dropped and why."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rods.canonical import content_id
from rods.config import Sandbox
from rods.environments import addressed
from rods.environments.loading import Environments
from rods.llm import Client
from rods.tasks import AnyTask, OpenTask, Split
from worlds.checking.programs import LONGEST
from worlds.generated.growing import CONFINED
from worlds.generated.scenarios import Mode
from worlds.written.asking import Authors, together
from worlds.written.assessing import Assessment, assess
from worlds.written.programs import BuiltWorld, Dropped, WorldProgram, build
from worlds.written.scenarios import DoneScenario, WrittenScenario, as_task, find_witness, write_scenario
from worlds.written.topics import distinct, embed, infer_topics


@dataclass(frozen=True, slots=True)
class WorldOrder:
    """What is wanted of each topic: so many `scenarios`, in turn of the `modes`."""

    scenarios: int
    modes: Sequence[Mode] = ("told",)
    sandbox: Sandbox = CONFINED


@dataclass(slots=True)
class WrittenWorld:
    """One topic: the world's `name`, "" where it was dropped (`reasons`), its tasks, and how many scenarios were
    dropped for what."""

    topic: str
    name: str = ""
    reasons: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    tasks: list[OpenTask] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


async def find_topics(authors: Authors, texts: Sequence[str], *, are_tasks: bool, embedder: Client) -> list[str]:
    """Topics of worlds: `texts` themselves, or the domains of the tasks that they are; each once. `embedder` is asked
    for embeddings."""
    topics = await infer_topics(authors, texts) if are_tasks else [" ".join(text.split()) for text in texts]
    embeddings = await embed(embedder, topics) if len(topics) > 1 else None
    found = []
    for topic, same in distinct(topics, embeddings, authors.settings.writing.alike):
        if same:
            authors.record.append("dropped", what="topic", reasons=["repeated"], text=topic[:200], of=same[:200])
        else:
            found.append(topic)
    return found


async def write_worlds(
    authors: Authors, topics: Sequence[tuple[str, Split]], folder: Path, order: WorldOrder
) -> list[WrittenWorld]:
    """A world of each topic, whose tasks are of that split, some at a time. Raises EndpointError, BudgetSpent: what was
    answered by then stands in the record."""
    free = asyncio.Semaphore(authors.settings.writing.worlds)

    async def one(topic: str, split: Split) -> WrittenWorld:
        async with free:
            return await write_world(authors, topic, split, folder, order)

    return await together([one(topic, split) for topic, split in topics])


async def write_world(authors: Authors, topic: str, split: Split, folder: Path, order: WorldOrder) -> WrittenWorld:
    """A world of `topic`, kept below `folder`, with the tasks of those of its scenarios that pass all controls; from
    the record, where it was finished before. Raises EndpointError, BudgetSpent."""
    settings = authors.settings.writing.model_dump(exclude={"worlds", "embeddings", "alike"})
    models = sorted({one.model for one in authors.client.settings})
    key = content_id([topic, split, order.scenarios, list(order.modes), settings, models])
    if (known := authors.record.finished.get(key)) is not None:
        tasks = [task for each in known["tasks"] if isinstance(task := AnyTask.from_json(each), OpenTask)]
        return WrittenWorld(
            topic, known["name"], tuple(known["reasons"]), known["facts"], tasks, Counter(known["dropped"])
        )
    written = WrittenWorld(topic)
    try:
        world = await build(authors, topic, order.sandbox)
        assessed = await _assessed(authors, world, order.sandbox)
        written.facts = {"tools": len(world.program.plan.tools), "rounds": assessed.rounds, "right": assessed.right}
        done = await _scenarios(authors, world, order, written.dropped)
        kept = asyncio.to_thread(_kept, models, world, done, split, folder, order, written.dropped)
        written.name, written.tasks = await kept
    except Dropped as dropped:
        written.reasons = dropped.reasons
        _record(authors, topic, dropped)
    authors.record.append(
        "finished",
        key=key,
        topic=topic,
        name=written.name,
        reasons=list(written.reasons),
        facts=written.facts,
        dropped=dict(written.dropped),
        tasks=[task.as_json() for task in written.tasks],
    )
    return written


async def _assessed(authors: Authors, world: BuiltWorld, sandbox: Sandbox) -> Assessment:
    if not authors.settings.writing.rounds:
        return Assessment(0, 0)
    with tempfile.TemporaryDirectory() as scratch, Environments(sandbox) as environments:
        place = placed(world.program, Path(scratch))
        return await assess(authors, world, await asyncio.to_thread(environments.load, place))


async def _scenarios(
    authors: Authors, world: BuiltWorld, order: WorldOrder, dropped: Counter[str]
) -> list[DoneScenario]:
    """The scenarios of a world that pass all controls. Written at the same time, then played in one world that has the
    checks of all of them."""

    async def attempt(work: Any) -> Any:
        try:
            return await work
        except Dropped as given_up:
            dropped.update(given_up.reasons[:1])
            _record(authors, world.program.plan.topic, given_up)
            return None

    with tempfile.TemporaryDirectory() as scratch, Environments(order.sandbox) as environments:
        place = placed(world.program, Path(scratch))
        scenarios = [write_scenario(authors, world.program, environments, place, at) for at in range(order.scenarios)]
        found = await together([attempt(each) for each in scenarios])
        written: list[WrittenScenario] = [each for each in found if each is not None]
        program = with_checks(world.program, written)
        environment = await asyncio.to_thread(environments.load, placed(program, Path(scratch)))
        solved = await together([attempt(find_witness(authors, program, environment, each)) for each in written])
    return [each for each in solved if each is not None]


def _kept(
    models: Sequence[str],
    world: BuiltWorld,
    done: Sequence[DoneScenario],
    split: Split,
    folder: Path,
    order: WorldOrder,
    dropped: Counter[str],
) -> tuple[str, list[OpenTask]]:
    """The world with the checks of the scenarios that passed, kept in the folder, and their tasks."""
    fitting = list(done)
    while len((program := with_checks(world.program, [each.written for each in fitting])).source()) > LONGEST:
        fitting.pop()
        dropped["room"] += 1
    name = addressed.keep(program.source(), folder)
    with Environments(order.sandbox) as environments:
        environment = environments.load(f"{folder}/{name}")
        modes = [order.modes[each.written.number % len(order.modes)] for each in fitting]
        tasks = [
            as_task(world.program, environment, each, mode, split, models)
            for each, mode in zip(fitting, modes, strict=True)
        ]
    return name, tasks


def with_checks(program: WorldProgram, scenarios: Sequence[WrittenScenario]) -> WorldProgram:
    """The program with the check functions of these scenarios."""
    every = [part for each in scenarios for part in (each.checks, each.guards)]
    return replace(program, checks={name: code for part in every for name, code in part.items()})


def placed(program: WorldProgram, folder: Path) -> str:
    """Writes a program below `folder`; what it is loaded by."""
    return f"{folder}/{addressed.keep(program.source(), folder)}"


def _record(authors: Authors, topic: str, dropped: Dropped) -> None:
    details = [each[:500] for each in dropped.details[:20]]
    authors.record.append("dropped", what=dropped.what, about=topic, reasons=list(dropped.reasons), details=details)
