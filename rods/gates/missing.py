"""A turn without calls cannot be served before the next one (miss_param, miss_func; 004 Appendix
P). docs/gates.md says what is searched, and why.

Replacements of a held-out tool are executed in forks of the world before its first call, with
plausible arguments: `FIRST` calls a tool, and after `NEAR` of them that come nearer to the goal,
and `NEAR` that show what it lacks, `SECOND` more of each, up to three in a row and `SEARCHED` in
all."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rods.analysis.containment import Text, is_small, key_of, leaves, stems
from rods.analysis.flows import Output
from rods.analysis.plausible_calls import (
    KnownValues,
    Tried,
    attempts,
    plausible,
    shows,
    visible,
    world_before,
)
from rods.calls import Call
from rods.composing.lexicon import delegates, lexicon, sought
from rods.environments.base import Environment, Instance, Results
from rods.episode.asked import telling
from rods.faults import Reason
from rods.tasks import RETURN_SENTENCE, Task

FIRST = 24
NEAR = 4
SECOND = 12
SEARCHED = 4_000
WAITED = 120  # the same, of calls that wait for another process


def missing(
    environment: Environment, task: Task, results: Results, *, fair: bool = True
) -> list[Reason]:
    """Why a turn without calls could be served after all, or why nothing shows what it lacks; with
    `fair`, also what else of it could be done. A request that leaves a choice to the assistant
    could be served as well. Empty when nothing can."""
    if task.type not in ("miss_func", "miss_param"):
        return []
    blanks = [turn for turn, calls in enumerate(task.calls) if not calls]
    reasons = []
    for turn in blanks:
        if turn + 1 >= len(task.calls) or not task.calls[turn + 1]:
            reasons.append(Reason("a request is made in vain and nothing follows", turn))
            continue
        if task.type == "miss_param" and delegates(task.script[turn]):
            reasons.append(Reason("leaves the choice to the assistant", turn))
        served = AbstentionTurn(environment, task, results, turn + 1)
        ways = served.given() if task.type == "miss_param" else served.replaced()
        if fair and not ways:
            why = "can be made in the turn that is to be declined"
            ways = [
                Reason(f"{served.calls[index]} {why}", turn + 1, index)
                for index in served.possible()
            ]
        reasons += ways
    if not blanks:
        reasons.append(Reason(f"a {task.type} task without a turn in which no call is right"))
    return reasons


class AbstentionTurn:
    """The turn `turn`, whose request was made in vain in the turn before it: its `calls`, and until
    then the texts `before`, the `earlier` calls and their `outputs`. `tools` are visible in the
    turn without calls."""

    def __init__(self, environment: Environment, task: Task, results: Results, turn: int) -> None:
        self.environment = environment
        self.task = task
        self.results = results
        self.turn = turn
        self.calls = task.calls[turn]
        self.before = [Text.of(text) for text in task.script[:turn]]
        self.earlier = [call for calls in task.calls[:turn] for call in calls]
        self.outputs = [
            self._output(number, at)
            for number in range(turn)
            for at in range(len(task.calls[number]))
        ]
        self.tools = visible(environment, task, turn - 1)

    @cached_property
    def lacking(self) -> frozenset[int]:
        """The calls whose tool is held out in the turn without calls, or of which this turn
        supplies a value."""
        names = {tool.name for tool in self.tools}
        lacks = (call.name not in names or not all(self._supplied(call)) for call in self.calls)
        return frozenset(index for index, lacking in enumerate(lacks) if lacking)

    def given(self) -> list[Reason]:
        """Why nothing that this turn supplies was missing before; empty when something was."""
        had = []
        for way in itertools.chain.from_iterable(map(self._supplied, self.calls)):
            if not way:
                return []
            had.append(way)
        return [
            Reason(
                "supplies nothing that was missing" + (f" ({'; '.join(had)})" if had else ""),
                self.turn,
            )
        ]

    def replaced(self) -> list[Reason]:
        """Which other calls do what the first call of each tool that returns does; empty when none
        do."""
        names = [call.name for call in self.calls]
        places = [
            names.index(name) for name in self.task.later_tools.get(self.turn, ()) if name in names
        ]
        if not places:
            return [Reason("needs none of the tools that return in it", self.turn)]
        if not self.environment.features.fork:
            return []
        ways = ((place, _Search(self, place).way()) for place in places)
        return [
            Reason(f"{self.calls[at]} can be done without it: {way}", self.turn)
            for at, way in ways
            if way
        ]

    def possible(self) -> list[int]:
        """The calls of this turn that a policy can make in the turn without calls, and that its
        text asks for. What only prepares a call that it cannot make is asked for where a clause
        says so (`sought`): it leaves the world as it is, and that call takes something from its
        result or does not go through without it."""
        world = world_before(self.environment, self.task, self.turn)
        stopped: list[int] = []
        steps: list[tuple[int, bool]] = []  # and whether it left the world as it was
        for index, call in enumerate(self.calls):
            later = world.fork() if self.environment.features.fork else world
            fed = self._fed(call, stopped, [place for place, _ in steps])
            if index in self.lacking or fed or later.call(call).error is not None:
                stopped.append(index)
            else:
                steps.append((index, later is not world and world.same_state(later)))
                world = later
        preparing = set(stopped)
        for index, reads in reversed(steps):
            if reads and any(self._prepares(index, other) for other in preparing):
                preparing.add(index)
        looking = sought(
            self.environment, self.task.script[self.turn - 1], (call.name for call in self.calls)
        )
        spared = {index for index in preparing if self.calls[index].name not in looking}
        return [
            index
            for index, _ in steps
            if index not in spared and (index in preparing or self._asked_before(index))
        ]

    def _supplied(self, call: Call) -> Iterator[str]:
        """How each value of `call` that this turn is the first to say could be had before; "" where
        it could not."""
        environment = self.environment
        task = self.task
        now = Text.of(self.task.script[self.turn])
        parameters = {
            parameter.name: parameter for parameter in environment.tools()[call.name].parameters
        }
        for name, value in call.arguments.items():
            said_before = any(text.contains_any_form(value) for text in self.before)
            if isinstance(value, bool) or said_before or not now.contains_any_form(value):
                continue
            if any(output.has(name, value) for output in self.outputs):
                yield f"{name}={value!r} is in an earlier result"
            elif (parameter := parameters.get(name)) is not None and value == parameter.default:
                yield f"{name}={value!r} is the default"
            elif shows(
                environment,
                task.state,
                self.earlier,
                task.script[: self.turn],
                self.tools,
                name,
                value,
            ):
                yield f"a visible tool shows {name}={value!r}"
            else:
                yield ""

    def _fed(self, call: Call, stopped: Sequence[int], steps: Sequence[int]) -> bool:
        """Whether `call` takes a value from a call of this turn that was `stopped`, and from
        nowhere else."""
        lost = [self._output(self.turn, index) for index in stopped]
        outputs = [*self.outputs, *(self._output(self.turn, index) for index in steps)]
        taken = [
            item for item in call.arguments.items() if any(output.has(*item) for output in lost)
        ]
        unsaid = [
            item
            for item in taken
            if not any(text.contains_any_form(item[1]) for text in self.before)
        ]
        return any(not any(output.has(*item) for output in outputs) for item in unsaid)

    def _prepares(self, index: int, other: int) -> bool:
        """Whether call `other` takes something from the result of `index`, or gives something else
        without it."""
        if other < index:
            return False
        output = self._output(self.turn, index)
        if any(output.has(name, value) for name, value in self.calls[other].arguments.items()):
            return True
        world = world_before(self.environment, self.task, self.turn, index)
        *_, result = (world.call(call) for call in self.calls[index + 1 : other + 1])
        return result.text != self.results[self.turn][other].text

    def _asked_before(self, index: int) -> bool:
        """Whether the turn without calls asks for a call of this turn, rather than this turn
        itself: its text says one of the call's values, or means its tool no less."""
        call = self.calls[index]
        (asked, now) = self.task.script[self.turn - 1 : self.turn + 1]
        values = [leaf for _, leaf in leaves(dict(call.arguments)) if not is_small(leaf)]
        if now == RETURN_SENTENCE or any(
            Text.of(asked).contains_any_form(value) for value in values
        ):
            return True
        names = [other.name for other in self.calls]
        book = lexicon(self.environment)
        return book.asks(stems(asked), names)[call.name] >= book.asks(stems(now), names)[call.name]

    def _output(self, turn: int, index: int) -> Output:
        return Output((turn, index), self.task.calls[turn][index], self.results[turn][index])


@dataclass(frozen=True, slots=True)
class _Path:
    """Calls that were tried one after another, and the world after them. `apart`: leaves of the
    state that are not yet as they have to be, `had`: wanted values that the calls showed."""

    tried: tuple[Tried, ...]
    world: Instance
    apart: int
    had: int

    @property
    def distance(self) -> int:
        return self.apart - self.had


class _Search:
    """Looks for a few calls that do what call `place` of a turn does: bring `world` to `target`, or
    show what is `wanted` where `target` is no other world (`reads`). For another world is `wanted`
    what it holds and nobody said or showed."""

    def __init__(self, served: AbstentionTurn, place: int) -> None:
        task = served.task
        turn = served.turn
        call = served.calls[place]
        features = served.environment.features
        self.tools = served.tools
        self.every = features.waits  # these run confined, so that no bounds are needed
        self.left = WAITED if features.waits else SEARCHED
        self.pool = KnownValues()
        self.pool.add_all(call.arguments.items())
        for number in range(turn + 1):
            self.pool.add_text(task.script[number])
            for index, earlier in enumerate(task.calls[number][: None if number < turn else place]):
                self.pool.add_all(
                    (*earlier.arguments.items(), *leaves(served.results[number][index].value))
                )
        for later in served.calls[place:]:
            self.pool.add_all(later.arguments.items())
        self.world = world_before(served.environment, task, turn, place)
        self.target = self.world.fork()
        result = self.target.call(call)
        self.reads = self.world.same_state(self.target)
        self.goal: Counter[Any] | None = None
        self.wanted: list[tuple[str, Any]] = []
        if self.reads:
            own = {key_of(leaf) for _, leaf in leaves(dict(call.arguments))}
            told = ((name, _plain(leaf)) for name, leaf, _ in telling(call, result))
            self.wanted = [
                item for item in told if key_of(item[1]) not in own and not is_small(item[1])
            ]
        elif features.snapshot:
            self.goal = Counter(_paths(self.target.snapshot()))
            known = {key_of(value) for _, value in self.pool.values}
            lacking = self.goal - Counter(_paths(self.world.snapshot()))
            self.wanted = [
                (str(path[-1]), key)
                for path, key in lacking
                if isinstance(key, str) and key not in known and not is_small(key)
            ]

    def way(self) -> str:
        """The first way found, as text; "" where there is none."""
        if self.reads and not self.wanted:
            return ""
        far = 0 if self.goal is None else _apart(self.world, self.goal)
        paths = [_Path((), self.world, far, 0)]
        for most in (FIRST, SECOND, SECOND):
            nearer = []
            share = max(1, self.left // (2 * len(paths) * len(self.tools) + 1))
            for path in paths:
                for tried in self._tried(path, min(most, share)):
                    longer = self._longer(path, tried)
                    if self._does(longer):
                        return ", ".join(str(one.call) for one in longer.tried)
                    if longer.distance < path.distance:
                        nearer.append(longer)
            looked = [path for path in nearer if path.had]
            paths = [*_nearest(looked), *_nearest([path for path in nearer if not path.had])]
        return ""

    def _tried(self, path: _Path, most: int) -> Iterator[Tried]:
        """Calls that work after `path`, at most `most` of each tool, as long as any are `left`."""
        pool = KnownValues()
        for tried in reversed(path.tried):
            pool.add_all(leaves(tried.result.value))
        pool.add_all(self.pool.values)
        calls = plausible(self.tools, pool, most, every=self.every)
        for call in itertools.islice(calls, self.left):
            self.left -= 1
            yield from attempts(path.world, [call])

    def _longer(self, path: _Path, tried: Tried) -> _Path:
        every = (*path.tried, tried)
        outputs = [Output((0, 0), one.call, one.result) for one in every]
        guessed = {key_of(leaf) for one in every for _, leaf in leaves(dict(one.call.arguments))}
        had = sum(
            any(output.has(*item) for output in outputs)
            for item in self.wanted
            if key_of(item[1]) not in guessed
        )
        apart = path.apart
        if not self.reads and not tried.world.same_state(path.world):
            apart = apart - 1 if self.goal is None else _apart(tried.world, self.goal)
        return _Path(every, tried.world, apart, had)

    def _does(self, path: _Path) -> bool:
        if self.reads:
            return path.had == len(self.wanted)
        return path.world.same_state(self.target)


def _nearest(paths: Sequence[_Path]) -> list[_Path]:
    """The nearest path of each last tool; of at most `NEAR` tools, those whose farthest one comes
    nearest."""
    farthest_first = sorted(paths, key=lambda path: path.distance)[::-1]
    # a tool stands where its farthest path does, with its nearest one
    return list({path.tried[-1].call.name: path for path in farthest_first}.values())[::-1][:NEAR]


def _plain(value: Any) -> Any:
    """A value as others may show it: "./a.txt" and "docs/" as "a.txt" and "docs"."""
    return value.removeprefix("./").rstrip("/") if isinstance(value, str) else value


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[Any]:
    """The leaves of a state with their places, wherever they stand in a list."""
    if isinstance(value, (Mapping, list)):
        items = value.items() if isinstance(value, Mapping) else (("*", item) for item in value)
        for key, item in items:
            yield from _paths(item, (*path, key))
    else:
        yield (path, key_of(value))


def _apart(world: Instance, goal: Counter[Any]) -> int:
    leaves_now = Counter(_paths(world.snapshot()))
    return (leaves_now - goal).total() + (goal - leaves_now).total()
