"""Sampled calls that get deep into a world: what breaks a rule is often reached after several
changes of one thing only.

A walk begins in the start state, where the walk before it ended, in a state that an earlier one has
reached, or in the one in which an entry of some table is named the most. Half of its calls are of
one tool. Arguments are what stands in the state right before the call, rather what the same tool
has taken before than what it has refused, and one entry more often than any other, so that changes
meet in it. Now and then a text comes in other case, a number one more or less, a key with another
number. The last third of the walks give as many new values as a tool takes: what is added under
known keys is refused, and what begins with few entries stays far from its limits."""

import random
import re
from collections import Counter, defaultdict, deque
from typing import Any

from rods.analysis.containment import akin, leaves
from rods.analysis.sampling import Sampler
from rods.analysis.schemas import Checker, limits
from rods.calls import Call
from rods.canonical import JsonMapping, frozen, keyed_random
from rods.environments.base import Parameter, Tool
from rods.worlds.checking.environments import Probe, Reply

WALKS = 120  # in every state
CALLS = 24  # of a walk
PURPOSE = 0.5  # share of the calls that are of one tool
KEPT = 64  # states to begin in
READS = 0.3  # weight of a tool that only reads
# shares of arguments that are something else than what stands in the state, and a little other
ELSE = {True: 0.04, False: 0.4}  # by whether the text has a pattern: is a key, as a rule
OTHER = 0.1
NEW = 0.7  # of all arguments that may be, at most
PINNED = 0.7  # share of those that are the entry in which changes are to meet
MOST = 0.6  # share of walks in which that is the one that most others name
AKIN = 0.3  # share of those that stand in the state under any name
_NUMBER = re.compile(r"[0-9]+$")  # of a key


@frozen
class Walk:
    """The calls from a state, and what each gave."""

    state: JsonMapping | None
    calls: tuple[Call, ...]
    replies: tuple[Reply, ...]


def walks(probe: Probe, state: JsonMapping | None, random_seed: int) -> list[Walk]:
    """Walks from a state and from those that they reach; what goes wrong is a fault of the
    `probe`."""
    rng = keyed_random(random_seed, "walks")
    tools = list(probe.environment.tools().values())
    makers = [tool for tool in tools if not tool.reads]
    drawing = Drawing(rng)
    reached = deque[tuple[Counter[str], JsonMapping | None]]([(Counter(), state)], KEPT)
    succeeded = Counter[str]()
    walked = list[Walk]()
    many = (WALKS if state else WALKS // 3) if makers else 0
    for number in range(many + many // 2):
        drawing.adapts = number >= many
        purpose = makers[number % len(makers)]
        table = drawing.table(purpose, reached[-1][1] or {})
        fullest = max(reached, key=lambda pair: pair[0][table])
        begins = [(Counter[str](), state), reached[-1], rng.choice(reached), fullest, fullest]
        _, origin = rng.choice(begins)
        instance = probe.fresh(origin)
        now = instance.snapshot()
        drawing.see(now)
        drawing.pin(now, table)
        calls = list[Call]()
        replies = list[Reply]()
        for _ in range(CALLS):
            weights = [(READS if tool.reads else 1) / (1 + succeeded[tool.name]) for tool in tools]
            (tool,) = [purpose] if rng.random() < PURPOSE else rng.choices(tools, weights)
            call = drawing.call(tool)
            result = probe.call(instance, call)
            calls.append(call)
            replies.append((result.text, result.error))
            drawing.heard(call, result.error is None)
            if result.error is None:
                succeeded[tool.name] += 1
                if not tool.reads:
                    now = instance.snapshot()
                    drawing.see(now)
        walked.append(Walk(origin, tuple(calls), tuple(replies)))
        reached.append((_named(now), now))
    return walked


def _named(state: JsonMapping) -> Counter[str]:
    """By table, how often one of its entries is named, the one that is named the most."""
    times = Counter(value for _, value in leaves(state))
    tables = [(name, table) for name, table in state.items() if isinstance(table, dict)]
    return Counter({name: max(map(times.__getitem__, table), default=0) for name, table in tables})


def _odds(ill: int, well: int) -> float:
    return (1 + 2 * well) / (1 + ill)


class Drawing:
    """Draws the arguments of calls."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sampler = Sampler(rng)
        # by tool, parameter and value, or whether it was known: how often it was part of what was
        # refused, and succeeded
        self.taken: defaultdict[tuple[str, str, Any], list[int]] = defaultdict(lambda: [0, 0])
        self.checkers: dict[tuple[str, str], Checker] = {}
        self.adapts = False  # whether what was taken says how often a value is a new one
        self.there: list[tuple[str, Any]] = []
        self.pinned = ""

    def table(self, tool: Tool, state: JsonMapping) -> str:
        """A table whose entries the tool can name; "" where there is none."""
        named = [self._checker(tool.name, parameter) for parameter in tool.parameters]
        tables = [
            name
            for name, table in state.items()
            if isinstance(table, dict) and any(one.fits(key) for one in named for key in table)
        ]
        return self.rng.choice(tables) if tables else ""

    def pin(self, state: JsonMapping, table: str) -> None:
        """One entry of the table is named most from now on, often one that others name already."""
        times = Counter(value for _, value in leaves(state))
        ranked = sorted(state.get(table, ()), key=lambda key: -times[key])
        most = self.rng.random() < MOST
        self.pinned = "" if not ranked else ranked[0] if most else self.rng.choice(ranked)

    def see(self, state: JsonMapping) -> None:
        """Arguments are what stands in this state from now on."""
        found = ((field, value) for field, value in leaves(state, keys=True))
        self.there = [*dict.fromkeys(pair for pair in found if isinstance(pair[1], (str, int)))]

    def call(self, tool: Tool) -> Call:
        names = [
            parameter
            for parameter in tool.parameters
            if parameter.required or self.rng.random() < 0.5
        ]
        return Call(tool.name, {each.name: self._value(tool.name, each) for each in names})

    def heard(self, call: Call, succeeded: bool) -> None:
        known = [value for _, value in self.there]
        for name, value in call.arguments.items():
            self.taken[call.name, name, (value in known,)][succeeded] += 1
            if isinstance(value, (str, int)):
                self.taken[call.name, name, value][succeeded] += 1

    def _checker(self, tool: str, parameter: Parameter) -> Checker:
        key = tool, parameter.name
        if key not in self.checkers:
            self.checkers[key] = Checker(limits(parameter))
        return self.checkers[key]

    def _value(self, tool: str, parameter: Parameter) -> Any:
        name = parameter.name
        checker = self._checker(tool, parameter)
        schema = limits(parameter)
        fitting = [(field, value) for field, value in self.there if checker.fits(value)]
        share = ELSE["pattern" in schema]
        if self.adapts:
            new, known = (_odds(*self.taken[tool, name, (each,)]) for each in (False, True))
            share = min(share * new / (share * new + (1 - share) * known), NEW)
        if "enum" in schema or not fitting or self.rng.random() < share:
            return self.sampler.value(name, schema)
        related = [value for field, value in fitting if akin(field, name)]
        every = "pattern" in schema or not related or self.rng.random() < AKIN
        values = [*dict.fromkeys([value for _, value in fitting] if every else related)]
        if self.pinned in values and self.rng.random() < PINNED:
            return self.pinned
        odds = [_odds(*self.taken[tool, name, value]) for value in values]
        (value,) = self.rng.choices(values, odds)
        if self.rng.random() >= OTHER:
            return value
        if isinstance(value, int):
            other: Any = value + self.rng.choice((-1, 1))
        elif "pattern" in schema:
            other = _NUMBER.sub(str(self.rng.randrange(1, 100)), value)
        else:
            other = self.rng.choice((value.swapcase(), f"{value} "))
        return other if checker.fits(other) else value
