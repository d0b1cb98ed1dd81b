"""`rods env generate`: worlds that are drawn by chance, controlled, and the tasks in them; and
`rods env write`."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt

from rods import logs
from rods.commands import Json
from rods.config import Sandbox, read_config
from rods.console.output import RandomSeed, print_result
from rods.errors import UserError, say
from rods.family.environments.procedural.scenarios import CONFINED, Mode, grow
from rods.family.environments.procedural.skeletons import draw_skeleton, topic_names
from rods.family.environments.written import writing
from rods.family.environments.written.record import CachedQuestioner, WritingRecord
from rods.files import read_regular
from rods.llm import Budget, Client
from rods.tasks import OpenTask, Split, read_tasks, task_lines

Topics = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]
Conversation = Annotated[
    Literal["told", "asked", "both"],
    Parameter(help="Whether users say everything at once, are asked, or both."),
]
LowestTier = Annotated[
    Literal["limits", "landlock", "bubblewrap"],
    Parameter(help="What the sandbox must reach (docs/sandbox.md)."),
]


def options_of(mode: Conversation, lowest_tier: LowestTier) -> tuple[tuple[Mode, ...], Sandbox]:
    """What these options mean: the modes of tasks, and the sandbox in which worlds are
    controlled."""
    return ("told", "asked") if mode == "both" else (mode,), CONFINED.model_copy(
        update={"lowest_tier": lowest_tier}
    )


def generate_worlds(
    folder: Path,
    /,
    *,
    worlds: PositiveInt = 10,
    scenarios: PositiveInt = 20,
    held_out: NonNegativeInt = 0,
    held_out_topics: Topics = (),
    topics: Topics = (),
    mode: Conversation = "told",
    random_seed: RandomSeed = 0,
    lowest_tier: LowestTier = "landlock",
    as_json: Json = False,
) -> int:
    """Draw worlds and scenarios by chance, hold them to their controls, and write those that pass.
    Exits 1 where no task is left.

    Args:
        folder: Where to write environments/ and tasks.jsonl.
        worlds: How many worlds to draw.
        scenarios: How many scenarios to draw in each.
        held_out: How many of the worlds, the last ones, have their tasks held out.
        held_out_topics: Topics whose worlds are held out as well.
        topics: Topics of the worlds. All when left out.
    """
    for option, named in (("--topics", topics), ("--held-out-topics", held_out_topics)):
        if unknown := set(named) - set(topic_names()):
            raise UserError(
                f"no topic is called {', '.join(sorted(unknown))}",
                where=option,
                remedy=f"there are {', '.join(topic_names())}",
            )
    modes, sandbox = options_of(mode, lowest_tier)
    tasks: list[OpenTask] = []
    refused: dict[str, list[str]] = {}
    dropped: Counter[str] = Counter()
    for number in range(worlds):
        apart = (
            number >= worlds - held_out
            or draw_skeleton(random_seed, number, topics).topic in held_out_topics
        )
        split: Split = "test" if apart else "train"
        grown = grow(folder, random_seed, number, scenarios, modes, split, sandbox, topics)
        if not grown.report.ok:
            refused[grown.name] = [str(fault) for fault in grown.report.faults]
        tasks += grown.tasks
        dropped += grown.dropped
        if not as_json:
            say(f"{grown.name} ({grown.skeleton.topic}): {len(grown.tasks)} tasks", aside=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tasks.jsonl").write_bytes(task_lines(tasks))
    figures = {
        "worlds": worlds - len(refused),
        "refused": refused,
        "tasks": len(tasks),
        "dropped": dropped,
    }
    lines = [f"{name} refused: {'; '.join(faults)}" for name, faults in refused.items()]
    lines.append(
        f"{worlds - len(refused)} of {worlds} worlds, {len(tasks)} tasks in "
        f"{folder / 'tasks.jsonl'}"
    )
    if dropped:
        lines.append(f"  dropped: {counts(dropped)}")
    print_result(as_json, figures, lines)
    return 0 if tasks else 1


def write_worlds(
    folder: Path,
    /,
    *,
    config: Path,
    topics: Path | None = None,
    from_tasks: Path | None = None,
    worlds: NonNegativeInt = 0,
    scenarios: PositiveInt = 10,
    held_out: NonNegativeInt = 0,
    mode: Conversation = "told",
    random_seed: RandomSeed = 0,
    lowest_tier: LowestTier = "landlock",
    as_json: Json = False,
) -> int:
    """Have language models write worlds and scenarios, hold them to their controls, and write those
    that pass. Given again, it goes on where it was interrupted. Exits 1 where no task is left.

    Args:
        folder: Where to write environments/, tasks.jsonl and written.jsonl.
        config: The TOML file with [[operation.endpoints]], [operation.writing] and its roles.
        topics: A file of topics, one a line.
        from_tasks: Instead: texts to infer topics from, a file of tasks (.jsonl) or one a line.
        worlds: How many topics to take, the first ones; 0: all.
        scenarios: How many scenarios to write in each world.
        held_out: How many of the topics, the last ones, have their tasks held out.
    """
    if (topics is None) == (from_tasks is None):
        raise UserError(
            "give --topics or --from-tasks",
            where="rods env write",
            remedy="one of the two, and a file",
        )
    logs.configure("rods", "warning")
    operation = read_config(config).operation
    texts = _texts(topics or from_tasks or Path(), tasks=from_tasks is not None)
    request = writing.WorldRequest(scenarios, *options_of(mode, lowest_tier))
    named = operation.writing.embeddings
    hosts = [host.giving_up for host in operation.endpoints]
    writers = [host for host in hosts if (host.name or host.model) != named]
    embedders = [host for host in hosts if named in ("", host.name or host.model)]
    if named and not embedders:
        raise UserError(
            "no endpoint has this name",
            where="operation.writing.embeddings",
            remedy=f"{named!r} is none",
        )

    def progress(line: str) -> None:
        if not as_json:
            say(line, aside=True)

    async def all_of_it(record: WritingRecord) -> list[writing.WrittenWorld]:
        budget = Budget(operation.budgets, tokens=record.tokens, requests=record.requests)
        async with (
            Client(writers, budget=budget, sink=record.use) as client,
            Client(embedders, budget=budget, sink=record.use) as embedder,
        ):
            authors = CachedQuestioner(client, record, operation, random_seed, progress)
            chosen = await writing.find_topics(
                authors, texts, are_tasks=from_tasks is not None, embedder=embedder
            )
            chosen = chosen[: worlds or None]
            splits: list[Split] = [
                "train" if at < len(chosen) - held_out else "test" for at in range(len(chosen))
            ]
            return await writing.write_worlds(
                authors, list(zip(chosen, splits, strict=True)), folder, request
            )

    with WritingRecord(folder) as record:
        written = asyncio.run(all_of_it(record))
    tasks = [task for world in written for task in world.tasks]
    (folder / "tasks.jsonl").write_bytes(task_lines(tasks))
    summaries = [{**vars(world), "tasks": len(world.tasks)} for world in written]
    print_result(as_json, summaries, _lines(written, record, folder))
    return 0 if tasks else 1


def _lines(
    written: Sequence[writing.WrittenWorld], record: WritingRecord, folder: Path
) -> Iterator[str]:
    for world in written:
        yield f"{world.topic[:80]}: {world}"
        if world.dropped:
            yield f"  scenarios dropped: {counts(world.dropped)}"
    sound = [world for world in written if world.name]
    tasks = sum(len(world.tasks) for world in sound)
    yield f"{len(sound)} of {len(written)} worlds, {tasks} tasks in {folder / 'tasks.jsonl'}"
    yield (
        f"  {record.requests} requests, {record.tokens} tokens; what was dropped and why: "
        f"{record.path}"
    )


def counts(reasons: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())


def _texts(path: Path, *, tasks: bool) -> list[str]:
    """Topics, or texts of tasks: all that a user says at once."""
    if tasks and path.suffix == ".jsonl":
        texts = [" ".join(task.texts) for task in read_tasks(path)]
    else:
        try:
            texts = [line.strip() for line in read_regular(path).decode("utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"cannot be read: {error}", where=path, remedy="a text file, one a line"
            ) from error
    if not (texts := [text for text in texts if text]):
        raise UserError("holds no text", where=path, remedy="write one a line")
    return texts
