"""Whether following a text of feedback makes its class of failure disappear, in worlds that it was not mined from.

A text is words; what it advises has to be said so that it can be executed (`Remedy`):

- `look_up`: an argument is to be taken from the result of another tool;
- `first`: another tool has to be called before;
- `argument`: an argument takes another form: `shape` is that form (rods.analysis.failures), or "documented", one of the
  values that the tool's document lists.

`witnesses` brings the failure about in the worlds of other training tasks, out of their own ground-truth calls: called
too early, or with an argument of a shape that was seen to fail, or with a value that is not there. `mends` then follows
the remedy there, with plausible arguments: it holds where a call goes through that was refused. Nothing of this is
shown to a model or a policy.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rods.analysis.failures import pattern, shape
from rods.analysis.flows import value_of
from rods.analysis.plausible_calls import KnownValues, documented, options, plausible
from rods.analysis.sampling import WORDS
from rods.analysis.says import leaves
from rods.calls import Call
from rods.environments.base import Environment, Instance, Result, Tool
from rods.tasks import AnyTask, Task

RemedyKind = Literal["look_up", "first", "argument"]
DOCUMENTED = "documented"
WORLDS, WITNESSES = 40, 4  # tasks that are looked through, and failures that are brought about, at most
TRIES = 40  # calls of another tool, or values of an argument, that are tried
FILLED = 3  # values that are made of one shape


@dataclass(frozen=True, slots=True)
class Remedy:
    """What a text advises. `tool`: the other one of `look_up` and `first`; `argument`: of the failing tool, for
    `look_up` and `argument`; `shape`: for `argument`."""

    kind: RemedyKind
    tool: str = ""
    argument: str = ""
    shape: str = ""

    def faults(self, environment: Environment, failing: Tool, seen: Iterable[Mapping[str, str]]) -> list[str]:
        """Why it cannot be followed; `seen` are the shapes of arguments that failed."""
        tools, wanted = environment.tools(), []
        if self.kind in ("look_up", "first") and (self.tool not in tools or self.tool == failing.name):
            wanted.append(f"{self.kind} needs another tool of the environment, not {self.tool!r}")
        if self.kind in ("look_up", "argument") and self.argument not in failing.parameter_names:
            wanted.append(f"{self.kind} needs an argument of {failing.name}, not {self.argument!r}")
        elif self.kind == "argument":
            parameter = next(one for one in failing.parameters if one.name == self.argument)
            if self.shape == DOCUMENTED and not documented(parameter):
                wanted.append(f"the document of {failing.name} lists no values for {self.argument}")
            elif not self.shape or self.shape in {one.get(self.argument) for one in seen}:
                wanted.append("argument needs the shape of values that are accepted, unlike that of those which failed")
        return wanted

    def as_json(self) -> dict[str, str]:
        return {"kind": self.kind, "tool": self.tool, "argument": self.argument, "shape": self.shape}


@dataclass(frozen=True, slots=True)
class Witness:
    """A refused call in the world of another task; `known` are values that its conversation speaks of, `calls` its
    ground truth."""

    task: str
    world: Instance
    call: Call
    known: KnownValues
    calls: Sequence[Call]


def witnesses(
    environment: Environment,
    tasks: Iterable[AnyTask],
    tool: Tool,
    words: str,
    shapes: Sequence[Mapping[str, str]],
    rng: random.Random,
) -> list[Witness]:
    """At most `WITNESSES` refusals of `tool` in these words, each in the world of another one of `tasks`. Empty where
    the environment cannot be forked or gives other results each time."""
    features = environment.features
    if not (features.fork and features.deterministic):
        return []
    calling = [
        task for task in tasks if isinstance(task, Task) and any(call.name == tool.name for call in task.goal_calls)
    ]
    rng.shuffle(calling)
    found: list[Witness] = []
    for task in calling[:WORLDS]:
        if (witness := _witness(environment, task, tool, words, shapes, rng)) is not None:
            found.append(witness)
            if len(found) == WITNESSES:
                break
    return found


def mends(environment: Environment, witness: Witness, remedy: Remedy) -> bool:
    """Whether the refused call goes through once the remedy is followed."""
    failing = environment.tools()[witness.call.name]
    if remedy.kind == "argument":
        parameter = next(one for one in failing.parameters if one.name == remedy.argument)
        if remedy.shape == DOCUMENTED:
            values = documented(parameter)
        else:
            values = [one for one in options(parameter, witness.known, TRIES) if shape(one) == remedy.shape]
        return any(_goes_through(witness.world, _with(witness.call, remedy.argument, value)) for value in values)
    for world, result in _called(environment, witness, remedy.tool):
        if remedy.kind == "first":
            if _goes_through(world, witness.call):
                return True
            continue
        gifts = dict.fromkeys(leaf for _, leaf in leaves(value_of(result), keys=True) if isinstance(leaf, str | int))
        for value in itertools.islice(gifts, TRIES):
            if _goes_through(world, _with(witness.call, remedy.argument, value)):
                return True
    return False


def _witness(
    environment: Environment,
    task: Task,
    tool: Tool,
    words: str,
    shapes: Sequence[Mapping[str, str]],
    rng: random.Random,
) -> Witness | None:
    calls = [call for turn in task.calls for call in turn]
    known = KnownValues()
    for text in task.script:
        known.add_text(text)
    worlds = [environment.reset(task.state)]
    for call in calls:
        worlds.append(after := worlds[-1].fork())
        known.add_arguments(call.arguments)
        known.add_result(after.call(call))
    for place, call in enumerate(calls):
        if call.name != tool.name:
            continue
        spoilt = itertools.chain(
            ((worlds[place], one) for one in _reshaped(call, shapes, rng)),
            ((worlds[before], call) for before in range(place - 1, -1, -1)),
            ((worlds[place], one) for one in _misplaced(call, known, rng)),
        )
        for world, one in itertools.islice(spoilt, TRIES):
            result = world.fork().call(one)
            if result.error == "tool" and pattern(one, result) == words:
                return Witness(task.id, world, one, known, calls)
    return None


def _reshaped(call: Call, shapes: Sequence[Mapping[str, str]], rng: random.Random) -> Iterator[Call]:
    """The call with an argument of a shape that was seen to fail."""
    for seen in shapes:
        for name, wanted in seen.items():
            value = call.arguments.get(name)
            if not isinstance(value, str) or wanted == shape(value):
                continue
            for _ in range(FILLED):
                # its own value inside the shape where it has room, else words that mean nothing here
                own = wanted.replace(shape(value), value, 1) if shape(value) in wanted else wanted
                rest = own.replace(value, "\0") if own is not wanted else own
                made = re.sub("[a9]", lambda one: rng.choice(WORDS) if one[0] == "a" else str(rng.randint(1, 99)), rest)
                yield _with(call, name, made.replace("\0", value))


def _misplaced(call: Call, known: KnownValues, rng: random.Random) -> Iterator[Call]:
    """The call with a value in an argument that belongs elsewhere, or nowhere."""
    for name, value in call.arguments.items():
        if isinstance(value, str):
            texts = [other for _, other in known.values if isinstance(other, str) and other != value]
            for text in (rng.choice(WORDS), *texts[:8]):
                yield _with(call, name, text)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            others = [other for _, other in known.values if type(other) is type(value) and other != value]
            for number in (type(value)(99_999), type(value)(7), *others[:8]):
                yield _with(call, name, number)


def _called(environment: Environment, witness: Witness, name: str) -> Iterator[tuple[Instance, Result]]:
    """The world after each call of the tool `name` that goes through, those of the ground truth first."""
    own = [call for call in witness.calls if call.name == name]
    tried = plausible([environment.tools()[name]], witness.known, TRIES)
    for call in itertools.islice(itertools.chain(own, tried), TRIES):
        world = witness.world.fork()
        result = world.call(call)
        if result.error is None:
            yield world, result


def _goes_through(world: Instance, call: Call) -> bool:
    return world.fork().call(call).error is None


def _with(call: Call, argument: str, value: Any) -> Call:
    return Call(call.name, {**call.arguments, argument: value})
