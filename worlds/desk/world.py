"""Desk as an `Environment`: a small office of contacts, mail, calendar, files and ledger.

The state is a plain JSON object; classes that a state leaves out are empty. There is no clock: `today` stands in the
state. Equal states and calls give equal results, byte for byte. Desk is made for demonstrations, tests and docs, and
small enough to be learnt by a policy of half a million parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from rods.calls import Call
from rods.canonical import content_id
from rods.environments.base import Features, Result, Tool
from rods.tasks import state_json
from worlds.desk import checks, pools, tools  # noqa: F401  (importing the tools registers them)
from worlds.desk.legality import completed
from worlds.desk.registry import CHECKS, REGISTRY, Refused, State, fault

if TYPE_CHECKING:
    from rods.composing.catalogue import Catalogue

BEHAVIOUR = 1  # raise it whenever a call may give another result or state than before (the golden transcript tells)
# What desk's refusals leave unsaid: the rule behind each, without a value of the world (000 §3.3).
RULES = {
    "contact exists": "A contact of that name is there already: change that one, or choose another name.",
    "hour taken": "Another event begins at that hour: choose a free one.",
    "too many guests": "The event has as many guests as it may have.",
    "file exists": "A file of that name is there already: write to that one, or choose another name.",
    "file locked": "A locked file can be read and not changed: it has to be unlocked first.",
    "file not locked": "The file is not locked, so nothing has to be done.",
    "same account": "Source and target must be two accounts.",
    "not enough money": "The account holds less than that: take less, or put money into it first.",
    "bill paid": "That bill has been paid already.",
    "no change": "It is so already, so nothing has to be done.",
}
_REMEMBERED = 1024  # checked states kept, so that the rollouts of a group check their task's state once


class DeskInstance:
    """One desk. `state` is its own; nothing in it is shared."""

    __slots__ = ("state",)

    def __init__(self, state: State) -> None:
        self.state = state

    def call(self, call: Call) -> Result:
        registered = REGISTRY.get(call.name) or CHECKS.get(call.name)
        if registered is None:
            return Result('{"error":"no such tool"}', {"error": "no such tool"}, "unknown_tool")
        arguments = call.arguments
        wrong = fault(registered, arguments)
        if wrong is not None:
            kind, message = wrong
            return Result(f'{{"error":"{message}"}}', {"error": message}, kind)
        try:
            value = registered.function(self.state, **arguments)
        except Refused as refusal:
            return Result(f'{{"error":"{refusal}"}}', {"error": str(refusal)}, "tool")
        return Result(orjson.dumps(value).decode(), value)

    def snapshot(self) -> dict[str, Any]:
        copy: dict[str, Any] = orjson.loads(orjson.dumps(self.state))
        return copy

    def fork(self) -> DeskInstance:
        return DeskInstance(self.snapshot())

    def same_state(self, other: object) -> bool:
        return isinstance(other, DeskInstance) and self.state == other.state


class Desk:
    """The environment. `hash` covers schemas, data and `BEHAVIOUR`."""

    name = "desk"
    features = Features()

    def __init__(self) -> None:
        self._tools = {name: registered.tool for name, registered in REGISTRY.items()}
        data = {name: list(value) for name, value in sorted(vars(pools).items()) if isinstance(value, (tuple, range))}
        schemas = {name: tool.schema() for name, tool in self._tools.items()}
        self.hash = content_id({"schemas": schemas, "data": data, "behaviour": BEHAVIOUR})
        self._legal: dict[bytes, bytes] = {}

    def tools(self) -> Mapping[str, Tool]:
        return self._tools

    def checks(self) -> Mapping[str, Tool]:
        return {name: registered.tool for name, registered in CHECKS.items()}

    def reset(self, state: Mapping[str, Any] | None) -> DeskInstance:
        try:
            given = state_json(state or {})
        except (TypeError, orjson.JSONEncodeError) as error:
            raise ValueError(f"the state is not JSON: {error}") from error
        legal = self._legal.get(given)
        if legal is None:
            legal = _exactly(orjson.dumps(completed(orjson.loads(given))))
            if len(self._legal) >= _REMEMBERED:
                self._legal.clear()
            self._legal[_exactly(given)] = legal
        return DeskInstance(orjson.loads(legal))

    def explain(self, call: Call, result: Result) -> str:
        """The rule that a refused call has broken, for hints (rods.interfaces.hints); empty where the refusal says it
        all."""
        return RULES.get(str(result.value.get("error")), "") if isinstance(result.value, dict) else ""

    def catalogue(self) -> Catalogue:
        """What composing needs to write tasks for desk."""
        from worlds.desk.catalogue import catalogue  # composing imports environments, so only on demand

        return catalogue()


def _exactly(text: bytes) -> bytes:
    """A copy without the slack of some kilobytes that orjson leaves behind its results: these are kept."""
    return bytes(memoryview(text))


@cache
def environment() -> Desk:
    """The environment, made once a process."""
    return Desk()
