"""A turn without calls cannot be served before the next one (miss_param, miss_func; 004 Appendix P).

- *miss_param*: a value that the next turn supplies is in no text, result, default or list of a tool's document before,
  and no visible tool shows it.
- *miss_func*: without the tools that are held out, no sequence of at most two visible tools does what the first call of
  such a tool does: reaches the same state or, when that call only reads, brings the same information. The sequences are
  executed, with plausible arguments (`plausible_calls`), in forks of the world as it is before that call; second calls
  follow only those first ones that come nearer to the state, or bring something that the first world did not show.
- both, where blanks are to be *fair*: nothing else that the turn asks for can be done in it. The calls of the next turn
  are executed in their order, each whose tool is visible and whose values are at hand; what goes through is a request
  that a policy would have carried out, and abstaining would have been rewarded for leaving it.

The search is bounded: `FIRST` calls a tool, `NEAR` worlds with `SECOND` calls a tool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rods.analysis.flows import Output
from rods.analysis.plausible_calls import KnownValues, Tried, attempts, plausible, shows, visible
from rods.analysis.says import Text, is_small, key_of, leaves, stems
from rods.calls import Call
from rods.environments.base import Environment, Instance, Result, Results, Tool
from rods.gates.lexicon import lexicon
from rods.gates.records import Reason
from rods.tasks import RETURN_SENTENCE, Task

FIRST, NEAR, SECOND = 24, 4, 12


def missing(environment: Environment, task: Task, results: Results, *, fair: bool = True) -> list[Reason]:
    """Why a turn without calls could be served after all, or why nothing shows what it lacks; with `fair`, also what
    else of it could be done. Empty when nothing can."""
    if task.type not in ("miss_func", "miss_param"):
        return []
    blanks = [turn for turn, calls in enumerate(task.calls) if not calls]
    reasons = []
    for turn in blanks:
        if turn + 1 >= len(task.calls) or not task.calls[turn + 1]:
            reasons.append(Reason("a request is made in vain and nothing follows", turn))
            continue
        served = _Served(environment, task, results, turn + 1)
        found = served.given() if task.type == "miss_param" else served.replaced()
        if fair and not found:
            found = [
                Reason(f"{task.calls[turn + 1][index]} can be made in the turn that is to be declined", turn + 1, index)
                for index in served.possible()
            ]
        reasons += found
    if not blanks:
        reasons.append(Reason(f"a {task.type} task without a turn in which no call is right"))
    return reasons


def unfair(environment: Environment, task: Task, results: Results) -> list[bool | None]:
    """For each turn without calls whether something that it asks for can be done in it; None where nothing is found
    that it lacks, so that nobody can tell."""
    found: list[bool | None] = []
    for turn, calls in enumerate(task.calls):
        if not calls and turn + 1 < len(task.calls) and task.calls[turn + 1]:
            served = _Served(environment, task, results, turn + 1)
            found.append(bool(served.possible()) if served.lacking else None)
    return found


@dataclass(frozen=True)
class _Served:
    """The turn `turn`, whose request was made in vain in the turn before it."""

    environment: Environment
    task: Task
    results: Results
    turn: int

    @cached_property
    def before(self) -> list[Text]:
        return [Text.of(text) for text in self.task.script[: self.turn]]

    @cached_property
    def calls(self) -> list[Call]:
        """All earlier calls."""
        return [call for calls in self.task.calls[: self.turn] for call in calls]

    @cached_property
    def outputs(self) -> list[Output]:
        """What they gave."""
        return [self._output(number, index) for number in range(self.turn) for index in self._places(number)]

    @cached_property
    def tools(self) -> list[Tool]:
        """What is visible in the turn without calls."""
        return visible(self.environment, self.task, self.turn - 1)

    @cached_property
    def lacking(self) -> frozenset[int]:
        """The calls that cannot be made in the turn without calls: their tool is held out, or this turn supplies a
        value of theirs."""
        names = {tool.name for tool in self.tools}
        return frozenset(
            index
            for index, call in enumerate(self.task.calls[self.turn])
            if call.name not in names or any(not had for had in self._supplied(call))
        )

    def given(self) -> list[Reason]:
        """Why nothing that this turn supplies was missing before; empty when something was."""
        had = []
        for call in self.task.calls[self.turn]:
            for way in self._supplied(call):
                if not way:
                    return []
                had.append(way)
        return [Reason("supplies nothing that was missing" + (f" ({'; '.join(had)})" if had else ""), self.turn)]

    def replaced(self) -> list[Reason]:
        """Which other calls do what the first call of each tool that returns does; empty when none do."""
        calls = self.task.calls[self.turn]
        places = [
            next((index for index, call in enumerate(calls) if call.name == name), None)
            for name in self.task.held_out.get(self.turn, ())
        ]
        used = [place for place in places if place is not None]
        if not used:
            return [Reason("needs none of the tools that return in it", self.turn)]
        if not self.environment.features.fork:
            return []
        return [
            Reason(f"{calls[place]} can be done without it: {way}", self.turn)
            for place in used
            for way in self._search(place).ways()
        ]

    def possible(self) -> list[int]:
        """The calls of this turn that a policy can make in the turn without calls, and that its text asks for. Whatever
        only prepares a call that it cannot make is left out: it leaves the world as it is, and that call takes
        something from its result or does not go through without it."""
        calls = self.task.calls[self.turn]
        world = self._world()
        stopped: list[int] = []
        made: list[tuple[int, bool]] = []  # and whether it left the world as it was
        for index, call in enumerate(calls):
            later = world.fork() if self.environment.features.fork else world
            if (
                index in self.lacking
                or self._fed(call, stopped, [place for place, _ in made])
                or later.call(call).error is not None
            ):
                stopped.append(index)
                continue
            made.append((index, later is not world and world.same_state(later)))
            world = later
        preparing = set(stopped)
        for index, reads in reversed(made):
            if reads and any(self._prepares(index, other) for other in preparing):
                preparing.add(index)
        return [index for index, _ in made if index not in preparing and self._asked_before(index)]

    def _supplied(self, call: Call) -> Iterator[str]:
        """For each value of `call` that this turn's text is the first to say: how it could be had before all the same,
        "" where it could not."""
        now = Text.of(self.task.script[self.turn])
        parameters = {parameter.name: parameter for parameter in self.environment.tools()[call.name].parameters}
        for name, value in call.arguments.items():
            if isinstance(value, bool) or not now.tells(value) or any(text.tells(value) for text in self.before):
                continue
            if any(output.brought(name, value) or output.mentions(value) for output in self.outputs):
                yield f"{name}={value!r} is in an earlier result"
            elif (parameter := parameters.get(name)) is not None and value == parameter.default:
                yield f"{name}={value!r} is the default"
            elif self._shown(name, value):
                yield f"a visible tool shows {name}={value!r}"
            else:
                yield ""

    def _shown(self, name: str, value: Any) -> bool:
        texts = self.task.script[: self.turn]
        return shows(self.environment, self.task.state, self.calls, texts, self.tools, name, value)

    def _fed(self, call: Call, stopped: Sequence[int], made: Sequence[int]) -> bool:
        """Whether `call` takes a value from a call of this turn that was `stopped`, and from nowhere else."""
        lost = [self._output(self.turn, index) for index in stopped]
        known = [*self.outputs, *(self._output(self.turn, index) for index in made)]
        return any(
            any(output.brought(name, value) or output.mentions(value) for output in lost)
            and not any(text.tells(value) for text in self.before)
            and not any(output.brought(name, value) or output.mentions(value) for output in known)
            for name, value in call.arguments.items()
        )

    def _prepares(self, index: int, other: int) -> bool:
        """Whether call `other` takes something from the result of call `index`, or fails or gives something else
        without it."""
        if other < index:
            return False
        calls, output = self.task.calls[self.turn], self._output(self.turn, index)
        if any(output.brought(name, value) or output.mentions(value) for name, value in calls[other].arguments.items()):
            return True
        world = self._world()
        results = {place: world.call(call) for place, call in enumerate(calls[: other + 1]) if place != index}
        return results[other].text != self.results[self.turn][other].text

    def _asked_before(self, index: int) -> bool:
        """Whether the turn without calls asks for a call of this turn, rather than this turn itself: its text says one
        of the call's values, or means its tool no less."""
        call, (asked, now) = self.task.calls[self.turn][index], self.task.script[self.turn - 1 : self.turn + 1]
        values = [leaf for _, leaf in leaves(dict(call.arguments)) if not is_small(leaf)]
        if now == RETURN_SENTENCE or any(Text.of(asked).tells(value) for value in values):
            return True
        names = [each.name for each in self.task.calls[self.turn]]
        book = lexicon(self.environment)
        return book.asks(stems(asked), names)[call.name] >= book.asks(stems(now), names)[call.name]

    def _world(self) -> Instance:
        """The world in which the turn begins."""
        world = self.environment.reset(self.task.state)
        for call in self.calls:
            world.call(call)
        return world

    def _output(self, turn: int, index: int) -> Output:
        return Output((turn, index), self.task.calls[turn][index], self.results[turn][index])

    def _places(self, turn: int) -> range:
        return range(len(self.task.calls[turn]))

    def _search(self, place: int) -> _Search:
        """The search for what does the same as call `place`."""
        world, calls = self._world(), self.task.calls[self.turn]
        known = KnownValues()
        known.add_arguments(calls[place].arguments)
        for number in range(self.turn + 1):
            known.add_text(self.task.script[number])
            for index, earlier in enumerate(self.task.calls[number][: None if number < self.turn else place]):
                known.add_arguments(earlier.arguments)
                known.add_result(world.call(earlier) if number == self.turn else self.results[number][index])
        for later in calls[place:]:
            known.add_arguments(later.arguments)
        target = world.fork()
        result = target.call(calls[place])
        return _Search(self.environment, self.tools, known, world, target, _information(calls[place], result))


class _Search:
    """Looks for one or two calls that bring `world` to `target`, or show `wanted` where `target` is no other world."""

    def __init__(
        self,
        environment: Environment,
        tools: Sequence[Tool],
        known: KnownValues,
        world: Instance,
        target: Instance,
        wanted: frozenset[Any],
    ) -> None:
        self.tools, self.known, self.world, self.target, self.wanted = tools, known, world, target, wanted
        self.reads = world.same_state(target)
        self.snapshots = environment.features.snapshot

    def ways(self) -> Iterator[str]:
        """The first way found, as text."""
        if self.reads and not self.wanted:
            return
        first = list(attempts(self.world, plausible(self.tools, self.known, FIRST)))
        for tried in first:
            if self._does(tried):
                yield str(tried.call)
                return
        for tried in self._near(first):
            known = KnownValues()
            known.add_result(tried.result)
            for name, value in self.known.values:
                known.add(name, value)
            for second in attempts(tried.world, plausible(self.tools, known, SECOND)):
                if self._does(second, tried):
                    yield f"{tried.call}, {second.call}"
                    return

    def _does(self, tried: Tried, before: Tried | None = None) -> bool:
        if not self.reads:
            return tried.world.same_state(self.target)
        shown = _information(tried.call, tried.result)
        if before is not None:
            shown |= _information(before.call, before.result)
        return self.wanted <= shown

    def _near(self, first: Sequence[Tried]) -> list[Tried]:
        """The first calls that come nearer to the target, the nearest of each tool, at most `NEAR`."""
        if self.reads:
            scored = [(-len(self.wanted & _information(each.call, each.result)), each) for each in first]
            found = [each for score, each in sorted(scored, key=lambda pair: pair[0]) if score]
            return _different(found, NEAR)
        changed = [each for each in first if not each.world.same_state(self.world)]
        if not self.snapshots:
            return _different(changed, NEAR)
        goal = _flat(self.target.snapshot())
        far = _apart(_flat(self.world.snapshot()), goal)
        distances = [(_apart(_flat(each.world.snapshot()), goal), each) for each in changed]
        return _different([each for apart, each in sorted(distances, key=lambda pair: pair[0]) if apart < far], NEAR)


def _different(tried: Sequence[Tried], most: int) -> list[Tried]:
    return list({each.call.name: each for each in reversed(tried)}.values())[::-1][:most]


def _information(call: Call, result: Result) -> frozenset[Any]:
    """What a result says that its call did not: its leaves, without what occurs everywhere."""
    own = {key_of(leaf) for _, leaf in leaves(dict(call.arguments))}
    shown = {key_of(leaf) for _, leaf in leaves(result.value if result.value is not None else result.text)}
    return frozenset(key for key in shown - own if not isinstance(key, tuple) and not is_small(key))


def _flat(value: Any) -> Counter[Any]:
    return Counter(_paths(value, ()))


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _paths(item, (*path, key))
    elif isinstance(value, list):
        for item in value:
            yield from _paths(item, (*path, "*"))
    else:
        yield (path, key_of(value))


def _apart(one: Counter[Any], two: Counter[Any]) -> int:
    return (one - two).total() + (two - one).total()
