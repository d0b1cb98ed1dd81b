"""Desk behind house rules. No document tells them, a call that breaks one is `refused`, and
`explain` says which rule it was. `<seed>.house` draws its rules by that seed; `taught-<seed>.house`
draws them from those that no `<seed>.house` has, for demonstrations."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from rods.calls import Call
from rods.canonical import content_id
from rods.environments.base import Features, Instance, Parameter, Result, Tool
from rods.errors import UserError
from rods.family.house_rules.rule import DATA, VALUES, VIA, Rule, drawn, possible, remembered
from rods.interfaces.remedies import Advice
from rods.worlds import desk
from rods.worlds.desk.declared_tools import REGISTRY, fault

if TYPE_CHECKING:
    from rods.composing.catalogue import Catalogue

BEHAVIOUR = 1  # raise it whenever a call may give another result or state than before
ENDING = ".house"
REFUSED = Result('{"error":"refused"}', {"error": "refused"}, "tool")
_NAME = re.compile(r"(taught-)?(\d{1,9})\.house")


class HouseInstance:
    """A desk and what its rules remember of the calls so far."""

    __slots__ = ("_desk", "_house", "_made")

    def __init__(self, house: "House", inner: Any, made: frozenset[str]) -> None:
        self._house = house
        self._desk = inner
        self._made = made

    def call(self, call: Call) -> Result:
        plain = self._house.plain(call)
        if plain is None:
            return Result(f'{{"error":"bad {VIA}"}}', {"error": f"bad {VIA}"}, "bounds")
        if self.broken(call):
            return REFUSED
        result: Result = self._desk.call(plain)
        if result.error is None and call.name in self._house.firsts:
            self._made |= {remembered(plain)}
        return result

    def broken(self, call: Call) -> Rule | None:
        """The rule that a call breaks now; None for one that breaks its document."""
        rule = self._house.rules.get(call.name)
        plain = self._house.plain(call)
        if rule is None or plain is None or fault(REGISTRY[call.name], plain.arguments):
            return None
        return None if rule.holds(call, self._desk.state, self._made) else rule

    def snapshot(self) -> dict[str, Any]:
        return {**self._desk.snapshot(), "house": sorted(self._made)}

    def fork(self) -> "HouseInstance":
        return HouseInstance(self._house, self._desk.fork(), self._made)

    def same_state(self, other: Instance) -> bool:
        """Equal desks; a look-up more changes nothing that a task could ask for."""
        return isinstance(other, HouseInstance) and self._desk.same_state(other._desk)


class House:
    """The environment. `hash` covers desk, the rules and `BEHAVIOUR`."""

    features = Features()

    def __init__(self, random_seed: int, taught: bool = False) -> None:
        self.name = f"{'taught-' if taught else ''}{random_seed}{ENDING}"
        self.rules = drawn(random_seed, taught)
        inner = desk.environment()
        self.firsts = frozenset(rule.first for rule in self.rules.values() if rule.kind == "order")
        via = Parameter(
            VIA, {"type": "string", "enum": list(VALUES)}, DATA["channel"]["about"], required=False
        )
        self._tools = {
            name: replace(
                tool,
                parameters=(*tool.parameters, *((via,) if name in possible() else ())),
                reads=reads,
            )
            for name, tool in inner.tools().items()
            for reads in (None if name in self.firsts else tool.reads,)  # a rule remembers these
        }
        told = {tool: [rule.kind, *rule.told] for tool, rule in self.rules.items()}
        self.hash = content_id(
            {"desk": inner.hash, "rules": told, "values": VALUES, "behaviour": BEHAVIOUR}
        )

    def tools(self) -> Mapping[str, Tool]:
        return self._tools

    def reset(self, state: Mapping[str, Any] | None) -> HouseInstance:
        known = dict(state or {})
        made = known.pop("house", [])
        if not isinstance(made, list) or not all(isinstance(call, str) for call in made):
            raise ValueError("the state's house must be a list of calls, as a snapshot has it")
        return HouseInstance(self, desk.environment().reset(known), frozenset(made))

    def plain(self, call: Call) -> Call | None:
        """The call as desk takes it; None where it names no channel that there is."""
        if VIA not in call.arguments or call.name not in possible():
            return call
        rest = {name: value for name, value in call.arguments.items() if name != VIA}
        return Call(call.name, rest) if call.arguments[VIA] in VALUES else None

    def parameters(self) -> Mapping[str, Any]:
        return {
            "kind": "house_rules",
            "rules": {tool: rule.told.sentence for tool, rule in self.rules.items()},
        }

    def catalogue(self) -> "Catalogue":
        """What composing needs to write tasks for this world."""
        # composing imports environments, so only on demand
        from rods.family.house_rules.composing import catalogue

        return catalogue(self.rules)

    def explain(self, call: Call, result: Result) -> Advice | str:
        """The rule that a refused call has broken; empty for other refusals."""
        rule = self.rules.get(call.name)
        return rule.told if rule is not None and result.value == REFUSED.value else ""


@cache
def described(name: str) -> House:
    """The world of that name. Raises UserError where it names none."""
    if (found := _NAME.fullmatch(name)) is None:
        remedy = f"write a seed, such as 7{ENDING}"
        raise UserError(
            "it names no world with house rules", where=f"environment {name!r}", remedy=remedy
        )
    return House(int(found[2]), taught=found[1] is not None)
