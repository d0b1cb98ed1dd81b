"""What passes between the steps of composing a task: plan, draft, and the typed failure of any
step."""

import copyreg
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from rods.analysis.flows import Flow
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, Texts, frozen
from rods.environments.base import Result
from rods.faults import ErrorType


class Picklable(Exception):
    """An exception that another process gets with all of its fields."""

    def __reduce__(self) -> tuple[Any, ...]:
        make = copyreg.__newobj__  # type: ignore[attr-defined]
        return make, (type(self), *self.args), self.__dict__


class ComposeError(Picklable):
    """A step of composing failed. `function` and `turn` (from 0) say where, `functions` all that
    took part; `detail` is the evidence; `call` is the call that failed, `domain` the domain in
    which there was nothing to choose: what a repair starts from; `before` are the calls that ran
    until then. `said` is what a model had written."""

    def __init__(
        self,
        type: ErrorType,
        detail: str,
        *,
        function: str | None = None,
        functions: Iterable[str] = (),
        turn: int | None = None,
        call: Call | None = None,
        domain: str | None = None,
        said: str = "",
        before: Sequence[Call] = (),
    ) -> None:
        super().__init__(f"{type}: {detail}")
        self.type = type
        self.detail = detail
        self.function = function
        self.turn = turn
        self.functions = tuple(dict.fromkeys((*([function] if function else []), *functions)))
        self.call = call
        self.domain = domain
        self.said = said
        self.before = tuple(before)

    def as_json(self) -> JsonObject:
        content = {
            "type": self.type,
            "function": self.function,
            "turn": self.turn,
            "detail": self.detail,
        }
        return (
            content
            if self.functions in ((), (self.function,))
            else {**content, "functions": list(self.functions)}
        )


@frozen
class PlannedTurn:
    """One turn of a plan: HIGH-LEVEL recipes from the environment's catalogue, and the BOTTOM-LEVEL
    tools that they decompose into, in order. An empty turn is one in which no call is right."""

    recipes: Texts
    tools: Texts


@frozen
class Plan:
    """Stage I: what will be called, and the story that ties the turns together (004 §3.3,
    narrative). `composed` are HIGH-LEVEL functions that a model wrote for it, by name with the
    tools that they were decomposed into."""

    turns: tuple[PlannedTurn, ...]
    narrative: Mapping[str, str] = field(default_factory=dict)
    composed: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def as_json(self) -> JsonObject:
        turns = [{"recipes": list(turn.recipes), "tools": list(turn.tools)} for turn in self.turns]
        composed = {"composed": dict(self.composed)} if self.composed else {}
        return {"turns": turns, "narrative": dict(self.narrative), **composed}


@frozen
class BoundCall:
    """Stage II: a call with bound arguments, its result in a fresh world, and the flow of every
    argument."""

    call: Call
    result: Result
    flows: Mapping[str, Flow]
    recipe: str
    slots: JsonMapping = field(default_factory=dict)  # what the phrase book may say about it


@frozen
class Draft:
    """Stage II's outcome: an initial state and executed turns, not yet worded."""

    plan: Plan
    state: JsonMapping
    turns: tuple[tuple[BoundCall, ...], ...]

    def functions(self, turns: Iterable[int] | None = None) -> list[str]:
        """The recipes whose calls stand in `turns` (None: in all)."""
        numbers = range(len(self.turns)) if turns is None else turns
        return list(dict.fromkeys(bound.recipe for turn in numbers for bound in self.turns[turn]))
