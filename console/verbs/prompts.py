"""`rods prompts`: every prompt that a seed would bring, as it would be sent, before anything is paid for.

`python -m console.verbs.prompts` writes the examples in docs/prompts/; a test compares them.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from buffers.run.run import Run
from console.follower import Follower
from console.output import RunFolder, print_json, print_lines
from console.stub_model import NAME, StubModel
from console.task_history import task_history
from console.verbs.inspect import TaskId
from daemon.rehearsal import WHEN, Rehearsal, rehearse, rehearse_drawn
from prompts import load
from rods.commands import Json
from rods.config import Config, DifficultyRules, Endpoint, parse_config
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.llm import Client, Completion, Request
from rods.llm.wire import CHARACTERS_A_TOKEN
from rods.rules.difficulty import levels
from rods.simulation.generating import draw_task
from rods.simulation.roles import Simulation, ask_for_task, ask_tool, ask_user, ask_verifier
from rods.tasks import OpenTask, Task
from worlds import desk
from worlds.repository import shipped
from worlds.written.asking import Authors
from worlds.written.record import WritingRecord
from worlds.written.topics import infer_topics
from worlds.written.writing import WorldOrder, write_worlds

PAGES = Path(__file__).parent.parent.parent / "docs" / "prompts"
Tagged = Annotated[bool, Parameter(negative="", help="As an endpoint is asked that holds answers to no schema.")]


def prompts(run: RunFolder, seed: TaskId, /, *, tagged: Tagged = False, as_json: Json = False) -> None:
    """Print every prompt of a seed as it would be sent, with its role's settings and token counts. No endpoint is
    asked: what a prompt builds on is filled in by chance and by rule."""
    opened, found = Run.open(run), task_history(Follower(run), seed)
    environment = opened.environments.load(found.task.environment.name)
    endpoints = opened.config.operation.endpoints
    structured = not tagged and all(endpoint.structured for endpoint in endpoints)
    one, root = found.task, found.lineage[0]
    if isinstance(one, OpenTask):
        rehearsal = asyncio.run(rehearse_drawn(opened.config, environment, one, structured=structured))
    else:
        assert isinstance(one, Task) and isinstance(root, Task)
        rehearsal = _rehearsed(opened.config, environment, one, root, structured=structured)
    if as_json:
        print_json({"missing": rehearsal.missing, "prompts": [as_record(asked) for asked in rehearsal.questions]})
        return
    if opened.config.pipeline.author == "procedural":
        print_lines(['pipeline.author is "procedural": this run asks no model; with "llm" it would ask', ""])
    for number, asked in enumerate(rehearsal.questions, start=1):
        print_lines([f"===== {number}. {title(asked)}", *_lines(asked), ""])
    print_lines(summary(rehearsal))


def as_record(asked: Request) -> dict[str, Any]:
    """A prompt with its settings."""
    return {
        "role": asked.stage,
        "template": asked.template,
        "when": WHEN.get(asked.stage, ""),
        "tokens_in": tokens(asked),
        "max_tokens": asked.max_tokens,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "thinking": asked.thinking,
        "messages": asked.messages,
        "schema": asked.schema,
    }


def tokens(asked: Request) -> int:
    """About how many tokens the messages are: four characters each."""
    return sum(len(message["content"]) for message in asked.messages) // CHARACTERS_A_TOKEN


def title(asked: Request) -> str:
    """Role, template and settings in a line."""
    thinking = {None: "as the server has it", True: "on", False: "off"}[asked.thinking]
    when = f", {WHEN[asked.stage]}" if asked.stage in WHEN else ""
    return (
        f"{asked.stage} ({asked.template}){when}: about {tokens(asked)} tokens in, at most {asked.max_tokens} out; "
        f"temperature {asked.temperature:g}, top-p {asked.top_p:g}, thinking {thinking}"
    )


def summary(rehearsal: Rehearsal) -> Iterator[str]:
    """What the seed's own way comes to, and what could not be asked."""
    way = [asked for asked in rehearsal.questions if asked.stage not in WHEN]
    yield (
        f"{len(way)} prompts on the way of a seed that goes well, about {sum(map(tokens, way))} tokens in and at most "
        f"{sum(asked.max_tokens for asked in way)} out (with four characters a token)"
    )
    for why in rehearsal.missing:
        yield f"what builds on this could not be filled in: {why}"


def _lines(asked: Request) -> Iterator[str]:
    for message in asked.messages:
        yield f"--- {message['role']}"
        yield from message["content"].splitlines()
    if asked.schema is not None:
        yield "--- schema"
        yield orjson.dumps(asked.schema).decode()


def _rehearsed(config: Config, environment: Environment, seed: Task, root: Task, *, structured: bool) -> Rehearsal:
    with ThreadPoolExecutor(1) as threads:
        return asyncio.run(rehearse(config, environment, seed, root, threads, structured=structured))


def pages() -> dict[str, str]:
    """The examples by file name: one prompt of each template about tasks of desk, and of each role of a simulated
    environment, with tags, which show the form of the answer."""
    found: dict[str, str] = {}
    tasks = [task for task in desk.generate(7, 160, 4) if task.split == "train"]
    for type, calls in (
        ("base", "batched"),
        ("base", "per_turn"),
        ("miss_param", "per_turn"),
        ("miss_func", "per_turn"),
    ):
        stages = {"stages": [{"feedback": "agents"}]}
        config = parse_config(
            {"pipeline": {"author": "llm", "calls": calls}, "curriculum": stages}, where="docs/prompts"
        )
        seeds = [task for task in tasks if task.type == type]
        environment = Environments().load("desk")
        for seed in seeds:
            for asked in _rehearsed(config, environment, seed, seed, structured=False).questions:
                name = asked.template.partition("@")[0]
                found.setdefault(f"{name}.md", _page(name, title(asked), asked.messages))
            if type != "miss_func" or "miss_func.md" in found:
                break  # not of every seed can more than one function be taken away
    for one in _simulations():
        about = f"{one.role} ({one.role}@{load(one.role).hash}), about tools of the project's repository"
        found[f"{one.role}.md"] = _page(one.role, about, one.messages(constrained=False))
    for name, request in _writings().items():
        found[f"{name}.md"] = _page(name, title(request), request.messages)
    return found


class _Playing(Client):
    """Answers by the stub's rules, in tags, and keeps the first request of each template."""

    def __init__(self) -> None:
        super().__init__([Endpoint(model=NAME, urls=("http://127.0.0.1:9/v1",))])
        self.stub, self.asked = StubModel(), dict[str, Request]()

    def draw(self, chance: random.Random) -> str:
        return ""

    def constrains(self, backbone: str) -> bool:
        return False

    def thinking_tokens(self, backbone: str) -> int:
        return 0

    async def complete(self, request: Request) -> Completion:
        self.asked.setdefault(request.stage, request)
        return Completion(self.stub.answer({"messages": request.messages}), "stop", NAME, "")


@cache
def _writings() -> dict[str, Request]:
    """One question to each role that writes worlds: from a text to a topic, a world and a scenario of it."""
    playing = _Playing()
    operation = parse_config({"operation": {"writing": {"rounds": 1}}}, where="docs/prompts").operation
    with tempfile.TemporaryDirectory() as folder, WritingRecord(Path(folder)) as record:
        authors = Authors(playing, record, operation)

        async def write() -> None:
            (topic,) = await infer_topics(authors, ["Lend me the book about clouds until friday."])
            await write_worlds(authors, [(topic, "train")], Path(folder), WorldOrder(scenarios=1))

        asyncio.run(write())
    return dict(sorted(playing.asked.items()))


def _simulations() -> Iterator[Simulation[Any]]:
    """One question to each role of a simulated environment, in the first turn of a drawn task."""
    given = levels(DifficultyRules(soft=0.0), 30, 0, 1, 0)
    task = draw_task(shipped(), given, 0, 1, 0)
    tools = [shipped().tools[name].tool for name in task.tools]
    said = f"user: {task.first_query}"
    asks = "assistant: One moment. Is there anything else that I should know?"
    called = f"assistant calls: {task.calls[0]}"
    yield ask_for_task(shipped(), tools, given)
    yield ask_tool(task, tools, said, task.calls[0])
    yield ask_user(task, tools, f"{said}\n{asks}")
    yield ask_verifier(task, tools, f"{said}\n{called}\n{asks}")


def _page(name: str, about: str, messages: Iterable[Mapping[str, str]]) -> str:
    body = "\n\n".join(f"{one['role']}:\n\n```text\n{one['content']}\n```" for one in messages)
    return f"# {name}\n\n{about}.\n\n{body}\n"


if __name__ == "__main__":
    for name, text in pages().items():
        (PAGES / name).write_text(text, encoding="utf-8")
