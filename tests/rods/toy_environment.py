"""A user's own environment in one file: notes and counters.
`load("tests.rods.toy_environment:environment")`.

The factories after `environment` make worlds that break one promise each; the probe of `rods env
check` must find it.
"""

from __future__ import annotations

import copy
import random
import signal
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from rods.analysis.schemas import fits
from rods.calls import Call
from rods.canonical import content_id
from rods.environments.base import (
    Environment,
    Features,
    Instance,
    Parameter,
    Result,
    Tool,
    reference,
)
from rods.errors import Unsupported
from rods.tasks import Task

TEXT = {"type": "string", "maxLength": 80}
NUMBER = {"type": "integer", "minimum": 0, "maximum": 1000}
TOOLS = {
    tool.name: tool
    for tool in (
        Tool("write", "Notes", "Writes a "
                               "note.", (Parameter("title", TEXT), Parameter("body", TEXT))),
        Tool("read", "Notes", "Reads a note.", (Parameter("note_id", NUMBER),)),
        Tool("titles", "Notes", "Lists the titles of all notes."),
        Tool("label", "Notes", "Labels notes.", (
            Parameter("note_ids", {"type": "array", "items": NUMBER, "maxItems": 5}),
            Parameter("color", {"type": "string", "enum": ["red", "blue"]}, required=False,
                      default="red"),
        )),
        Tool("count", "Counters", "Adds to a counter.", (
            Parameter("name", TEXT), Parameter("amount", NUMBER, required=False, default=1),
        )),
        Tool("total", "Counters", "Adds up all counters."),
    )
}  # fmt: skip


class Toy:
    """The kind of world. A variant is made by handing in another instance class, features or
    hash."""

    def __init__(
        self,
        factory: str,
        world: type[World],
        *,
        features: Features | None = None,
        tools: Mapping[str, Tool] = TOOLS,
        hash: str | None = None,
    ) -> None:
        self.name = f"tests.rods.toy_environment:{factory}"
        self.world = world
        self.features = features or Features()
        self._tools = dict(tools)
        self.hash = hash or content_id([tool.schema() for tool in self._tools.values()])

    def tools(self) -> Mapping[str, Tool]:
        return self._tools

    def reset(self, state: Mapping[str, Any] | None) -> Instance:
        state = {"notes": {}, "counters": {}} if state is None else copy.deepcopy(dict(state))
        if set(state) - {"notes", "counters"}:
            raise ValueError(f"unknown parts {sorted(set(state) - {'notes', 'counters'})}")
        return self.world(self, {"notes": {}, "counters": {}, **state})


class World:
    def __init__(self, environment: Toy, state: dict[str, Any]) -> None:
        self.environment = environment
        self.state = state

    def call(self, call: Call) -> Result:
        tool = self.environment.tools().get(call.name)
        if tool is None:
            return Result(f"no tool named {call.name}", error="unknown_tool")
        arguments = {p.name: p.default for p in tool.parameters if not p.required} | dict(
            call.arguments
        )
        if set(arguments) != set(tool.parameter_names):
            return Result("missing or extra arguments", error="bad_arguments")
        for parameter in tool.parameters:
            value = arguments[parameter.name]
            if not fits({"type": parameter.schema["type"]}, value):
                return Result(
                    f"{parameter.name} must be {parameter.schema['type']}", error="bad_arguments"
                )
            if not fits(parameter.schema, value):
                return Result(f"{parameter.name} is out of bounds", error="bounds")
        try:
            value = getattr(self, call.name)(**arguments)
        except LookupError as error:
            return Result(f"error: {error}", error="tool")
        return Result(orjson.dumps(value).decode(), value)

    def write(self, title: str, body: str) -> Any:
        number = len(self.state["notes"]) + 101
        self.state["notes"][str(number)] = {"title": title, "body": body}
        return {"note_id": number}

    def read(self, note_id: int) -> Any:
        if str(note_id) not in self.state["notes"]:
            raise LookupError(f"no note {note_id}")
        return self.state["notes"][str(note_id)]

    def titles(self) -> Any:
        return [
            {"id": int(number), "title": note["title"]}
            for number, note in sorted(self.state["notes"].items())
        ]

    def label(self, note_ids: list[int], color: str) -> Any:
        for number in note_ids:
            if str(number) not in self.state["notes"]:
                raise LookupError(f"no note {number}")
            self.state["notes"][str(number)]["color"] = color
        return {"labelled": len(note_ids)}

    def count(self, name: str, amount: int) -> Any:
        self.state["counters"][name] = self.state["counters"].get(name, 0) + amount
        return {"counter": name, "value": self.state["counters"][name]}

    def total(self) -> Any:
        return sum(self.state["counters"].values())

    def snapshot(self) -> dict[str, Any]:
        return copy.deepcopy(self.state)

    def fork(self) -> Instance:
        return type(self)(self.environment, copy.deepcopy(self.state))

    def same_state(self, other: Instance) -> bool:
        assert isinstance(other, World)
        return self.state == other.state


def environment() -> Environment:
    return Toy("environment", World)


class _Random(World):
    def total(self) -> Any:
        return random.random()


class _Leaking(World):
    def snapshot(self) -> dict[str, Any]:
        return self.state  # the world itself, not a picture of it


class _Disturbed(World):
    def snapshot(self) -> dict[str, Any]:
        picture = copy.deepcopy(self.state)
        self.state["counters"]["snapshots"] = self.state["counters"].get("snapshots", 0) + 1
        return picture


class _Late(World):
    """Answers each count as it should, and only later by chance."""

    def count(self, name: str, amount: int) -> Any:
        counted = super().count(name, amount)
        self.state["counters"]["chance"] = random.random()
        return counted


class _Raising(World):
    def call(self, call: Call) -> Result:
        return Result(str(getattr(self, call.name)(**call.arguments)))


class _Shared(World):
    # the fault that this world is for
    common: dict[str, Any] = {"notes": {}, "counters": {}}  # noqa: RUF012

    def __init__(self, environment: Toy, state: dict[str, Any]) -> None:
        super().__init__(environment, self.common)


class _Ordered(World):
    def titles(self) -> Any:
        return [note["title"] for note in self.state["notes"].values()]


class _Neighbours(World):
    """Feels how many instances have called since the last reset: right alone, wrong beside
    another."""

    last: World | None = None

    def call(self, call: Call) -> Result:
        if type(self).last not in (None, self) and call.name == "count":
            self.state["counters"]["visits"] = self.state["counters"].get("visits", 0) + 1
            call = Call("count", {**call.arguments, "amount": 1000})
        type(self).last = self
        return super().call(call)


class _Twins(World):
    def fork(self) -> Instance:
        return type(self)(self.environment, self.state)


class _Lenient(World):
    def call(self, call: Call) -> Result:
        result = super().call(call)
        return Result(result.text) if result.error else result


class _Modest(World):
    def snapshot(self) -> dict[str, Any]:
        raise Unsupported("no snapshots here")

    def fork(self) -> Instance:
        raise Unsupported("no forks here")

    def same_state(self, other: Instance) -> bool:
        raise Unsupported("the state is not visible")


MODEST = Features(snapshot=False, fork=False, state_visible=False)


class _Picky(World):
    """Counts one thing only, which no sampled call will name."""

    def count(self, name: str, amount: int) -> Any:
        if name != "the seventh teapot":
            raise LookupError("nobody counts that")
        return super().count(name, amount)


def picky() -> Environment:
    return Toy("picky", _Picky)


def nondeterministic() -> Environment:
    return Toy("nondeterministic", _Random)


def honestly_nondeterministic() -> Environment:
    return Toy("honestly_nondeterministic", _Random, features=Features(deterministic=False))


def late() -> Environment:
    return Toy("late", _Late)


class _Timed(_Late):
    def call(self, call: Call) -> Result:
        signal.raise_signal(signal.SIGALRM)  # as if time had passed
        return super().call(call)


def timed() -> Environment:
    return Toy("timed", _Timed, features=Features(waits=True))


def leaking() -> Environment:
    return Toy("leaking", _Leaking)


def disturbed() -> Environment:
    return Toy("disturbed", _Disturbed)


def raising() -> Environment:
    return Toy("raising", _Raising)


def shared() -> Environment:
    return Toy("shared", _Shared)


def ordered() -> Environment:
    return Toy("ordered", _Ordered)


def neighbours() -> Environment:
    return Toy("neighbours", _Neighbours)


def twins() -> Environment:
    return Toy("twins", _Twins)


def lenient() -> Environment:
    return Toy("lenient", _Lenient)


class _Alarmed(_Raising):
    def call(self, call: Call) -> Result:
        signal.raise_signal(signal.SIGALRM)  # as if time had passed
        return super().call(call)


def alarmed() -> Environment:
    return Toy("alarmed", _Alarmed, features=Features(waits=True))


def modest() -> Environment:
    return Toy("modest", _Modest, features=MODEST)


def guessing() -> Environment:
    """Declares that it lacks snapshots, forks and a visible state, and answers all the same."""
    return Toy("guessing", World, features=MODEST)


def restless() -> Environment:
    """Another hash in every process and at every making."""
    return Toy("restless", World, hash=content_id([random.random()]))


def misdescribed() -> Environment:
    odd = Tool("total", "Counters", "Adds up.", (Parameter("what", {"type": "str"}),))
    open_ended = Tool(
        "titles", "Notes", "Lists.", (Parameter("like", {"type": "string"}, required=False),)
    )
    counts = replace(TOOLS["count"], result={"type": "object", "required": ["name"]})
    changed = {"total": odd, "titles": open_ended, "alias": replace(TOOLS["read"]), "count": counts}
    return Toy("misdescribed", World, tools={**TOOLS, **changed})


class _Unbounded(World):
    def power(self, base: int, exponent: int) -> Any:
        """Does not end for 10**9, which the probe tries in a process of its own; sampled calls are
        made in this one."""
        return str(len(bin(base**exponent))) if exponent in (*range(100), 10**9) else "too large"

    def repeat(self, text: str) -> Any:
        return text * 100


def runaway() -> Environment:
    number = {"type": "integer", "minimum": 0, "maximum": 10**10}
    power = Tool(
        "power", "Counters", "A power.", (Parameter("base", number), Parameter("exponent", number))
    )
    text = {"type": "string", "maxLength": 10**6}
    repeat = Tool("repeat", "Notes", "A text over and over.", (Parameter("text", text),))
    return Toy("runaway", _Unbounded, tools={**TOOLS, "power": power, "repeat": repeat})


def broken() -> Environment:
    raise RuntimeError("no data")


def record(**changes: Any) -> dict[str, Any]:
    """A line of a task file, sound until `changes` say otherwise."""
    task = Task(
        reference(environment()),
        "base",
        ("Write a note called milk that says two bottles.", "Read it to me."),
        (
            (Call("write", {"title": "milk", "body": "two bottles"}),),
            (Call("read", {"note_id": 101}),),
        ),
        ("write", "read", "count"),
        state={"counters": {"eggs": 3}},
    )
    made = task.as_json()
    made.pop("id")
    return {**made, **changes}
