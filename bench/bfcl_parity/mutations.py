"""Rollouts for the replay: ground truths with faults of every kind, by keyed randomness.

Each is a task with calls by turn and step, as a policy might have written them. Values come from
the 800 tasks' own calls, so that a changed argument is often one that the state knows.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rods.calls import Call
from rods.canonical import keyed_random
from rods.tasks import Task

Turns = list[list[Call]]
# Values of every type. None is large: the official executor would compute with so many digits.
ODD: tuple[Any, ...] = (
    *(None, "", "x", "7", "2024-02-30", 0, -1, 3, 1000, 2.5, -0.0, True, False),
    *([], ["a"], [1, [2]], {}, {"a": 1}),
)


@dataclass(frozen=True, slots=True)
class MutatedRollout:
    """`turns[t][s]` are the calls of step s in turn t; `kinds` says what was done to the ground
    truth."""

    task: Task
    kinds: tuple[str, ...]
    turns: list[list[list[Call]]]

    def as_text(self) -> list[list[list[str]]]:
        return [[[str(call) for call in step] for step in turn] for turn in self.turns]


class Mutations:
    """Mutated rollouts of `tasks`; rollout n depends on (random_seed, n) alone."""

    def __init__(self, tasks: Sequence[Task], random_seed: int) -> None:
        self.tasks = tasks
        self.random_seed = random_seed
        self._values: dict[tuple[str, str], list[Any]] = defaultdict(list)
        self._calls: dict[str, list[Call]] = defaultdict(list)
        for task in tasks:
            for call in (call for turn in task.calls for call in turn):
                self._calls[call.name].append(call)
                for name, value in call.arguments.items():
                    self._values[call.name, name].append(value)
        self._kinds: dict[str, Callable[[Task, Turns, random.Random], None]] = {
            "dropped": self._drop,
            "added": self._add,
            "reordered": self._reorder,
            "argument": self._change,
            "number type": self._retype,
            "key order": self._reorder_keys,
            "hidden tool": self._hidden,
            "empty turn": self._empty,
            "broken call": self._break,
            "odd values": self._odd,
        }

    def take(self, count: int) -> Iterator[MutatedRollout]:
        """The first `count` rollouts; kinds and tasks take turns, every third rollout has two
        faults."""
        names = list(self._kinds)
        for number in range(count):
            rng = keyed_random(self.random_seed, "mutation", number)
            task = self.tasks[rng.randrange(len(self.tasks))]
            kinds = [names[number % len(names)]] + ([rng.choice(names)] if number % 3 == 0 else [])
            turns = [list(turn) for turn in task.calls]
            for kind in kinds:
                self._kinds[kind](task, turns, rng)
            yield MutatedRollout(task, tuple(kinds), [_steps(turn, rng) for turn in turns])

    def _drop(self, task: Task, turns: Turns, rng: random.Random) -> None:
        if found := _pick(turns, rng):
            del turns[found[0]][found[1]]

    def _add(self, task: Task, turns: Turns, rng: random.Random) -> None:
        """One more call: a known one of a tool of this task, or one that the rollout has
        already."""
        own = [call for turn in turns for call in turn]
        names = [name for name in task.tools if name in self._calls]
        call = (
            rng.choice(own)
            if own and rng.random() < 0.3
            else rng.choice(self._calls[rng.choice(names)])
        )
        turn = turns[rng.randrange(len(turns))]
        turn.insert(rng.randint(0, len(turn)), call)

    def _reorder(self, task: Task, turns: Turns, rng: random.Random) -> None:
        """Two calls of a turn change places, or a call moves to another turn."""
        longer = [turn for turn in turns if len(turn) > 1]
        if longer and rng.random() < 0.7:
            turn = rng.choice(longer)
            one, two = rng.sample(range(len(turn)), 2)
            turn[one], turn[two] = turn[two], turn[one]
        elif found := _pick(turns, rng):
            call = turns[found[0]].pop(found[1])
            target = turns[rng.randrange(len(turns))]
            target.insert(rng.randint(0, len(target)), call)

    def _change(self, task: Task, turns: Turns, rng: random.Random) -> None:
        self._edit(turns, rng, lambda call, name, value: self._other(call, name, value, rng))

    def _retype(self, task: Task, turns: Turns, rng: random.Random) -> None:
        """5 for 5.0, 5.0 for 5, True for 1, '5' for 5, a list in another order: equal in Python or
        not."""
        with_number = [
            (t, c)
            for t, turn in enumerate(turns)
            for c, call in enumerate(turn)
            if any(isinstance(value, (int, float, list)) for value in call.arguments.values())
        ]
        place = rng.choice(with_number) if with_number else None
        self._edit(turns, rng, lambda call, name, value: _retyped(value, rng), place)

    def _reorder_keys(self, task: Task, turns: Turns, rng: random.Random) -> None:
        for turn in turns:
            for index, call in enumerate(turn):
                turn[index] = Call(call.name, _shuffled(dict(call.arguments), rng))

    def _hidden(self, task: Task, turns: Turns, rng: random.Random) -> None:
        """A tool that is not there yet (miss_func), or one of a class that the task does not
        have."""
        hidden = [
            (until, name)
            for until, names in task.later_tools.items()
            for name in names
            if name in self._calls
        ]
        if hidden and rng.random() < 0.8:
            until, name = rng.choice(hidden)
            turn = turns[rng.randrange(until)] if until else turns[0]
        else:
            name = rng.choice(sorted(self._calls.keys() - set(task.tools)))
            turn = turns[rng.randrange(len(turns))]
        turn.insert(rng.randint(0, len(turn)), rng.choice(self._calls[name]))

    def _empty(self, task: Task, turns: Turns, rng: random.Random) -> None:
        """A turn without calls; half the time the next turn catches up on them."""
        filled = [index for index, turn in enumerate(turns) if turn]
        if not filled:
            return
        index = rng.choice(filled)
        calls = turns[index]
        turns[index] = []
        if rng.random() < 0.5 and index + 1 < len(turns):
            turns[index + 1][:0] = calls

    def _break(self, task: Task, turns: Turns, rng: random.Random) -> None:
        """An argument too few, one too many, or a name that is none."""
        if not (found := _pick(turns, rng)):
            return
        turn = turns[found[0]]
        index = found[1]
        call = turn[index]
        arguments = dict(turn[index].arguments)
        way = rng.randrange(3)
        if way == 0 and arguments:
            del arguments[rng.choice(list(arguments))]
        elif way == 1:
            arguments["verbose"] = True
        broken = Call(call.name if way < 2 else f"{call.name}_all", arguments)
        if rng.random() < 0.5:
            turn.insert(index, broken)  # and then as it should be
        else:
            turn[index] = broken

    def _odd(self, task: Task, turns: Turns, rng: random.Random) -> None:
        """One more call, of any tool that a task of these classes has called, with values of every
        type."""
        names = [name for name in task.tools if name in self._calls]
        call = rng.choice(self._calls[rng.choice(names)])
        arguments = {
            name: rng.choice(ODD) if rng.random() < 0.6 else value
            for name, value in call.arguments.items()
        }
        turn = turns[rng.randrange(len(turns))]
        turn.insert(rng.randint(0, len(turn)), Call(call.name, arguments))

    def _edit(
        self,
        turns: Turns,
        rng: random.Random,
        change: Callable[[Call, str, Any], Any],
        place: tuple[int, int] | None = None,
    ) -> None:
        found = place or _pick(turns, rng)
        if found is None:
            return
        call = turns[found[0]][found[1]]
        if not call.arguments:
            return
        name = rng.choice(list(call.arguments))
        turns[found[0]][found[1]] = Call(
            call.name, {**call.arguments, name: change(call, name, call.arguments[name])}
        )

    def _other(self, call: Call, name: str, value: Any, rng: random.Random) -> Any:
        way = rng.random()
        known = self._values.get((call.name, name))
        if way < 0.6 and known:
            return rng.choice(known)
        if isinstance(value, bool):
            return not value
        if isinstance(value, (int, float)):
            return value + rng.choice((-1, 1, 10, 0.5, -value, -2 * value))
        if isinstance(value, str):
            return rng.choice(
                (value + "x", value.upper(), value[1:], "", value.replace(" ", "_"), None, 7)
            )
        if isinstance(value, list):
            return value[1:] if way < 0.8 else [*value, *value]
        return None


def _pick(turns: Turns, rng: random.Random) -> tuple[int, int] | None:
    places = [(t, c) for t, turn in enumerate(turns) for c in range(len(turn))]
    return rng.choice(places) if places else None


def _steps(turn: list[Call], rng: random.Random) -> list[list[Call]]:
    """The calls of a turn, cut into steps."""
    steps: list[list[Call]] = []
    for call in turn:
        if steps and rng.random() < 0.5:
            steps[-1].append(call)
        else:
            steps.append([call])
    return steps


def _retyped(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return rng.choice((float(value), float(value), str(value), value == 1 or value))
    if isinstance(value, float):
        return rng.choice((int(value), int(value) if value == int(value) else str(value)))
    if isinstance(value, list):
        return value[::-1]
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value


def _shuffled(value: Any, rng: random.Random) -> Any:
    if not isinstance(value, dict):
        return value
    keys = list(value)
    rng.shuffle(keys)
    return {key: _shuffled(value[key], rng) for key in keys}
