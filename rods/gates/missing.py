"""A turn without calls cannot be served before the next one (miss_param, miss_func; 004 Appendix P).

- *miss_param*: a value that the next turn supplies is in no text, result, default or list of a tool's document before,
  and no visible tool shows it.
- *miss_func*: without the tools that are held out, no sequence of at most two visible tools does what the first call of
  such a tool does: reaches the same state or, when that call only reads, brings the same information. The sequences are
  executed, with plausible arguments (`plausible_calls`), in forks of the world as it is before that call; second calls
  follow only those first ones that come nearer to the state, or bring something that the first world did not show.

The search is bounded: `FIRST` calls a tool, `NEAR` worlds with `SECOND` calls a tool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rods.analysis.flows import Output
from rods.analysis.plausible_calls import KnownValues, Tried, attempts, plausible, shows, visible
from rods.analysis.says import Text, is_small, key_of, leaves
from rods.calls import Call
from rods.environments.base import Environment, Instance, Result, Results, Tool
from rods.gates.records import Reason
from rods.tasks import Task

FIRST, NEAR, SECOND = 24, 4, 12


def missing(environment: Environment, task: Task, results: Results) -> list[Reason]:
    """Why a turn without calls could be served after all, or why nothing shows what it lacks; empty when it cannot."""
    if task.type not in ("miss_func", "miss_param"):
        return []
    blanks = [turn for turn, calls in enumerate(task.calls) if not calls]
    reasons = []
    for turn in blanks:
        if turn + 1 >= len(task.calls) or not task.calls[turn + 1]:
            reasons.append(Reason("a request is made in vain and nothing follows", turn))
        elif task.type == "miss_param":
            reasons += _given(environment, task, results, turn + 1)
        else:
            reasons += _replaced(environment, task, turn + 1)
    if not blanks:
        reasons.append(Reason(f"a {task.type} task without a turn in which no call is right"))
    return reasons


def _given(environment: Environment, task: Task, results: Results, turn: int) -> list[Reason]:
    """Why nothing that `turn` supplies was missing before; empty when something was."""
    now = Text.of(task.script[turn])
    before = [Text.of(text) for text in task.script[:turn]]
    outputs = [
        Output((number, index), call, results[number][index])
        for number in range(turn)
        for index, call in enumerate(task.calls[number])
    ]
    calls = [call for number in range(turn) for call in task.calls[number]]
    tools = visible(environment, task, turn - 1)
    had = []
    for call in task.calls[turn]:
        parameters = {parameter.name: parameter for parameter in environment.tools()[call.name].parameters}
        for name, value in call.arguments.items():
            if isinstance(value, bool) or not now.tells(value) or any(text.tells(value) for text in before):
                continue
            if any(output.brought(name, value) or output.mentions(value) for output in outputs):
                had.append(f"{name}={value!r} is in an earlier result")
            elif (parameter := parameters.get(name)) is not None and value == parameter.default:
                had.append(f"{name}={value!r} is the default")
            elif shows(environment, task.state, calls, task.script[:turn], tools, name, value):
                had.append(f"a visible tool shows {name}={value!r}")
            else:
                return []
    return [Reason("supplies nothing that was missing" + (f" ({'; '.join(had)})" if had else ""), turn)]


def _replaced(environment: Environment, task: Task, turn: int) -> list[Reason]:
    """Which other calls do what the first call of a tool that returns in `turn` does; empty when none do."""
    names = set(task.held_out.get(turn, ()))
    place = next((index for index, call in enumerate(task.calls[turn]) if call.name in names), None)
    if place is None:
        return [Reason("needs none of the tools that return in it", turn)]
    if not environment.features.fork:
        return []
    world = environment.reset(task.state)
    known = KnownValues()
    call = task.calls[turn][place]
    known.add_arguments(call.arguments)
    for number in range(turn + 1):
        known.add_text(task.script[number])
        for earlier in task.calls[number][: None if number < turn else place]:
            known.add_arguments(earlier.arguments)
            known.add_result(world.call(earlier))
    for later in task.calls[turn][place:]:
        known.add_arguments(later.arguments)
    target = world.fork()
    result = target.call(call)
    tools = visible(environment, task, turn - 1)
    search = _Search(environment, tools, known, world, target, _information(call, result))
    return [Reason(f"{call} can be done without it: {way}", turn) for way in search.ways()]


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
