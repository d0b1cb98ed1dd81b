"""Desk behind house rules. No document tells them, a call that breaks one is `refused`, and `explain` says which rule
it was. `<seed>.house` draws its rules by that seed; `taught-<seed>.house` draws them from those that no `<seed>.house`
has, for demonstrations."""

import itertools
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from rods.calls import Call
from rods.canonical import content_id, keyed_random
from rods.environments.base import Features, Instance, Parameter, Result, Tool
from rods.errors import UserError
from rods.interfaces.remedies import Advice
from rods.worlds import desk
from rods.worlds.desk.declared_tools import REGISTRY, fault
from rods.worlds.desk.tools import place

BEHAVIOUR = 1  # raise it whenever a call may give another result or state than before
ENDING = ".house"
RULED = 0.8  # share of the ruled tools that have a rule in a world
APART = 3  # one in so many rules of a tool is for the worlds of runs, the others are for demonstrations
REFUSED = Result('{"error":"refused"}', {"error": "refused"}, "tool")
_NAME = re.compile(r"(taught-)?(\d{1,9})\.house")
_DATA = tomllib.loads(Path(__file__).with_name("house_rules.toml").read_text(encoding="utf-8"))
VIA, VALUES = _DATA["channel"]["name"], tuple(_DATA["channel"]["values"])
Kind = Literal["order", "state", "form", "default"]
KINDS: tuple[Kind, ...] = ("order", "state", "form", "default")


@dataclass(frozen=True, slots=True)
class Rule:
    """What `tool` demands: `first` with the same `key` (order, and state: or the `field` of that entry in `part`); that
    `argument` begins or ends with the argument `key` (form); `value` as `VIA` (default)."""

    kind: Kind
    tool: str
    first: str = ""
    key: str = ""
    part: str = ""
    field: str = ""
    argument: str = ""
    ends: bool = False
    value: str = ""

    @property
    def told(self) -> Advice:
        """The rule in a sentence and in a few words."""
        if self.kind == "form":
            verb, argument, key = ("end" if self.ends else "begin"), self.argument, self.key
            sentence = f"The house has `{argument}` {verb} with the value of `{key}`, and a space between."
            return Advice(sentence, f"{verb} {argument} with {key}")
        if self.kind == "default":
            return Advice(f"The house wants `{VIA}` to be given as {self.value} here.", f"give {VIA} {self.value}")
        of = f" for the same `{self.key}`" if self.key else ", without arguments"
        sentence = f"The house wants `{self.first}` to be called first{of}."
        return Advice(sentence, f"first {self.first} {self.key}".strip())

    def before(self, call: Call) -> Call:
        """The call that has to come first (order, state)."""
        return Call(self.first, {self.key: call.arguments[self.key]} if self.key else {})

    def amended(self, call: Call) -> Call:
        """The call as the rule wants it (form, default)."""
        if self.kind == "default":
            return Call(call.name, {**call.arguments, VIA: self.value})
        text, mark = call.arguments[self.argument], str(call.arguments[self.key])
        return Call(call.name, {**call.arguments, self.argument: f"{text} {mark}" if self.ends else f"{mark} {text}"})

    def kept_by(self, call: Call) -> Sequence[Call]:
        """The calls that do the same and keep to the rule."""
        return [self.before(call), call] if self.first else [self.amended(call)]

    def holds(self, call: Call, state: Mapping[str, Any], made: frozenset[str]) -> bool:
        """Whether a call that keeps to its document keeps to the rule, in this state, after the calls `made`."""
        if self.kind == "default":
            return call.arguments.get(VIA) == self.value
        if self.kind == "form":
            text, mark = call.arguments[self.argument], str(call.arguments[self.key])
            return bool(text.endswith(f" {mark}") if self.ends else text.startswith(f"{mark} "))
        if self.kind == "state":
            entry = place(self.part)(dict(state)).get(call.arguments[self.key])
            return entry is None or bool(entry[self.field])
        return remembered(self.before(call)) in made


def remembered(call: Call) -> str:
    """What an instance remembers of a call."""
    return " ".join([call.name, *map(str, call.arguments.values())])


@cache
def possible() -> Mapping[str, Sequence[Rule]]:
    """All rules that a tool may have, by tool, in an order that is always the same and leaves nothing to its place."""
    rules: dict[str, list[Rule]] = {}
    for kind in KINDS[:3]:
        for entry in (dict(entry) for entry in _DATA[kind]):
            tools, keys = entry.pop("tools"), entry.pop("of", None) or [entry.pop("key")]
            made = itertools.product(tools, keys, (False, True) if kind == "form" else (False,))
            for tool, key, ends in made:
                rules.setdefault(tool, []).append(Rule(kind, tool, **entry, key=key, ends=ends))
    for tool, known in rules.items():
        known += [Rule("default", tool, value=value) for value in VALUES]
        rules[tool] = keyed_random(0, "house rules", tool).sample(known, len(known))
    return rules


def drawn(random_seed: int, taught: bool) -> dict[str, Rule]:
    """The rules of a world, by tool: of each tool a kind, then one of that kind."""
    rng = keyed_random(random_seed, "house", "taught" if taught else "run")
    rules: dict[str, Rule] = {}
    for tool, known in possible().items():
        apart = -(-len(known) // APART)
        mine = known[apart:] if taught else known[:apart]
        kinds = {rule.kind for rule in mine}
        kind, ruled = rng.choice([kind for kind in KINDS if kind in kinds]), rng.random() < RULED
        rule = rng.choice([rule for rule in mine if rule.kind == kind])
        rules |= {tool: rule} if ruled else {}
    return rules


class HouseInstance:
    """A desk and what its rules remember of the calls so far."""

    __slots__ = ("_desk", "_house", "_made")

    def __init__(self, house: "House", inner: Any, made: frozenset[str]) -> None:
        self._house, self._desk, self._made = house, inner, made

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
        rule, plain = self._house.rules.get(call.name), self._house.plain(call)
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
        self.rules, inner = drawn(random_seed, taught), desk.environment()
        self.firsts = frozenset(rule.first for rule in self.rules.values() if rule.kind == "order")
        via = Parameter(VIA, {"type": "string", "enum": list(VALUES)}, _DATA["channel"]["about"], required=False)
        self._tools = {
            name: replace(tool, parameters=(*tool.parameters, *((via,) if name in possible() else ())), reads=reads)
            for name, tool in inner.tools().items()
            for reads in (None if name in self.firsts else tool.reads,)  # a rule remembers these
        }
        told = {tool: [rule.kind, *rule.told] for tool, rule in self.rules.items()}
        self.hash = content_id({"desk": inner.hash, "rules": told, "values": VALUES, "behaviour": BEHAVIOUR})

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
        return {"kind": "house_rules", "rules": {tool: rule.told.sentence for tool, rule in self.rules.items()}}

    def explain(self, call: Call, result: Result) -> Advice | str:
        """The rule that a refused call has broken; empty for other refusals."""
        rule = self.rules.get(call.name)
        return rule.told if rule is not None and result.value == REFUSED.value else ""


@cache
def described(name: str) -> House:
    """The world of that name. Raises UserError where it names none."""
    if (found := _NAME.fullmatch(name)) is None:
        remedy = f"write a seed, such as 7{ENDING}"
        raise UserError("it names no world with house rules", where=f"environment {name!r}", remedy=remedy)
    return House(int(found[2]), taught=found[1] is not None)
