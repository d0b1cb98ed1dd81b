"""The rules that a house may have, and how a seed draws them, for the worlds of runs or for those
of demonstrations."""

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from rods.calls import Call
from rods.canonical import keyed_random
from rods.interfaces.remedies import Advice
from rods.worlds.desk.tools import place

RULED = 0.8  # share of the ruled tools that have a rule in a world
# one in so many rules of a tool is for the worlds of runs, the others are for demonstrations
APART = 3
DATA = tomllib.loads(Path(__file__).with_name("house_rules.toml").read_text(encoding="utf-8"))
VIA = DATA["channel"]["name"]
VALUES = tuple(DATA["channel"]["values"])
Kind = Literal["order", "state", "form", "default"]
KINDS: tuple[Kind, ...] = ("order", "state", "form", "default")


@dataclass(frozen=True, slots=True)
class Rule:
    """What `tool` demands: `first` with the same `key` (order, and state: or the `field` of that
    entry in `part`); that `argument` begins or ends with the argument `key` (form); `value` as
    `VIA` (default)."""

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
            verb = "end" if self.ends else "begin"
            argument = self.argument
            key = self.key
            sentence = (
                f"The house has `{argument}` {verb} with the value of `{key}`, and a space between."
            )
            return Advice(sentence, f"{verb} {argument} with {key}")
        if self.kind == "default":
            return Advice(
                f"The house wants `{VIA}` to be given as {self.value} here.",
                f"give {VIA} {self.value}",
            )
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
        text = call.arguments[self.argument]
        mark = str(call.arguments[self.key])
        return Call(
            call.name,
            {**call.arguments, self.argument: f"{text} {mark}" if self.ends else f"{mark} {text}"},
        )

    def kept_by(self, call: Call) -> Sequence[Call]:
        """The calls that do the same and keep to the rule."""
        return [self.before(call), call] if self.first else [self.amended(call)]

    def holds(self, call: Call, state: Mapping[str, Any], made: frozenset[str]) -> bool:
        """Whether a call that keeps to its document keeps to the rule, in this state, after the
        calls `made`."""
        if self.kind == "default":
            return call.arguments.get(VIA) == self.value
        if self.kind == "form":
            text = call.arguments[self.argument]
            mark = str(call.arguments[self.key])
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
    """All rules that a tool may have, by tool, in an order that is always the same and leaves
    nothing to its place."""
    rules: dict[str, list[Rule]] = {}
    for kind in KINDS[:3]:
        for entry in (dict(entry) for entry in DATA[kind]):
            tools = entry.pop("tools")
            keys = entry.pop("of", None) or [entry.pop("key")]
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
        kind = rng.choice([kind for kind in KINDS if kind in kinds])
        ruled = rng.random() < RULED
        rule = rng.choice([rule for rule in mine if rule.kind == kind])
        rules |= {tool: rule} if ruled else {}
    return rules
