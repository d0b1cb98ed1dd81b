"""Seven ways to spoil a good task, as an author's mistake would, and the rules that have to notice.

The draft is not consulted: a task out of a file is all that is looked at. Where calls are changed and still run, their
results are recorded anew, so that gate 1 alone cannot tell; those whose calls run are preferred.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from rods.analysis.flows import is_small, leaves
from rods.analysis.profile import Profile
from rods.calls import Call
from rods.composing.catalogue import Catalogue
from rods.composing.parse_wording import read
from rods.config import Gates
from rods.environments.base import Environment, Instance
from rods.gates import SimilarityIndex, check
from rods.gates.replay import brief
from rods.tasks import RETURN_SENTENCE, Task

KINDS = ("value swapped", "call dropped", "call added", "name leaked", "stale state", "raw JSON", "turns swapped")
TRIES = 30
LEAKS = ("{text} Use {name} for that.", "{text} Call the {name} function.", "{text} I think {name} does it.")
NOTHING = SimilarityIndex()
Turns = list[list[Call]]


def objections(environment: Environment, task: Task, catalogue: Catalogue | None = None) -> set[str]:
    """The gates that refuse `task`; with a catalogue also "reading", when its phrase book does not find the calls of
    each turn in the words and nothing else. Shape and neighbours are not asked."""
    gates = Gates(profile=False, duplicates=False, contamination=False)
    checked = check(environment, task, NO_SHAPE, gates, pool=NOTHING, held_out=NOTHING)
    refused: set[str] = {each.gate for each in checked.rejections}
    if catalogue is not None and checked.results is not None and not refused & {"replay", "tools"}:
        readings = read(catalogue, environment, task, checked.results)
        refused |= {"reading"} if not all(reading.understood for reading in readings) else set()
    return refused


NO_SHAPE = Profile("base", ())


class Corruptions:
    """Spoils tasks of one environment. Values and calls come from `tasks` (all of them, the spoilt one too)."""

    def __init__(self, environment: Environment, tasks: Sequence[Task]) -> None:
        self.environment = environment
        self.values: dict[tuple[str, str], list[Any]] = defaultdict(list)
        self.calls: dict[str, list[Call]] = defaultdict(list)
        for call in (call for task in tasks for turn in task.calls for call in turn):
            self.calls[call.name].append(call)
            for name, value in call.arguments.items():
                if value not in self.values[call.name, name]:
                    self.values[call.name, name].append(value)
        self._kinds: Mapping[str, Callable[[Task, random.Random], Task | None]] = dict(
            zip(
                KINDS,
                (self._swapped, self._dropped, self._added, self._leaked, self._stale, self._raw, self._turned),
                strict=True,
            )
        )

    def corrupt(self, task: Task, kind: str, rng: random.Random) -> Task | None:
        """`task` spoilt, by `rng` alone; None where it offers nothing to spoil in that way."""
        return self._kinds[kind](task, rng)

    def _swapped(self, task: Task, rng: random.Random) -> Task | None:
        """Another value of the same argument of the same tool, such that results or the world differ."""
        places = [(*place, name) for place in _places(task) for name in task.calls[place[0]][place[1]].arguments]

        def change(turns: Turns) -> bool:
            turn, index, name = rng.choice(places)
            call = turns[turn][index]
            others = [value for value in self.values[call.name, name] if value != call.arguments[name]]
            if others:
                turns[turn][index] = Call(call.name, {**call.arguments, name: rng.choice(others)})
            return bool(others) and self._differs(task, turns)

        return self._changed(task, change) if places else None

    def _dropped(self, task: Task, rng: random.Random) -> Task | None:
        def change(turns: Turns) -> bool:
            turn, index = rng.choice(_places(task))
            del turns[turn][index]
            return self._differs(task, turns)

        return self._changed(task, change)

    def _added(self, task: Task, rng: random.Random) -> Task | None:
        """A call of a visible tool, mostly with values of the task's own."""
        own: dict[str, list[Any]] = defaultdict(list)
        for name, value in (item for turn in task.calls for call in turn for item in call.arguments.items()):
            own[name].append(value)

        def change(turns: Turns) -> bool:
            turn = rng.choice([turn for turn, calls in enumerate(turns) if calls])
            known = [name for name in task.tools_at(turn) if name in self.calls]
            call = rng.choice(self.calls[rng.choice(known)])
            values = {
                name: rng.choice(own[name]) if name in own and rng.random() < 0.7 else value
                for name, value in call.arguments.items()
            }
            added = Call(call.name, values)
            fresh = added not in turns[turn]
            turns[turn].insert(rng.randrange(len(turns[turn]) + 1), added)
            return fresh

        return self._changed(task, change)

    def _leaked(self, task: Task, rng: random.Random) -> Task | None:
        turn = rng.choice(_own_texts(task))
        served = turn if task.calls[turn] else turn + 1
        name = rng.choice(task.calls[served]).name
        return _said(task, turn, rng.choice(LEAKS).format(text=task.script[turn], name=name))

    def _raw(self, task: Task, rng: random.Random) -> Task | None:
        turn = rng.choice(_own_texts(task))
        call = rng.choice([call for calls in task.calls for call in calls])
        raw = orjson.dumps(call.as_json() if rng.random() < 0.5 else dict(call.arguments)).decode()
        text = task.script[turn]
        return _said(task, turn, f"{text} {raw}" if rng.random() < 0.5 else f"{raw} {text}")

    def _turned(self, task: Task, rng: random.Random) -> Task | None:
        turns = _own_texts(task)
        if len(turns) < 2:
            return None
        one, two = rng.sample(turns, 2)
        script = list(task.script)
        script[one], script[two] = script[two], script[one]
        return replace(task, id="", script=tuple(script))

    def _stale(self, task: Task, rng: random.Random) -> Task | None:
        """The world changed after the calls had run: a value that a call names is another one in the initial state, and
        a result is not what was recorded."""
        recorded = [[brief(text) for text in turn] for turn in task.provenance["results"]]
        used = [leaf for turn in task.calls for call in turn for _, leaf in leaves(dict(call.arguments))]
        used = [value for value in used if not is_small(value) and value is not None]
        rng.shuffle(used)
        for value in used:
            state = _with_another(task.state, value)
            results = self._results(task.calls, state) if state != task.state else recorded
            if results is None or [[brief(text) for text in turn] for turn in results] != recorded:
                return replace(task, id="", state=state)
        return None

    def _changed(self, task: Task, change: Callable[[Turns], bool]) -> Task | None:
        """The first changed task whose calls all run; without one, the last that was made."""
        last: Task | None = None
        for _ in range(TRIES):
            turns = [list(turn) for turn in task.calls]
            if not change(turns):
                continue
            results = self._results(turns, task.state)
            provenance = {key: value for key, value in task.provenance.items() if key != "results"}
            if results is not None:
                provenance["results"] = results
            last = replace(task, id="", calls=tuple(map(tuple, turns)), provenance=provenance)
            if results is not None:
                break
        return last

    def _results(self, turns: Iterable[Sequence[Call]], state: Any) -> list[list[str]] | None:
        """The results of calls, None when one fails or the state is refused."""
        try:
            world = self.environment.reset(state)
        except ValueError:
            return None
        found = [[world.call(call) for call in calls] for calls in turns]
        if any(result.error for results in found for result in results):
            return None
        return [[result.text for result in results] for results in found]

    def _differs(self, task: Task, turns: Turns) -> bool:
        """Whether results or the last world differ: what makes no difference is no corruption."""
        was, now = self._played(task.calls, task.state), self._played(turns, task.state)
        return was[0] != now[0] or not was[1].same_state(now[1])

    def _played(self, turns: Iterable[Sequence[Call]], state: Any) -> tuple[Counter[str], Instance]:
        world = self.environment.reset(state)
        return Counter(world.call(call).text for calls in turns for call in calls), world


def _places(task: Task) -> list[tuple[int, int]]:
    return [(turn, index) for turn, calls in enumerate(task.calls) for index in range(len(calls))]


def _own_texts(task: Task) -> list[int]:
    return [turn for turn, text in enumerate(task.script) if text != RETURN_SENTENCE]


def _said(task: Task, turn: int, text: str) -> Task:
    return replace(task, id="", script=(*task.script[:turn], text, *task.script[turn + 1 :]))


def _with_another(state: Any, value: Any) -> Any:
    """`state` with another value in place of `value`, keys included."""
    other = value + 7 if isinstance(value, (int, float)) else f"{value[::-1]}x"

    def changed(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {
                (other if key == value else str(other) if key == str(value) else key): changed(item)
                for key, item in part.items()
            }
        if isinstance(part, list):
            return [changed(item) for item in part]
        return other if type(part) is type(value) and part == value else part

    return changed(state)
