"""`rods prompts`: every prompt that a seed would bring, as it would be sent, before anything is paid for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from rods.buffers.run.run import Run
from rods.commands import Json
from rods.config import Config
from rods.console.follower import Follower
from rods.console.output import RunFolder, print_result
from rods.console.task_history import task_history
from rods.console.verbs.inspect import TaskId
from rods.daemon.stand_ins.rehearsal import Rehearsal, rehearse, rehearse_whole, when
from rods.environments.base import Environment
from rods.llm import Request
from rods.llm.wire import CHARACTERS_A_TOKEN
from rods.tasks import OpenTask, Task

Tagged = Annotated[bool, Parameter(negative="", help="As an endpoint is asked that holds answers to no schema.")]


def prompts(run: RunFolder, seed: TaskId, /, *, tagged: Tagged = False, as_json: Json = False) -> None:
    """Print every prompt of a seed as it would be sent, with its role's settings and token counts. No endpoint is
    asked: what a prompt builds on is filled in by chance and by rule."""
    opened, history = Run.open(run), task_history(Follower(run), seed)
    environment = opened.environments.load(history.task.environment.name)
    endpoints = opened.config.operation.endpoints
    structured = not tagged and all(endpoint.structured for endpoint in endpoints)
    task, root = history.task, history.lineage[0]
    if isinstance(task, OpenTask):
        rehearsal = asyncio.run(rehearse_whole(opened, environment, task, structured=structured))
    else:
        assert isinstance(task, Task) and isinstance(root, Task)
        rehearsal = rehearsed(opened.config, environment, task, root, structured=structured)
    procedural = opened.config.pipeline.author == "procedural"
    result = {"missing": rehearsal.missing, "prompts": list(map(as_record, rehearsal.questions))}
    print_result(as_json, result, _lines(rehearsal, procedural))


def as_record(asked: Request) -> dict[str, Any]:
    """A prompt with its settings."""
    settings = ("max_tokens", "temperature", "top_p", "thinking", "messages", "schema")
    own = {"role": asked.stage, "template": asked.template, "when": when(asked), "tokens_in": tokens(asked)}
    return own | {name: getattr(asked, name) for name in settings}


def tokens(asked: Request) -> int:
    """About how many tokens the messages are: four characters each."""
    return sum(len(message["content"]) for message in asked.messages) // CHARACTERS_A_TOKEN


def title(asked: Request) -> str:
    """Role, template and settings in a line."""
    thinking = {None: "as the server has it", True: "on", False: "off"}[asked.thinking]
    occasion = f", {when(asked)}" if when(asked) else ""
    return (
        f"{asked.stage} ({asked.template}){occasion}: about {tokens(asked)} tokens in, at most {asked.max_tokens} out; "
        f"temperature {asked.temperature:g}, top-p {asked.top_p:g}, thinking {thinking}"
    )


def _lines(rehearsal: Rehearsal, procedural: bool) -> Iterator[str]:
    """Every prompt; what the seed's own way comes to, and what could not be asked."""
    if procedural:
        yield from ('pipeline.author is "procedural": this run asks no model; with "llm" it would ask', "")
    for number, asked in enumerate(rehearsal.questions, start=1):
        yield f"===== {number}. {title(asked)}"
        for message in asked.messages:
            yield f"--- {message['role']}"
            yield from message["content"].splitlines()
        if asked.schema is not None:
            yield from ("--- schema", orjson.dumps(asked.schema).decode())
        yield ""
    way = [asked for asked in rehearsal.questions if not when(asked)]
    yield (
        f"{len(way)} prompts on the way of a seed that goes well, about {sum(map(tokens, way))} tokens in and at most "
        f"{sum(asked.max_tokens for asked in way)} out (with four characters a token)"
    )
    for why in rehearsal.missing:
        yield f"what builds on this could not be filled in: {why}"


def rehearsed(config: Config, environment: Environment, seed: Task, root: Task, *, structured: bool) -> Rehearsal:
    with ThreadPoolExecutor(1) as threads:
        return asyncio.run(rehearse(config, environment, seed, root, threads, structured=structured))
