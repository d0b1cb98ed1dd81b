"""A turn without calls cannot be served before the next one (miss_param, miss_func; 004 Appendix
P). docs/gates.md says what is searched, and why.

Replacements of a held-out tool are executed in forks of the world before its first call, with
plausible arguments: `FIRST` calls a tool, and after `NEAR` of them that come nearer to the goal, or
show what it lacks, `SECOND` more of each, up to three in a row."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rods.analysis.containment import Text, is_small, key_of, keys_in, leaves, stems, values_in
from rods.analysis.flows import Output
from rods.analysis.plausible_calls import (
    KnownValues,
    Tried,
    after,
    attempts,
    plausible,
    shows,
    visible,
    world_before,
)
from rods.calls import Call
from rods.canonical import JsonObject
from rods.composing.lexicon import delegates, lexicon, sought
from rods.environments.base import Environment, Instance, Results, value_of
from rods.episode.asked import telling
from rods.faults import Reason, Reasons
from rods.tasks import RETURN_SENTENCE, Task

FIRST = 24
NEAR = 6
SECOND = 12
RECORD = 8  # leaves at most of what counts as a record, in its two states together
WAITING = 8  # so many times fewer where calls wait for another process


def missing(
    environment: Environment, task: Task, results: Results, *, fair: bool = True
) -> Reasons:
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
                Reason(
                    f"{served.calls[index]} {why}", turn + 1, index, doubt=index in served.worded
                )
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
        self.worded: set[int] = set()  # calls that are asked for by words alone, so far

    @cached_property
    def lacking(self) -> frozenset[int]:
        """The calls whose tool is held out in the turn without calls, or of which this turn
        supplies a value."""
        names = {tool.name for tool in self.tools}
        lacks = (call.name not in names or not all(self._supplied(call)) for call in self.calls)
        return frozenset(index for index, lacking in enumerate(lacks) if lacking)

    def given(self) -> Reasons:
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

    def replaced(self) -> Reasons:
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
        # where one goes first is seldom an errand of its own
        if (catalogue := lexicon(self.environment).catalogue) and stopped:
            common = catalogue.common
            self.worded.update(index for index, _ in steps if self.calls[index].name in common)
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
            if index not in spared and (index in preparing or self._asked_before(index, stopped))
        ]

    def _supplied(self, call: Call) -> Iterator[str]:
        """How each value of `call` that this turn is the first to say could be had before; "" where
        it could not."""
        environment = self.environment
        task = self.task
        now = Text.of(self.task.script[self.turn])
        parameters = environment.tools()[call.name].by_name
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

    def _asked_before(self, index: int, stopped: Sequence[int]) -> bool:
        """Whether the turn without calls asks for a call of this turn, rather than this turn
        itself: its text says a value that is the call's alone, and of none of those `stopped`,
        which cannot be made there either ("write what we agreed on into a.txt" asks for no move of
        it), or means its tool no less and no value is new."""
        call = self.calls[index]
        (asked, now) = self.task.script[self.turn - 1 : self.turn + 1]
        shared = set[Any]().union(*(keys_in(self.calls[at].arguments) for at in stopped))
        values = [
            leaf
            for leaf in values_in(call.arguments)
            if not is_small(leaf) and key_of(leaf) not in shared
        ]
        if now == RETURN_SENTENCE or any(
            Text.of(asked).contains_any_form(value) for value in values
        ):
            return True
        if any("tool shows" in way for way in self._supplied(call)):
            return False  # one of its values is new in this turn
        self.worded.add(index)
        names = [other.name for other in self.calls]
        book = lexicon(self.environment)
        return book.asks(stems(asked), names)[call.name] >= book.asks(stems(now), names)[call.name]

    def _output(self, turn: int, index: int) -> Output:
        return Output((turn, index), self.task.calls[turn][index], self.results[turn][index])


@dataclass(slots=True)
class _Path:
    """Calls of a search: the world after them, which of the wanted values they show, what they were
    given, and the leaves of the state that are not as in the target."""

    world: Instance
    apart: Counter[Any]
    far: int = 0
    steps: tuple[Tried, ...] = ()
    shown: frozenset[int] = frozenset()
    given: frozenset[Any] = frozenset()
    moved: bool = False  # whether the last call changed the state


class _Search:
    """Looks for a few calls that do what call `place` of a turn does: bring `world` to `target`, or
    show what is `wanted` where `target` is no other world (`reads`). Of another world is `wanted`
    what it holds and nobody said or showed, and all that stands in the small records that the call
    changes (`places`): these can be made anew."""

    def __init__(self, served: AbstentionTurn, place: int) -> None:
        task = served.task
        call = served.calls[place]
        features = served.environment.features
        self.tools = served.tools
        # calls that wait are fewer; they run confined, so that tools need no bounds
        self.waits = features.waits
        calls = (*served.earlier, *served.calls[:place])
        own = [item for one in served.calls[place:] for item in one.arguments.items()]
        texts = task.script[: served.turn + 1]
        self.world, known = after(served.environment, task.state, calls, texts, own)
        self.target = self.world.fork()
        result = self.target.call(call)
        self.reads = self.world.same_state(self.target)
        self.pool = KnownValues()
        self.places: set[Any] = set()
        self.records: set[Any] = set()
        self.goal: JsonObject | None = None
        apart = Counter[Any]()
        sources = [*leaves(call.arguments)]
        facts = [(name, _plain(leaf)) for name, leaf, _ in telling(call, result) if self.reads]
        if features.snapshot and not self.reads:
            self.goal = self.target.snapshot()
            goal = Counter(_paths(self.goal))
            self.records = {at[:-1] for at, _ in goal}
            # equal states may be written otherwise after a call: the one most like the target
            looks = attempts(self.world, plausible(self.tools, known, 1, every=self.waits))
            same = [look.world for look in looks if look.world.same_state(self.world)]
            apart, self.world = min(
                ((_apart(world, self.goal), world) for world in (self.world, *same)),
                key=lambda pair: pair[0].total(),
            )
            sizes = Counter(path[:-1] for path, _ in goal | Counter(_paths(self.world.snapshot())))
            self.places = {path[:-1] for path, _ in apart if sizes[path[:-1]] <= RECORD}
            sources = known.values
            facts = [
                (str(path[-1]), key)
                for path, key in goal
                if path[:-1] in self.places or (path, key) in apart
            ]
            # what a call counts on from a number can be worked out, and set
            self.pool.add_all(fact for fact in facts if isinstance(fact[1], int | float))
        self.pool.add_all((*call.arguments.items(), *known.values))
        self.held = {key_of(leaf) for _, leaf in facts}
        keys = {key_of(value) for _, value in sources}
        self.wanted = [
            (key, leaf)
            for _, leaf in facts
            if (key := key_of(leaf)) not in keys and not is_small(leaf)
        ]
        far = len(self.wanted) + apart.total()
        self.start = _Path(self.world, apart, far if self.reads or self.goal is not None else 0)

    def way(self) -> str:
        """The first way found, as text; "" where there is none."""
        if self.reads and not self.wanted:
            return ""
        paths = [self.start]
        for most in (FIRST, SECOND, SECOND):
            nearer: list[_Path] = []
            share = most // WAITING if self.waits else most
            for path in paths:
                pool = KnownValues()
                for step in path.steps[::-1]:
                    pool.add_all(step.call.arguments.items())
                    pool.add_all(leaves(value_of(step.result)))
                pool.add_all(self.pool.values)
                calls: Iterable[Call] = plausible(self.tools, pool, share, every=self.waits)
                if not self.reads:  # first what the state to be reached holds
                    likely = KnownValues()
                    likely.add_all(item for item in pool.values if key_of(item[1]) in self.held)
                    first = plausible(self.tools, likely, share, every=self.waits)
                    calls = {str(call): call for call in (*first, *calls)}.values()
                for tried in attempts(path.world, calls):
                    further = self._further(path, tried)
                    done = not (self.reads and further.far)
                    same = done and tried.world.same_state(self.target)
                    if same or (
                        self.goal is not None
                        and further.moved
                        and _made_anew(further, self.goal, self.records)
                    ):
                        return ", ".join(str(step.call) for step in further.steps)
                    # what differs in small records that the call changes can be made anew
                    anew = further.moved and {place[:-1] for place, _ in further.apart}
                    if further.far < path.far or (anew and anew <= self.places):
                        nearer.append(further)
            nearer.sort(key=lambda path: path.far, reverse=True)
            # a tool stands where its farthest call does, with its nearest one
            paths = list({path.steps[-1].call.name: path for path in nearer}.values())
            paths = paths[::-1][:NEAR]
        return ""

    def _further(self, path: _Path, tried: Tried) -> _Path:
        """`path` and one call more. It is as far as there are wanted values that no call shows
        without being given them, and leaves of the state that are not as in `target`; one less
        where states cannot be read and it is another one."""
        output = Output((0, 0), tried.call, tried.result)
        shown = path.shown.union(
            index
            for index, (key, leaf) in enumerate(self.wanted)
            if index not in path.shown and (key in output.fields or output.mentions(leaf))
        )
        given = path.given | keys_in(tried.call.arguments)
        moved = not self.reads and not tried.world.same_state(path.world)
        apart = path.apart if self.goal is None or not moved else _apart(tried.world, self.goal)
        seen = [self.wanted[index][0] for index in shown]
        if self.reads:
            seen = [key for key in seen if key not in given]
        far = len(self.wanted) - len(seen) + apart.total()
        if not self.reads and self.goal is None:
            far = -(not tried.world.same_state(self.world))
        return _Path(tried.world, apart, far, (*path.steps, tried), shown, given, moved)


def _made_anew(path: _Path, goal: JsonObject, records: Set[Any]) -> bool:
    """Whether the state at the end of `path` is `goal`, which has these `records`, but for one
    record's identifier, which the world gave, and the count that it was taken from."""
    parts = _differences(path.world, goal)
    made = {at[:-1] for at, _ in parts[0]} - records
    if len(made) != 1 or not path.given.isdisjoint(keys_in([*made])):
        return False
    (record,) = made
    counts = {at for at, key in parts[1] if key != "" and record[-1].endswith(str(key))}
    fields = [
        Counter((at[-1], key) for at, key in part.elements() if at not in counts) for part in parts
    ]
    return fields[0] == fields[1]


def _plain(value: Any) -> Any:
    """A value as others may show it: "./a.txt" and "docs/" as "a.txt" and "docs"."""
    return value.removeprefix("./").rstrip("/") if isinstance(value, str) else value


def _apart(world: Instance, goal: JsonObject) -> Counter[Any]:
    mine, theirs = _differences(world, goal)
    return mine + theirs


def _differences(world: Instance, goal: JsonObject) -> tuple[Counter[Any], Counter[Any]]:
    """The leaves of the state of `world` that `goal` has not, and the other way round."""
    now = world.snapshot()
    mine = Counter(_paths(now, goal))
    theirs = Counter(_paths(goal, now))
    return mine - theirs, theirs - mine


def _paths(value: Any, other: Any = None, path: tuple[Any, ...] = ()) -> Iterator[Any]:
    """The leaves of a state with their places, wherever they stand in a list; without objects that
    `other` has alike at their place."""
    if isinstance(value, (Mapping, list)):
        items = value.items() if isinstance(value, Mapping) else (("*", item) for item in value)
        for key, item in items:
            beside = other.get(key) if isinstance(other, Mapping) else None
            if beside is None or item != beside:
                yield from _paths(item, beside, (*path, key))
    else:
        yield (path, key_of(value))
