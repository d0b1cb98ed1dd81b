"""Reads a task back: which recipes the words of a turn ask for, and whether these give its calls. `wording`, inverted.

No draft is needed, so a task in a file can be read as well as one that was just written. A turn is understood when its
calls part into recipes, each asked for by one of its phrases, in this order, with the very values of the calls, and
when the words outside these phrases are those of frames, links and stories. A back reference has to mean what the turns
before left on the table. Texts in other words than the phrase book's are not understood, which says nothing about them:
that is for gates, or for a judge who reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from rods.calls import Call
from rods.composing import matching
from rods.composing.bind import spoken
from rods.composing.catalogue import Catalogue, Got, Implied, Recipe, Said, Scene
from rods.composing.matching import Thing, plain
from rods.composing.task_types import said
from rods.environments.base import Environment, Result, Results
from rods.tasks import RETURN_SENTENCE, Task

WORD = re.compile(r"[^\W_]+(?:_[^\W_]+)*")
SPANS = 4  # of a recipe that are tried, the longest first
READINGS = 64  # partitions of a turn that are tried
ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Reading:
    """What the words of a turn come to. `unexplained` are the indexes of calls that no phrase of the text asks for (all
    those of the turn from the first that does not fit), `left` the words that ask for something else."""

    unexplained: tuple[int, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def understood(self) -> bool:
        return not self.unexplained and not self.left


@dataclass(frozen=True, slots=True)
class _Clause:
    """One recipe of a turn: its values by slot and kind, the index of its first call, where the text asks for it."""

    recipe: Recipe
    values: Mapping[str, Any]
    start: int
    span: tuple[int, int]


@dataclass(slots=True)
class _Memory:
    """What earlier turns left to be referred back to: things by kind, and the one value of a family last said. `sure`
    only while every turn was understood: what an unread turn gave, nobody knows."""

    things: dict[str, Thing] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)
    sure: bool = True


def read(catalogue: Catalogue, environment: Environment, task: Task, results: Results) -> list[Reading]:
    """How each turn reads for its calls, together with a request made in vain right before it. `results` are those of
    the ground truth."""
    memory = _Memory()
    return [
        _Reader(catalogue, environment, task, results, turn, memory).best() if calls else Reading()
        for turn, calls in enumerate(task.calls)
    ]


class _Reader:
    """Reads one turn, and adds what it gives to the memory."""

    def __init__(
        self,
        catalogue: Catalogue,
        environment: Environment,
        task: Task,
        results: Results,
        turn: int,
        memory: _Memory,
    ) -> None:
        self.catalogue, self.environment, self.task, self.turn = catalogue, environment, task, turn
        self.calls, self.results, self.memory = task.calls[turn], results[turn], memory
        asked, self.vague = task.script[turn], False
        if turn and not task.calls[turn - 1]:
            self.vague = asked != RETURN_SENTENCE
            asked = task.script[turn - 1]
        self.text = plain(asked)
        self.narrative: Mapping[str, str] = task.provenance.get("plan", {}).get("narrative", {})
        self.furthest = 0
        self.scenes: dict[int, Scene] = {}

    def best(self) -> Reading:
        found: tuple[tuple[str, ...], list[_Clause]] | None = None
        for number, clauses in enumerate(self._partitions(0, 0, self.memory.things)):
            left = self._left([clause.span for clause in clauses])
            if found is None or len(left) < len(found[0]):
                found = left, clauses
            if not left or number == READINGS:
                break
        if found is None:
            self.memory.sure = False
            return Reading(tuple(range(self.furthest, len(self.calls))))
        self._remember(found[1])
        return Reading((), found[0])

    def _partitions(self, start: int, after: int, things: Mapping[str, Thing]) -> Iterator[list[_Clause]]:
        """Every way to part the calls from `start` on into recipes that are asked for, in this order, in the text from
        `after` on, where `things` have been given."""
        self.furthest = max(self.furthest, start)
        if start == len(self.calls):
            yield []
            return
        sure = self.memory.sure
        for recipe in _beginning_with(self.catalogue, self.calls[start].name):
            end = start + len(recipe.steps)
            if tuple(call.name for call in self.calls[start:end]) != recipe.tools:
                continue
            values = _values(recipe, self.calls[start:end], self.results[start:end])
            if values is None or (sure and not _on_the_table(recipe, values, things)):
                continue
            words = matching.Said(
                self.memory.last if sure else None, things if sure else None, self.vague, lambda: self._scene(start)
            )
            spans = set(matching.spans(self.catalogue, recipe, values, self.text, words))
            for span in sorted(spans, key=lambda span: span[0] - span[1])[:SPANS]:
                if span[0] >= after:
                    clause = _Clause(recipe, values, start, span)
                    for rest in self._partitions(end, span[1], self._given(clause, things)):
                        yield [clause, *rest]

    def _given(self, clause: _Clause, things: Mapping[str, Thing]) -> dict[str, Thing]:
        """What is on the table after a clause."""
        recipe, values = clause.recipe, clause.values
        found = {kind: thing for kind, thing in things.items() if kind not in recipe.ends}
        for kind, gift in recipe.gives.items():
            if isinstance(gift.value, Got):
                value = _at(self.results[clause.start + gift.value.step].value, gift.value.path)
            else:
                value = values.get(gift.value.slot if isinstance(gift.value, Said) else gift.value.kind)
            noun: str | None = gift.noun
            if gift.noun in recipe.says:
                noun = None if isinstance(values[gift.noun], list) else spoken(values[gift.noun])
            elif gift.noun in things:
                noun = things[gift.noun].noun
            found[kind] = Thing(value, noun)
        return found

    def _remember(self, clauses: Sequence[_Clause]) -> None:
        spoken_of: dict[str, list[Any]] = {}
        for clause in clauses:
            self.memory.things = self._given(clause, self.memory.things)
            for slot, domain in clause.recipe.says.items():
                spoken_of.setdefault(self.catalogue.family(domain), []).append(clause.values[slot])
        for family, values in spoken_of.items():
            self.memory.last[family] = values[0] if len(values) == 1 else None

    def _scene(self, start: int) -> Scene:
        """The world right before call `start` of the turn."""
        if start not in self.scenes:
            world = self.environment.reset(self.task.state)
            for number in range(self.turn + 1):
                for call in self.task.calls[number][: None if number < self.turn else start]:
                    world.call(call)
            self.scenes[start] = Scene(world.snapshot(), {}, self.narrative, {})
        return self.scenes[start]

    def _left(self, spans: Sequence[tuple[int, int]]) -> tuple[str, ...]:
        """The words outside `spans` that no frame, link or story has."""
        kept = list(self.text)
        for begin, end in spans:
            kept[begin:end] = " " * (end - begin)
        known = _common_words(self.catalogue).union(
            *(WORD.findall(plain(str(value))) for value in self.narrative.values())
        )
        return tuple(word for word in dict.fromkeys(WORD.findall("".join(kept))) if word not in known)


def _values(recipe: Recipe, calls: Sequence[Call], results: Sequence[Result]) -> dict[str, Any] | None:
    """The values of the recipe's slots and things in `calls`; None when they are not its calls."""
    values: dict[str, Any] = {}
    for step, call in zip(recipe.steps, calls, strict=True):
        if call.arguments.keys() != step.arguments.keys():
            return None
        for name, source in step.arguments.items():
            value = call.arguments[name]
            if isinstance(source, Implied):
                fits = bool(value == source.value)
            elif isinstance(source, Got):
                fits = _came(value, results[source.step], source.path)
            else:
                slot = source.slot if isinstance(source, Said) else source.kind
                fits = bool(values.setdefault(slot, value) == value)
            if not fits:
                return None
    return values


def _came(value: Any, result: Result, path: Sequence[str | int]) -> bool:
    """Whether `value` came from `result`. A padded world may give a result in another shape; then it has to say it."""
    found = _at(result.value, path)
    return said(value, result.text) if found is ABSENT else bool(value == found)


def _at(value: Any, path: Sequence[str | int]) -> Any:
    """What stands at `path`; ABSENT when nothing does."""
    try:
        for key in path:
            value = value[key]
    except (KeyError, IndexError, TypeError):
        return ABSENT
    return value


def _on_the_table(recipe: Recipe, values: Mapping[str, Any], things: Mapping[str, Thing]) -> bool:
    return all(kind in things and things[kind].value in (values[kind], ABSENT) for kind in recipe.needs)


@lru_cache(maxsize=64)
def _by_first_tool(catalogue: Catalogue) -> Mapping[str, tuple[Recipe, ...]]:
    found: dict[str, list[Recipe]] = {}
    for recipe in catalogue.recipes.values():
        found.setdefault(recipe.tools[0], []).append(recipe)
    return {tool: tuple(sorted(recipes, key=lambda each: -len(each.steps))) for tool, recipes in found.items()}


def _beginning_with(catalogue: Catalogue, tool: str) -> tuple[Recipe, ...]:
    return _by_first_tool(catalogue).get(tool, ())


@lru_cache(maxsize=64)
def _common_words(catalogue: Catalogue) -> frozenset[str]:
    """The words of frames, links and stories: they ask for nothing."""
    book = catalogue.book
    texts = [*book.links, *(frame for frames in book.frames.values() for frame in frames)]
    texts += [text for story in book.stories for part in (story.opening, story.later, story.closing) for text in part]
    return frozenset(word for text in texts for word in WORD.findall(re.sub(r"\{[^}]*\}", " ", plain(text))))
