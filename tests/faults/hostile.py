"""An environment that runs whatever it is told to: what the sandbox is for. Never load it outside
of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rods.calls import Call
from rods.environments.base import Environment, Features, Instance, Parameter, Result, Tool

FACTORY = "tests.faults.hostile:environment"
TEXT = {"type": "string"}
TOOLS = {
    "run": Tool(
        "run",
        "Hostile",
        "Runs Python.",
        (Parameter("code", TEXT), Parameter("given", {"type": "object"})),
    ),
    "count": Tool("count", "Hostile", "Counts its calls."),
}


class Hostile:
    name = FACTORY
    hash = "0"
    features = Features()

    def tools(self) -> Mapping[str, Tool]:
        return TOOLS

    def reset(self, state: Mapping[str, Any] | None) -> World:
        if state is not None and not isinstance(state.get("count"), int):
            raise ValueError("a state is {'count': integer}")
        return World(0 if state is None else state["count"])


class World:
    def __init__(self, count: int) -> None:
        self.count = count

    def call(self, call: Call) -> Result:
        """`run`: what the code left in `got`, or the exception that ended it."""
        if call.name == "count":
            self.count += 1
            return Result(str(self.count), self.count)
        names: dict[str, Any] = {"given": call.arguments["given"], "got": "done"}
        try:
            exec(call.arguments["code"], names)  # noqa: S102
        except BaseException as error:  # noqa: BLE001 what stopped it is the answer
            return Result(f"{type(error).__name__}: {error}", error="tool")
        return Result(str(names["got"]))

    def snapshot(self) -> dict[str, Any]:
        return {"count": self.count}

    def fork(self) -> World:
        return World(self.count)

    def same_state(self, other: Instance) -> bool:
        return isinstance(other, World) and other.count == self.count


def environment() -> Environment:
    return Hostile()
