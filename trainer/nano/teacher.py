"""The careless teacher: writes demonstrations that are well-formed throughout, and in which a turn
has, at a given rate, the flaw that its kind of turn is prone to (docs/nano.md lists them): a turn
is of the first kind that holds.

A value that was to come from an earlier result is copied from there; when a flaw has kept that
result from coming up, the teacher ends the turn. The kinds of turns come from the task's provenance
(`traits`, `flows`, `missing`).

Where users are `played`, a task is shown with the user that desk makes of it
(worlds/desk/personas.py): the teacher asks for what is missing by its name, or, where it is
careless, guesses and asks nothing.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rods.calls import Call
from rods.canonical import JsonMapping, present, without
from rods.composing.catalogue import Catalogue
from rods.dialects import Dialect
from rods.environments.base import Environment
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import goal_of
from rods.tasks import Task
from rods.worlds.desk import personas

DONE = "done"
ASK = "please say more"
WHICH = "which {domain} ?"
LACK = "no tool for that"
KINDS = ("answer", "lookup", "multi", "swap", "sibling")


@dataclass(slots=True)
class Teacher:
    """Writes demonstrations of tasks composed from `catalogue`, with a flaw in `carelessness` of
    the turns."""

    catalogue: Catalogue
    environment: Environment
    dialect: Dialect
    carelessness: float
    played: bool = False
    # (tool, argument) → values, to guess from
    seen: dict[tuple[str, str], list[Any]] = field(default_factory=dict)

    def demonstrate(self, tasks: Sequence[Task], rng: random.Random) -> list[Trace]:
        """One episode a task."""
        for call in (call for task in tasks for call in task.goal_calls):
            for argument, value in call.arguments.items():
                self.seen.setdefault((call.name, argument), []).append(value)
        plans: list[list[str]] = [[] for _ in tasks]
        asked = [personas.played(task) if self.played else task for task in tasks]
        jobs = [
            Job(task, self.environment, self.dialect, goal_of(self.environment, task))
            for task in asked
        ]

        def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
            return [Reply(self._next(tasks[job], plans[job], need, rng)) for job, need in waiting]

        return run_lockstep(jobs, complete)

    def _next(self, task: Task, plan: list[str], need: NeedText, rng: random.Random) -> str:
        if need.messages[-1].role == "user":
            turn = sum(message.role == "user" for message in need.messages) - 1
            words = " ".join(
                message.content for message in need.messages if message.role == "tool"
            ).split()
            calls, answer = self._plan(task, turn, frozenset(words), rng)
            plan[:] = [*(self.dialect.write([call]) for call in calls), self.dialect.answer(answer)]
        return plan.pop(0)

    def _plan(
        self, task: Task, turn: int, words: frozenset[str], rng: random.Random
    ) -> tuple[Sequence[Call], str]:
        """The calls of one turn, and its answer. `words` are the words of all results so far."""
        kind = kind_of(task, turn)
        careless = rng.random() < self.carelessness
        if kind == "answer":
            gap = next(gap for gap in task.provenance["missing"] if gap["turn"] == turn)
            answer = ASK if "argument" in gap else LACK
            if self.played:
                answer = DONE if careless else WHICH.format(domain=gap["domain"])
            return self._guessed(task, turn, gap, rng) if careless else (), answer
        calls = _recalled(task, turn, words)
        if careless and len(calls) == len(task.calls[turn]):
            calls = self._flawed(kind, task, turn, calls)
        return calls, DONE

    def _flawed(self, kind: str, task: Task, turn: int, calls: Sequence[Call]) -> Sequence[Call]:
        if kind == "lookup":
            return self._unread(task, turn, calls)
        if kind == "multi":
            return calls[:-1]
        spoil = {"swap": self._swapped, "sibling": self._mistaken}.get(kind)
        return [] if spoil is None else [spoil(call) for call in calls]

    def _guessed(
        self, task: Task, turn: int, gap: JsonMapping, rng: random.Random
    ) -> Sequence[Call]:
        """What the next turn will ask for, with a guess for the value that is missing."""
        wanted = task.calls[turn + 1]
        if "argument" not in gap:
            return wanted[:1] if wanted[0].name == gap["tool"] else wanted[:2]
        name = gap["argument"]
        value = gap["value"]
        guessed = []
        for call in wanted:
            arguments = dict(call.arguments)
            if arguments.get(name) == value:
                arguments[name] = rng.choice(
                    [v for v in self.seen[call.name, name] if v != value] or [value]
                )
            guessed.append(Call(call.name, arguments))
            if arguments != call.arguments:
                break
        return guessed

    def _unread(self, task: Task, turn: int, calls: Sequence[Call]) -> Sequence[Call]:
        """The calls without the look-ups that feed others of the turn; what they gave is replaced
        by what they were asked with."""
        flows = task.provenance["flows"][turn]

        def source(index: int, argument: str) -> int | None:
            """The call of this turn that gave the value."""
            at, giver = flows[index][argument].get("origin") or (None, None)
            return giver if at == turn else None

        feeding = {
            source(index, argument)
            for index, call in enumerate(calls)
            for argument in call.arguments
        }
        asked: dict[int | None, Any] = {
            index: next(iter(call.arguments.values()), "")
            for index, call in enumerate(calls)
            if index in feeding and call.name in self.catalogue.lookups
        }
        return [
            Call(
                call.name,
                {
                    name: asked.get(source(index, name), value)
                    for name, value in call.arguments.items()
                },
            )
            for index, call in enumerate(calls)
            if index not in asked
        ]

    def _swapped(self, call: Call) -> Call:
        arguments = call.arguments
        name, other = self.catalogue.swaps.get(call.name, ("", ""))
        swapped = (
            {**arguments, name: arguments[other], other: arguments[name]}
            if name in arguments and other in arguments
            else arguments
        )
        return Call(call.name, swapped)

    def _mistaken(self, call: Call) -> Call:
        """The sibling with the same values: by name where it has such an argument, else in
        order."""
        sibling = self.catalogue.siblings.get(call.name)
        if sibling is None:
            return call
        names = self.environment.tools()[sibling].parameter_names
        left = without(call.arguments, *names)
        spare = iter(left.values())
        arguments = {
            name: call.arguments[name] if name in call.arguments else next(spare, None)
            for name in names
        }
        return Call(sibling, present(**arguments))


def kind_of(task: Task, turn: int) -> str:
    """The kind of a turn: the first of `KINDS` among its traits, or `plain`."""
    traits = task.provenance["traits"][turn]
    return next((kind for kind in KINDS if kind in traits), "plain")


def _recalled(task: Task, turn: int, words: frozenset[str]) -> Sequence[Call]:
    """The ground truth of `turn`, up to the first call whose looked-up value has not come up in an
    earlier turn."""
    flows = task.provenance["flows"][turn]
    for index, call in enumerate(task.calls[turn]):
        for argument, value in call.arguments.items():
            origin = flows[index][argument].get("origin")
            if origin and origin[0] < turn and not set(str(value).split()) <= words:
                return task.calls[turn][:index]
    return task.calls[turn]
