"""Inside a confined worker: one environment and the worlds made of it, each known by a number.

Requests are lists: ["prepare"], ["load", "package.module:factory", text of its file or null], ["reset", world, state],
["call", world, tool, arguments], ["replay", world, [[tool, arguments], …]], ["fork", world, new], ["same", world,
other], ["snapshot", world], each with the numbers of worlds that are no longer referenced in front. A refusal that
belongs to the environment's contract comes back as [text], which no answer but a call's looks like.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import orjson

from rods.calls import Call
from rods.environments.base import Environment, Instance, Parameter, Result, Tool, checks
from rods.errors import Unsupported
from rods.functions import named_function

TARGET = "rods.environments.sandbox.host:answer"
REFUSAL = 2_000  # characters of a refusal
_worlds: dict[int, Instance] = {}
_environment: Environment
# what an environment may raise, by request; anything else is its failure
_REFUSALS: dict[str, type[Exception]] = {
    "reset": ValueError,
    "fork": Unsupported,
    "same": Unsupported,
    "snapshot": Unsupported,
}


def answer(request: list[Any]) -> Any:
    gone, do, *rest = request
    for world in gone:
        _worlds.pop(world, None)
    if do == "call":
        world, tool, arguments = rest
        return _result(_worlds[world].call(Call(tool, arguments)))
    try:
        return _ANSWERS[do](*rest)
    except _REFUSALS.get(do, ()) as error:
        return [str(error)[:REFUSAL].encode("utf-8", "replace").decode()]


def _result(result: Result) -> orjson.Fragment:
    """[text], [text, value], or [text, value, error]: what is None is mostly left out, to be quick."""
    text, value, error = result.text, result.value, result.error
    parts = [text, value, error] if error is not None else [text] if value is None else [text, value]
    try:
        return orjson.Fragment(orjson.dumps(parts))
    except TypeError:  # half a surrogate, a number beyond 64 bits, no JSON at all: the trainer could not write it down
        text = text.encode("utf-8", "replace").decode() if type(text) is str else repr(text)
        return orjson.Fragment(orjson.dumps([text, None, error]))


def _load(factory: str, source: str | None = None) -> dict[str, Any]:
    global _environment
    _environment = named_function(factory, where="sandbox", source=source)()
    able = _environment.features
    return {
        "name": _environment.name,
        "hash": _environment.hash,
        "features": [bool(each) for each in (able.deterministic, able.snapshot, able.fork, able.state_visible)],
        "tools": [[name, tool_as_json(tool)] for name, tool in _environment.tools().items()],
        "checks": [[name, tool_as_json(check)] for name, check in checks(_environment).items()],
    }


def _reset(world: int, state: dict[str, Any] | None) -> None:
    _worlds[world] = _environment.reset(state)


def _replay(world: int, calls: list[list[Any]]) -> None:
    for tool, arguments in calls:
        _worlds[world].call(Call(tool, arguments))


def _fork(world: int, new: int) -> None:
    _worlds[new] = _worlds[world].fork()


def _same(world: int, other: int) -> bool:
    return bool(_worlds[world].same_state(_worlds[other]))


def _snapshot(world: int) -> dict[str, Any]:
    return _worlds[world].snapshot()


@dataclass
class _Anything:
    number: int = 0


def _prepare() -> None:
    """Imports what generated worlds are made of, before any of them is known: pydantic has some forty modules that it
    imports when it sees the first dataclass."""
    typed = importlib.import_module("rods.environments.typed")
    typed.TypedEnvironment("", _Anything, behaviour=0)


_ANSWERS: dict[str, Any] = {
    "prepare": _prepare,
    "load": _load,
    "reset": _reset,
    "replay": _replay,
    "fork": _fork,
    "same": _same,
    "snapshot": _snapshot,
}


def tool_as_json(tool: Tool) -> dict[str, Any]:
    """The tool as JSON, for `tool_from_json` in the parent process."""
    return {
        "name": tool.name,
        "group": tool.group,
        "description": tool.description,
        "bounded": tool.bounded,
        "result": None if tool.result is None else dict(tool.result),
        "reads": tool.reads,
        "parameters": [
            {
                "name": parameter.name,
                "schema": dict(parameter.schema),
                "description": parameter.description,
                "required": parameter.required,
                "default": parameter.default,
                "bounds": dict(parameter.bounds),
            }
            for parameter in tool.parameters
        ],
    }


def tool_from_json(record: Any) -> Tool:
    """The tool that a worker has described. Everything is checked, since the worker may send anything. Raises
    ValueError, TypeError or KeyError for what is no tool."""
    return Tool(
        of(record["name"], str),
        of(record["group"], str),
        of(record["description"], str),
        tuple(
            Parameter(
                of(part["name"], str),
                of(part["schema"], dict),
                of(part["description"], str),
                of(part["required"], bool),
                part["default"],
                of(part["bounds"], dict),
            )
            for part in of(record["parameters"], list)
        ),
        of(record["bounded"], bool),
        None if record["result"] is None else of(record["result"], dict),
        None if record["reads"] is None else of(record["reads"], bool),
    )


def of(value: Any, kind: type) -> Any:
    """The value, if it is of just this type. Raises ValueError otherwise."""
    if type(value) is not kind:
        raise ValueError(f"{value!r:.80} should be a {kind.__name__}")
    return value
