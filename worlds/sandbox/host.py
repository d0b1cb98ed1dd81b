"""Inside a confined worker: one environment and the worlds made of it, each known by a number.

Requests are lists: ["prepare"], ["load", "package.module:factory", text of its file or null],
["reset", world, state], ["call", world, tool, arguments], ["replay", world, [[tool, arguments],
…]], ["fork", world, new], ["same", world, other], ["snapshot", world], ["shift", days], each with
the numbers of worlds that are no longer referenced in front. A refusal that belongs to the
environment's contract comes back as [text], which no answer but a call's looks like.
"""

import datetime
import importlib
import os
import time
from dataclasses import make_dataclass
from typing import Any, Self

import orjson

from rods.calls import Call
from rods.canonical import JsonObject
from rods.environments.base import Environment, Instance, Result, Tools, checks
from rods.errors import Unsupported
from rods.functions import named_function

TARGET = "rods.worlds.sandbox.host:answer"
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
        return _answer(do, *rest)
    except _REFUSALS.get(do, ()) as error:
        return [str(error)[:REFUSAL].encode("utf-8", "replace").decode()]


def _answer(do: str, *details: Any) -> Any:
    match do, *details:
        case "prepare", *_:
            _prepare()
        case "load", *named:
            return _load(*named)
        case "snapshot", world:
            return _worlds[world].snapshot()
        case "same", world, other:
            return bool(_worlds[world].same_state(_worlds[other]))
        case "reset", world, state:
            _worlds[world] = _environment.reset(state)
        case "replay", world, calls:
            for tool, arguments in calls:
                _worlds[world].call(Call(tool, arguments))
        case "fork", world, new:
            _worlds[new] = _worlds[world].fork()
        case "shift", days:
            _shift(days)
    return None


def _shift(days: int) -> None:
    """Sets clocks ahead, those that modules are asked for, and changes environment variables."""
    now = time.time

    class Date(datetime.date):
        @classmethod
        def today(cls) -> Self:
            return cls.fromtimestamp(time.time())

    class Datetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Self:
            return cls.fromtimestamp(time.time(), tz)

    shifted = {"time": lambda: now() + 86_400 * days}
    for module, names in ((time, shifted), (datetime, {"date": Date, "datetime": Datetime})):
        for name, value in names.items():
            setattr(module, name, value)
    os.environ.clear()
    os.environ["ELSEWHERE"] = "1"


def _result(result: Result) -> orjson.Fragment:
    """[text], [text, value], or [text, value, error]: what is None is mostly left out, to be
    quick."""
    text = result.text
    value = result.value
    error = result.error
    parts = (
        [text, value, error] if error is not None else [text] if value is None else [text, value]
    )
    try:
        return orjson.Fragment(orjson.dumps(parts))
    # half a surrogate, a number beyond 64 bits, no JSON at all: the trainer could not write it down
    except TypeError:
        text = text.encode("utf-8", "replace").decode() if type(text) is str else repr(text)
        return orjson.Fragment(orjson.dumps([text, None, error]))


def _load(factory: str, source: str | None = None) -> JsonObject:
    global _environment
    _environment = named_function(factory, where="sandbox", source=source)()
    able = _environment.features
    return {
        "name": _environment.name,
        "hash": _environment.hash,
        "features": [
            bool(flag)
            for flag in (able.deterministic, able.snapshot, able.fork, able.state_visible)
        ],
        "reads_judged": able.reads_judged,
        "tools": _plain(_environment.tools()),
        "checks": _plain(checks(_environment)),
    }


def _plain(tools: Tools) -> orjson.Fragment:
    """As the parent process reads them."""
    return orjson.Fragment(orjson.dumps(list(tools.items()), default=dict))


def _prepare() -> None:
    """Imports what generated worlds are made of, before any of them is known: pydantic has some
    forty modules that it imports when it sees the first dataclass."""
    typed = importlib.import_module("rods.environments.typed")
    typed.TypedEnvironment("", make_dataclass("Anything", [("number", int, 0)]), behaviour=0)


def of(value: Any, kind: type) -> Any:
    """The value, if it is of just this type. Raises ValueError otherwise."""
    if type(value) is not kind:
        raise ValueError(f"{value!r:.80} should be a {kind.__name__}")
    return value
