"""Writes the examples in docs/prompts/: `python -m docs.generate.prompts`. A test compares them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from docs.generate.rehearsal import StandInClient, rehearse, title
from rods.asking import Question
from rods.config import Endpoint, parse_config
from rods.daemon.stand_ins import NAME
from rods.daemon.stand_ins.model import StandIn
from rods.environments.base import Result
from rods.environments.loading import Environments
from rods.family.environments.written.record import CachedQuestioner, WritingRecord
from rods.family.environments.written.writing import WorldOrder, infer_topics, write_worlds
from rods.family.simulation.difficulty import levels
from rods.family.simulation.generating import draw_task
from rods.family.simulation.repository import shipped
from rods.family.simulation.roles import Past, ask_for_task, ask_tool, ask_user, ask_verifier
from rods.family.simulation.settings import DifficultyRules
from rods.llm import Request
from rods.prompts import load
from rods.worlds import desk

PAGES = Path(__file__).resolve().parents[1] / "prompts"


def pages() -> dict[str, str]:
    """The examples by file name: one prompt of each template about tasks of desk, and of each role
    of a simulated environment, with tags, which show the form of the answer."""
    written: dict[str, str] = {}
    tasks = [task for task in desk.generate(7, 160, 4) if task.split == "train"]
    for type, calls in (
        ("base", "batched"),
        ("base", "per_turn"),
        ("miss_param", "per_turn"),
        ("miss_func", "per_turn"),
    ):
        stages = {"stages": [{"feedback": "agents"}]}
        config = parse_config(
            {"pipeline": {"author": "llm", "calls": calls}, "curriculum": stages},
            where="docs/prompts",
        )
        seeds = [task for task in tasks if task.type == type]
        environment = Environments().load("desk")
        for seed in seeds:
            for asked in asyncio.run(
                rehearse(config, environment, seed, seed, structured=False)
            ).questions:
                name = asked.template.partition("@")[0]
                written.setdefault(f"{name}.md", _page(name, title(asked), asked.messages))
            if type != "miss_func" or "miss_func.md" in written:
                break  # not of every seed can more than one function be taken away
    for question in _simulations():
        name = question.template
        about = f"{name} ({name}@{load(name).hash}), about tools of the project's repository"
        written[f"{name}.md"] = _page(name, about, messages(question, constrained=False))
    for name, request in _writings().items():
        written[f"{name}.md"] = _page(name, title(request), request.messages)
    return written


@cache
def _writings() -> dict[str, Request]:
    """One question to each role that writes worlds: from a text to a topic, a world and a scenario
    of it."""
    endpoint = Endpoint(
        model=NAME, urls=("http://127.0.0.1:9/v1",), structured=False, thinking_tokens=0
    )
    playing = StandInClient(StandIn(), endpoint)
    operation = parse_config(
        {"operation": {"writing": {"rounds": 1}}}, where="docs/prompts"
    ).operation
    with tempfile.TemporaryDirectory() as folder, WritingRecord(Path(folder)) as record:
        authors = CachedQuestioner(playing, record, operation)

        async def write() -> None:
            (topic,) = await infer_topics(authors, ["Lend me the book about clouds until friday."])
            await write_worlds(authors, [(topic, "train")], Path(folder), WorldOrder(scenarios=1))

        asyncio.run(write())
    first = {question.stage: question for question in reversed(playing.questions)}
    return dict(sorted(first.items()))


def _simulations() -> Iterator[Question[Any]]:
    """One question to each role of a simulated environment, in the first turn of a drawn task."""
    given = levels(DifficultyRules(soft=0.0), 30, 0, 1, 0)
    task = draw_task(shipped(), given, 0, 1, 0)
    tools = [shipped().tools[name].tool for name in task.tools]
    asks = "One moment. Is there anything else that I should know?"
    result = Result('{"error":"not found"}')
    said = Past([(task.first_query, "")])
    heard = Past([(task.first_query, asks)])
    done = Past([(task.first_query, asks)], [(1, task.calls[0], result)])
    yield ask_for_task(shipped(), tools, given)
    yield ask_tool(task, tools, said, task.calls[0])
    yield ask_user(task, tools, heard)
    yield ask_verifier(task, tools, done)


def messages(question: Question[Any], *, constrained: bool) -> list[dict[str, str]]:
    """What is sent of a role's question, asking for an answer that is held to a schema or for one
    in tags."""
    rendered = load(question.template).render_sections(**question.fields)
    parts = ("user", *question.sections, "constrained" if constrained else "tagged")
    asked = "\n\n".join(rendered[part] for part in parts)
    return [{"role": "system", "content": rendered["system"]}, {"role": "user", "content": asked}]


def _page(name: str, about: str, messages: Iterable[Mapping[str, str]]) -> str:
    body = "\n\n".join(
        f"{message['role']}:\n\n```text\n{message['content']}\n```" for message in messages
    )
    return f"# {name}\n\n{about}.\n\n{body}\n"


if __name__ == "__main__":
    for name, text in pages().items():
        (PAGES / name).write_text(text, encoding="utf-8")
