"""Writes worlds and the tasks in them, topic by topic: finds the topics in texts (003 §3.1),
builds, assesses, fills with scenarios, keeps what passed, and records what was dropped and why."""

import asyncio
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from rods.asking import Question, Unanswered, together
from rods.canonical import JsonObject, content_id, frozen
from rods.config import Sandbox
from rods.daemon.authors.llm.showing import excerpt
from rods.environments import addressed
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.family.environments.procedural.scenarios import CONFINED, Mode
from rods.family.environments.programs import WorldProgram, placed
from rods.family.environments.world_selection import cosine
from rods.family.environments.written.assessing import (
    Round,
    assess,
    hold,
    played_again,
    problems_of,
)
from rods.family.environments.written.building import (
    BuiltWorld,
    Dropped,
    build,
    control_of,
    corrected,
    write_state,
)
from rods.family.environments.written.record import FORMS, CachedQuestioner
from rods.family.environments.written.scenarios import (
    DoneScenario,
    WrittenScenario,
    done_scenario,
    written_task,
)
from rods.llm import Client, Request, RequestRefused
from rods.tasks import AnyTask, OpenTask, Split
from rods.transcripts import one_line

T = TypeVar("T")


@frozen
class WorldRequest:
    """What is wanted of each topic: so many `scenarios`, in turn of the `modes`."""

    scenarios: int
    modes: Sequence[Mode] = ("told",)
    sandbox: Sandbox = CONFINED


@dataclass
class WrittenWorld:
    """One topic: the world's `name`, "" where it was dropped (`reasons`), its tasks, and how many
    scenarios were dropped for what."""

    topic: str
    name: str = ""
    reasons: tuple[str, ...] = ()
    facts: JsonObject = field(default_factory=dict)
    tasks: list[OpenTask] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        name = self.name or f"dropped: {', '.join(self.reasons)}"
        return f"{name}, {len(self.tasks)} tasks"


async def find_topics(
    authors: CachedQuestioner, texts: Sequence[str], *, are_tasks: bool, embedder: Client
) -> list[str]:
    """Topics of worlds: `texts` themselves, or the domains of the tasks that they are; each once.
    `embedder` is asked for embeddings."""
    topics = await infer_topics(authors, texts) if are_tasks else list(map(one_line, texts))
    embeddings = await embed(embedder, topics) if len(topics) > 1 else None
    unlike = []
    for topic, same in distinct(topics, embeddings, authors.settings.writing.alike):
        if same:
            authors.record.append(
                "dropped", what="topic", reasons=["repeated"], text=topic[:200], of=same[:200]
            )
        else:
            unlike.append(topic)
    return unlike


async def write_worlds(
    authors: CachedQuestioner,
    topics: Sequence[tuple[str, Split]],
    folder: Path,
    request: WorldRequest,
) -> list[WrittenWorld]:
    """A world of each topic, whose tasks are of that split, some at a time. Raises EndpointError,
    BudgetSpent: what was answered by then stands in the record."""
    free = asyncio.Semaphore(authors.settings.writing.worlds)

    async def world(topic: str, split: Split) -> WrittenWorld:
        async with free:
            return await write_world(authors, topic, split, folder, request)

    return await together([world(topic, split) for topic, split in topics])


async def write_world(
    authors: CachedQuestioner, topic: str, split: Split, folder: Path, request: WorldRequest
) -> WrittenWorld:
    """A world of `topic`, kept below `folder`, with the tasks of those of its scenarios that
    pass all controls; from the record, where it was finished before. Raises EndpointError,
    BudgetSpent."""
    settings = authors.settings.writing.model_dump(exclude={"worlds", "embeddings", "alike"})
    models = sorted({endpoint.model for endpoint in authors.client.settings})
    key = content_id([topic, split, request.scenarios, list(request.modes), settings, models])
    if (earlier := authors.record.finished.get(key)) is not None:
        tasks = [
            task
            for entry in earlier["tasks"]
            if isinstance(task := AnyTask.from_json(entry), OpenTask)
        ]
        return WrittenWorld(
            topic,
            earlier["name"],
            tuple(earlier["reasons"]),
            earlier["facts"],
            tasks,
            Counter(earlier["dropped"]),
        )
    written = WrittenWorld(topic)

    def record(given_up: Dropped) -> None:
        authors.record.append(
            "dropped",
            what=given_up.what,
            about=topic,
            reasons=list(given_up.reasons),
            details=[detail[:500] for detail in given_up.details[:20]],
        )

    async def attempt(wanted: Awaitable[T]) -> T | None:
        try:
            try:
                return await wanted
            except Unanswered as unanswered:
                raise Dropped("scenario", [control_of(unanswered)], [unanswered.why]) from None
        except Dropped as given_up:
            written.dropped.update(given_up.reasons[:1])
            record(given_up)
            return None

    def in_folder(world: BuiltWorld, done: list[DoneScenario]) -> tuple[str, list[OpenTask]]:
        """The world with the checks of the scenarios that passed, written to the folder, and their
        tasks."""
        program = with_checks(world.program, [scenario.written for scenario in done])
        name = addressed.keep(program.source(), folder)
        with Environments(request.sandbox) as environments:
            environment = environments.load(f"{folder}/{name}")
            return name, [
                written_task(
                    world.program,
                    environment,
                    scenario,
                    request.modes[scenario.written.number % len(request.modes)],
                    split,
                    models,
                )
                for scenario in done
            ]

    try:
        world = await build(authors, topic, request.sandbox)
        with (
            tempfile.TemporaryDirectory() as scratch,
            Environments(request.sandbox) as environments,
        ):
            one_at_a_time = threading.Lock()  # scenarios ask for the same file side by side

            def load(program: WorldProgram) -> Environment:
                with one_at_a_time:
                    return environments.load(placed(program.source(), Path(scratch)))

            judged = list[Round]()
            environment = await asyncio.to_thread(load, world.program)
            if authors.settings.writing.rounds:
                judged = await assess(authors, world, environment)
            if problems := problems_of(judged):
                world = await corrected(authors, world, problems, request.sandbox)
                environment = await asyncio.to_thread(load, world.program)
                judged = await played_again(authors, world, environment, judged)
            hold(judged, authors.settings.writing.threshold)
            written.facts = {
                "tools": len(world.program.plan.tools),
                "rounds": len(judged),
                "right": sum(not played.wrong for played in judged),
                "corrected": len(problems),
            }
            # the states that the world was controlled in come first
            begins = list(world.states)
            for _ in range(len(begins), request.scenarios):
                state = await attempt(write_state(authors, world.program, environment, begins))
                begins += [] if state is None else [state]
            ended = await together(
                [
                    attempt(done_scenario(authors, world.program, load, number, state))
                    for number, state in enumerate(begins[: request.scenarios])
                ]
            )
            done = [scenario for scenario in ended if scenario is not None]
        written.facts["tokens"] = authors.record.tokens_of[topic]
        written.name, written.tasks = await asyncio.to_thread(in_folder, world, done)
    except Dropped as given_up:
        written.reasons = given_up.reasons
        record(given_up)
    authors.tell(topic, str(written))
    authors.record.append(
        "finished",
        key=key,
        **{**vars(written), "tasks": [task.as_json() for task in written.tasks]},
    )
    return written


def with_checks(program: WorldProgram, scenarios: Sequence[WrittenScenario]) -> WorldProgram:
    """The program with the check functions of these scenarios."""
    every = [part for scenario in scenarios for part in (scenario.checks, scenario.guards)]
    return replace(program, checks={name: code for part in every for name, code in part.items()})


SHOWN = 4_000  # characters of a task
Embedding = Sequence[float]


async def infer_topics(authors: CachedQuestioner, texts: Sequence[str]) -> list[str]:
    """The descriptions of the domains of those texts that have one, in their order; equal ones are
    not joined yet."""

    async def infer(number: int, text: str) -> str | None:
        about = f"text {number}"
        fields = {"task": excerpt(text, SHOWN)}
        try:
            if await authors.ask(
                Question(
                    "topic_filter",
                    fields,
                    FORMS["topic_filter"],
                    lambda answer: answer["stateful"] == "yes",
                    judges=True,
                ),
                about,
            ):
                return await authors.ask(
                    Question(
                        "topic_inference",
                        fields,
                        FORMS["topic_inference"],
                        lambda answer: one_line(answer["description"]),
                    ),
                    about,
                )
            why = "not_stateful"
        except Unanswered as unanswered:
            why = f"unanswered: {unanswered.why}"
        authors.record.append("dropped", what="text", reasons=[why], text=text[:200])
        return None

    topics = await together([infer(number, text) for number, text in enumerate(texts)])
    return [topic for topic in topics if topic is not None]


async def embed(client: Client, texts: Sequence[str]) -> list[Embedding] | None:
    """An embedding of each text, from the first endpoint that offers them; None where none does.
    Raises EndpointError, BudgetSpent."""
    for backbone in client.backbones:
        try:
            answer = await client.complete(Request("topics", texts=list(texts), backbone=backbone))
        except RequestRefused:
            continue
        return list(answer.embeddings)
    return None


def distinct(
    topics: Sequence[str], embeddings: Sequence[Embedding] | None, alike: float
) -> list[tuple[str, str]]:
    """Each topic with the earlier one that it repeats, "" where it repeats none. Without embeddings
    only equal ones repeat each other."""
    firsts: list[int] = []
    pairs = []

    def repeats(number: int, at: int) -> bool:
        if embeddings is None:
            return topics[at].casefold() == topics[number].casefold()
        return cosine(embeddings[at], embeddings[number]) >= alike

    for number, topic in enumerate(topics):
        same = next((topics[at] for at in firsts if repeats(number, at)), "")
        if not same:
            firsts.append(number)
        pairs.append((topic, same))
    return pairs
