"""Tries out what a policy could call: plausible calls of the visible tools, executed in forks of a
world, since no document says whether a tool only reads or what it would show. Plausible arguments
are `KnownValues`, the nearer in name the better, and the values that a parameter's own document
lists."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from rods.analysis.containment import IDENTIFIER, akin, key_of, leaves, things
from rods.analysis.flows import Output
from rods.calls import Call
from rods.canonical import JsonMapping, frozen
from rods.environments.base import Environment, Instance, Parameter, Result, Tool
from rods.model_json import TYPES
from rods.tasks import Task

SHOWN = 6  # calls of each tool that are tried to see what it shows
# the more parameters a tool has, the fewer values of each count: about so many combinations in all
SPREAD = 256
_MARKED = re.compile(r"\[Enum\]:\s*\[?([^\]]*)")
_LISTED = re.compile(r"'([^'\s]{1,40})'|\((\w+(?:/\w+)+)\)")
_ABSENT = object()


@dataclass(slots=True)
class KnownValues:
    """Values by the name under which they were met ("" for what a text says), the most telling
    first."""

    values: list[tuple[str, Any]] = field(default_factory=list)
    _seen: set[Any] = field(default_factory=set)

    def add_all(self, values: Iterable[tuple[str, Any]]) -> None:
        for name, value in values:
            key = (name, key_of(value))
            if key not in self._seen:
                self._seen.add(key)
                self.values.append((name, value))

    def add_text(self, text: str) -> None:
        """What a text quotes, its numbers and what looks like a name."""
        self.add_all(
            ("", int(thing) if isinstance(thing, float) and thing.is_integer() else thing)
            for thing in (*things(text), *IDENTIFIER.findall(text))
        )


@frozen
class Tried:
    """One call that went through, its result, and the world after it."""

    call: Call
    result: Result
    world: Instance


def shows(
    environment: Environment,
    state: JsonMapping | None,
    calls: Sequence[Call],
    texts: Sequence[str],
    tools: Sequence[Tool],
    name: str,
    value: Any,
    more: Iterable[tuple[str, Any]] = (),
) -> bool:
    """Whether one of `tools` shows `value` (wanted for an argument called `name`) in the world
    after `calls`, when it is called with what was said in `texts`, called and shown until then, or
    with `more` values. False where worlds cannot be forked."""
    return environment.features.fork and any(
        Output((0, 0), tried.call, tried.result).has(name, value)
        for tried in tried_after(environment, state, calls, texts, tools, more)
    )


def tried_after(
    environment: Environment,
    state: JsonMapping | None,
    calls: Sequence[Call],
    texts: Sequence[str],
    tools: Sequence[Tool],
    more: Iterable[tuple[str, Any]] = (),
) -> Iterator[Tried]:
    """Calls of `tools` that work in the world after `calls`, with what was said in `texts`, called
    and shown until then, and `more` values by their names. Raises Unsupported where worlds cannot
    be forked."""
    world, pool = after(environment, state, calls, texts, more)
    yield from attempts(world, plausible(tools, pool, SHOWN))


def after(
    environment: Environment,
    state: JsonMapping | None,
    calls: Iterable[Call],
    texts: Iterable[str],
    more: Iterable[tuple[str, Any]] = (),
) -> tuple[Instance, KnownValues]:
    """The world after `calls`, and what was called, shown and said in `texts` until then, with
    `more` values by their names."""
    world = environment.reset(state)
    pool = KnownValues()
    for call in calls:
        pool.add_all((*call.arguments.items(), *leaves(world.call(call).value)))
    for text in texts:
        pool.add_text(text)
    pool.add_all(more)
    return world, pool


def world_before(environment: Environment, task: Task, turn: int, index: int = 0) -> Instance:
    """A fresh world in which all ground-truth calls before call `index` of `turn` were made."""
    world = environment.reset(task.state)
    for call in (*itertools.chain(*task.calls[:turn]), *task.calls[turn][:index]):
        world.call(call)
    return world


def visible(environment: Environment, task: Task, turn: int) -> list[Tool]:
    """The tools that the policy can call in `turn`, as far as the environment knows them."""
    by_name = environment.tools()
    return [by_name[name] for name in task.tools_at(turn) if name in by_name]


def attempts(world: Instance, calls: Iterable[Call]) -> Iterator[Tried]:
    """Those of `calls` that work, each in a fork of its own. Raises Unsupported where the world
    cannot be forked."""
    for call in calls:
        fork = world.fork()
        result = fork.call(call)
        if result.error is None:
            yield Tried(call, result, fork)


def plausible(
    tools: Iterable[Tool], pool: KnownValues, most: int, *, every: bool = False
) -> Iterator[Call]:
    """At most `most` calls of each bounded tool, or of `every` one, with arguments from `pool`, the
    likeliest first."""
    for tool in (tool for tool in tools if every or tool.bounded):
        choices: list[list[tuple[int, Any]]] = []
        wide = max(2, int(SPREAD ** (1 / max(1, len(tool.parameters)))))
        for parameter in tool.parameters:
            ranked = list(enumerate(options(parameter, pool, min(wide, most))))
            choices.append(ranked if parameter.required else [(0, _ABSENT), *ranked])
        for chosen in itertools.islice(_likeliest(choices), most):
            values = zip(tool.parameter_names, chosen, strict=True)
            yield Call(tool.name, {name: value for name, value in values if value is not _ABSENT})


def _likeliest(choices: Sequence[Sequence[tuple[int, Any]]]) -> Iterator[tuple[Any, ...]]:
    """One value of each of `choices`, lists of (rank, value), in all combinations: the lowest sum
    of ranks first, those of one sum in the order of the lists. Made one by one, since there are
    exponentially many."""
    if not all(choices):
        return
    reach = [0]  # the highest sum that the choices from a place on can have
    for ranked in reversed(choices):
        reach.insert(0, reach[0] + max(rank for rank, _ in ranked))

    def of_sum(left: int, place: int) -> Iterator[tuple[Any, ...]]:
        if place == len(choices):
            yield ()
            return
        for rank, value in choices[place]:
            if 0 <= left - rank <= reach[place + 1]:
                yield from ((value, *rest) for rest in of_sum(left - rank, place + 1))

    for total in range(reach[0] + 1):
        yield from of_sum(total, 0)


def options(parameter: Parameter, pool: KnownValues, most: int) -> list[Any]:
    """At most `most` values for `parameter`: of its own name, then of a name akin to it, then any
    of its type."""
    kind = parameter.schema.get("type")
    if kind == "boolean":
        return [True, False]
    listed = documented(parameter)
    fits = [(name, value) for name, value in pool.values if _fits(kind, value)]
    if listed and kind == "string":
        keys = {key_of(value) for value in listed}
        first = [value for _, value in fits if key_of(value) in keys]
        return _distinct([*first, *listed], most)
    ranked = [value for name, value in fits if name == parameter.name]
    ranked += [value for name, value in fits if name and akin(name, parameter.name)]
    ranked += [value for name, value in fits if not name] + [value for _, value in fits]
    if kind == "array":
        ranked += [[value] for _, value in pool.values if isinstance(value, str)]
    return _distinct(ranked, most)


def documented(parameter: Parameter) -> list[Any]:
    """The values that a parameter's document lists: its enumeration, or what its description names
    as one."""
    return _documented(parameter.description, tuple(map(str, parameter.schema.get("enum", ()))))


@lru_cache(maxsize=4096)
def _documented(description: str, enumeration: tuple[str, ...]) -> list[Any]:
    if enumeration:
        return list(enumeration)
    if marked := _MARKED.search(description):
        return [part.strip(" '\"") for part in marked[1].split(",") if part.strip(" '\"")]
    listed = (
        either.split("/") if either else [quoted] for quoted, either in _LISTED.findall(description)
    )
    values = list(itertools.chain.from_iterable(listed))
    return values if len(values) > 1 else []


def _fits(kind: Any, value: Any) -> bool:
    """Whether `value` is of a type of JSON Schema; of one that is not known, any is."""
    numbers = kind in ("integer", "number")
    return isinstance(value, TYPES.get(str(kind), object)) and not (
        numbers and isinstance(value, bool)
    )


def _distinct(values: Sequence[Any], most: int) -> list[Any]:
    first: dict[Any, Any] = {}
    for value in values:
        first.setdefault((type(value).__name__, key_of(value)), value)
        if len(first) == most:
            break
    return list(first.values())
