"""Parses a task's texts with the phrase book: which recipes do the words of a turn ask for, and do
they give its calls?

The inverse of `wording`, for any task. A turn is understood when its calls split into recipes such
that each is asked for by one of its phrases, in this order and with the values of the calls, and
when all other words belong to frames, links or stories. A back reference ("the same account") has
to mean what earlier turns left on the table. A text in other words is not understood; that alone is
no fault, gates or a judge decide about it."""

import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rods.analysis.containment import Text
from rods.analysis.plausible_calls import world_before
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, frozen, without
from rods.composing.bind import spoken
from rods.composing.catalogue import (
    ABSENT,
    Catalogue,
    Constant,
    FromResult,
    FromUser,
    Recipe,
    Scene,
    Worded,
)
from rods.environments.base import Environment, Result, Results
from rods.tasks import RETURN_SENTENCE, Task

WORD = re.compile(r"[^\W_]+(?:_[^\W_]+)*")
SPANS = 4  # of a recipe that are tried, the longest first
READINGS = 64  # partitions of a turn that are tried
NOUN = 60  # characters at most that a noun may have
_QUOTES = re.compile(r"(?<!\w)'|'(?!\w)|\"")


@frozen
class Thing:
    """A value that an earlier recipe gave, and the noun that names it (None: unknown)."""

    value: Any
    noun: str | None


@frozen
class _Clause:
    """A recipe of a turn: its values by slot and kind of thing, its first call, and where the text
    asks for it."""

    recipe: Recipe
    values: JsonMapping
    start: int
    span: tuple[int, int]


def read(
    catalogue: Catalogue, environment: Environment, task: Task, results: Results
) -> list[bool]:
    """Whether each turn is understood, with a request right before it that no call served.
    `results`: of the ground truth."""
    reader = _Reader(catalogue, environment, task, results)
    return [not calls or reader.understands(turn) for turn, calls in enumerate(task.calls)]


class _Reader:
    """Parses the turns of a task in order. `things` are those that earlier turns gave, by kind, and
    `last` is the one value of each family last said (None after several): what a turn may refer
    back to. `sure` as long as every turn was understood; from then on both are incomplete."""

    def __init__(
        self, catalogue: Catalogue, environment: Environment, task: Task, results: Results
    ) -> None:
        self.catalogue = catalogue
        self.environment = environment
        self.task = task
        self.all_results = results
        plan = task.provenance.get("plan", {})
        self.narrative: Mapping[str, str] = plan.get("narrative", {})
        planned = (
            catalogue.recipes.get(name)
            for turn in plan.get("turns", ())
            for name in turn["recipes"]
        )
        self.wanted = [text for recipe in planned if recipe for text in recipe.purpose]
        self.things: dict[str, Thing] = {}
        self.last: JsonObject = {}
        self.sure = True

    def understands(self, turn: int) -> bool:
        self.turn = turn
        self.calls = self.task.calls[turn]
        self.results = self.all_results[turn]
        asked = self.task.script[turn]
        self.vague = False
        if turn and not self.task.calls[turn - 1]:
            self.vague = asked != RETURN_SENTENCE
            supplies = _supply(self.catalogue).match(asked) if self.vague else None
            rest = asked[supplies.end() :].strip() if supplies else ""
            asked = f"{self.task.script[turn - 1]} {rest}".rstrip()
        self.text = plain(asked)
        self.scenes: dict[int, Scene] = {}
        best: tuple[int, list[_Clause]] | None = None
        for number, clauses in enumerate(self._partitions(0, 0, self.things)):
            left = self._left([clause.span for clause in clauses])
            if best is None or left < best[0]:
                best = left, clauses
            if not left or number == READINGS:
                break
        if best is None:
            self.sure = False
            return False
        self._remember(best[1])
        return best[0] == 0

    def _partitions(
        self, start: int, after: int, things: Mapping[str, Thing]
    ) -> Iterator[list[_Clause]]:
        """Every way to part the calls from `start` on into recipes that are asked for, in this
        order, in the text from `after` on, where `things` have been given."""
        if start == len(self.calls):
            yield []
            return
        for recipe in _by_first_tool(self.catalogue).get(self.calls[start].name, ()):
            end = start + len(recipe.steps)
            if tuple(call.name for call in self.calls[start:end]) != recipe.tools:
                continue
            values = _values(recipe, self.calls[start:end], self.results[start:end])
            if values is None:
                continue
            at_hand = all(
                kind in things and things[kind].value in (values[kind], ABSENT)
                for kind in recipe.needs
            )
            if self.sure and not at_hand:
                continue
            spans = set(_PhraseFinder(self, self.text, recipe, values, things, start).spans())
            for span in sorted(spans, key=lambda span: span[0] - span[1])[:SPANS]:
                if span[0] >= after:
                    clause = _Clause(recipe, values, start, span)
                    for rest in self._partitions(end, span[1], self._given(clause, things)):
                        yield [clause, *rest]

    def _given(self, clause: _Clause, things: Mapping[str, Thing]) -> dict[str, Thing]:
        """The things that are given after a clause."""
        recipe = clause.recipe
        values = clause.values
        left = without(things, *recipe.ends)
        for kind, gift in recipe.gives.items():
            if isinstance(gift.value, FromResult):
                value = gift.value.of(self.results[clause.start + gift.value.step].value)
            else:
                value = values.get(
                    gift.value.slot if isinstance(gift.value, FromUser) else gift.value.kind
                )
            noun: str | None = gift.noun
            if gift.noun in recipe.user_slots:
                noun = None if isinstance(values[gift.noun], list) else spoken(values[gift.noun])
            elif gift.noun in things:
                noun = things[gift.noun].noun
            left[kind] = Thing(value, noun)
        return left

    def _remember(self, clauses: Sequence[_Clause]) -> None:
        spoken_of: dict[str, list[Any]] = {}
        for clause in clauses:
            self.things = self._given(clause, self.things)
            for slot, domain in clause.recipe.user_slots.items():
                spoken_of.setdefault(self.catalogue.family(domain), []).append(clause.values[slot])
        for family, values in spoken_of.items():
            self.last[family] = values[0] if len(values) == 1 else None

    def scene(self, start: int) -> Scene:
        """The world right before call `start` of the turn."""
        if start not in self.scenes:
            world = world_before(self.environment, self.task, self.turn, start)
            self.scenes[start] = Scene(world.snapshot(), {}, self.narrative, {})
        return self.scenes[start]

    def _left(self, spans: Sequence[tuple[int, int]]) -> int:
        """How many words outside `spans` no frame, link or story has: they ask for something
        else."""
        letters = list(self.text)
        for begin, end in spans:
            letters[begin:end] = " " * (end - begin)
        story = (
            WORD.findall(plain(str(value))) for value in (*self.narrative.values(), *self.wanted)
        )
        ordinary = _common_words(self.catalogue).union(*story)
        return len(set(WORD.findall("".join(letters))) - ordinary)


def _values(recipe: Recipe, calls: Sequence[Call], results: Sequence[Result]) -> JsonObject | None:
    """The values of the recipe's slots and things in `calls`; None when they are not its calls."""
    values: JsonObject = {}
    for step, call in zip(recipe.steps, calls, strict=True):
        if call.arguments.keys() != step.arguments.keys():
            return None
        for name, source in step.arguments.items():
            value = call.arguments[name]
            if isinstance(source, Constant):
                fits = bool(value == source.value)
            elif isinstance(source, FromResult):
                result = results[source.step]
                in_result = source.of(result.value)
                # a padded world may give a result without that path; then its text has to say the
                # value
                fits = (
                    Text.shown(result.text).contains_exact(value)
                    if in_result is ABSENT
                    else bool(value == in_result)
                )
            else:
                slot = source.slot if isinstance(source, FromUser) else source.kind
                fits = bool(values.setdefault(slot, value) == value)
            if not fits:
                return None
    return values


@lru_cache(maxsize=64)
def _by_first_tool(catalogue: Catalogue) -> Mapping[str, tuple[Recipe, ...]]:
    recipes = sorted(catalogue.recipes.values(), key=lambda recipe: -len(recipe.steps))
    firsts = {recipe.tools[0] for recipe in recipes}
    return {
        first: tuple(recipe for recipe in recipes if recipe.tools[0] == first) for first in firsts
    }


@lru_cache(maxsize=64)
def _common_words(catalogue: Catalogue) -> frozenset[str]:
    """The words of frames, links and stories: they ask for nothing."""
    book = catalogue.book
    parts = [book.links, book.openings, book.resumes, *book.frames.values()]
    parts += [recipe.leads for recipe in catalogue.recipes.values()]
    parts += [
        part for story in book.stories for part in (story.opening, story.later, story.closing)
    ]
    texts = (re.sub(r"\{[^}]*\}", " ", plain(text)) for part in parts for text in part)
    return frozenset(word for text in texts for word in WORD.findall(text))


@lru_cache(maxsize=64)
def _supply(catalogue: Catalogue) -> re.Pattern[str]:
    """A sentence of the phrase book that supplies a value."""
    lines = sorted({line for lines in catalogue.book.supply.values() for line in lines})
    return re.compile(
        "|".join(re.escape(line).replace(r"\{value\}", ".+?") + r"(?= |$)" for line in lines)
        or "(?!)"
    )


def plain(text: str) -> str:
    """`text` folded and without quotation marks, which a blurred value has lost."""
    return _QUOTES.sub("", text).casefold()


@frozen
class _PhraseFinder:
    """Finds the phrases of a recipe, whose first call is `start` of the turn, with `values` (by
    slot and kind of thing) in their slots. A value may stand there in its own words, in those of
    its domain, and blurred in a vague turn; or it is referred back to, as the one value of its
    family last said or one of the `things` given."""

    reader: _Reader
    text: str
    recipe: Recipe
    values: JsonMapping
    things: Mapping[str, Thing]
    start: int

    def spans(self) -> Iterator[tuple[int, int]]:
        for phrase in self.recipe.phrases:
            parts = _parts(phrase)
            if all(literal in self.text for literal, _ in parts):
                for begin in self.begins(parts[0][0]):
                    yield from ((begin, end) for end in self.ends(parts, begin))

    def begins(self, literal: str) -> Iterator[int]:
        """Where a phrase may begin: where its first words stand, or at any word when it begins with
        a value."""
        place = rf"(?<![^\W_])(?={re.escape(literal)})" if literal else r"(?<!\S)(?=\S)"
        return (match.start() for match in re.finditer(place, self.text))

    def ends(
        self, parts: Sequence[tuple[str, str | None]], position: int, index: int = 0
    ) -> Iterator[int]:
        """Where a match of `parts` from `index` on ends when it begins at `position`."""
        if index == len(parts):
            if (
                not self.text[position : position + 1].isalnum()
                or not self.text[position - 1].isalnum()
            ):
                yield position
            return
        literal, slot = parts[index]
        if not self.text.startswith(literal, position):
            return
        position += len(literal)
        for end in (position,) if slot is None else self._slot(slot, position):
            yield from self.ends(parts, end, index + 1)

    def _slot(self, slot: str, position: int) -> Iterator[int]:
        """Where the words for `slot` end when they begin at `position`."""
        if slot not in self.recipe.user_slots:
            yield from self._thing(slot, position)
            return
        book = self.reader.catalogue.book
        value = self.values[slot]
        domain = self.recipe.user_slots[slot]
        family = self.reader.catalogue.family(domain)
        words = [spoken(value)]
        if not self.reader.sure or (value is not None and self.reader.last.get(family) == value):
            words += book.again.get(family, ())
        if self.reader.vague:
            words += book.vague.get(family, ())
        yield from self._after(words, position) or self._after(
            self._worded(domain, value), position
        )

    def _after(self, words: Iterable[str], position: int) -> list[int]:
        """The ends of those of `words` that stand at `position` as whole words."""
        ends = []
        for phrase in map(plain, words):
            end = position + len(phrase)
            runs_on = phrase[-1:].isalnum() and self.text[end : end + 1].isalnum()
            if self.text.startswith(phrase, position) and not runs_on:
                ends.append(end)
        return ends

    def _thing(self, kind: str, position: int) -> Iterator[int]:
        words = self.reader.catalogue.book.things.get(kind)
        if words is None:
            return
        yield from self._after(words.back, position)
        noun = self.things[kind].noun if self.reader.sure and kind in self.things else None
        for explicit in words.explicit:
            if noun is not None or "{noun}" not in explicit:
                yield from self._after([explicit.replace("{noun}", noun or "")], position)
            else:
                yield from self._any_noun(explicit, position)

    def _any_noun(self, explicit: str, position: int) -> Iterator[int]:
        before, _, after = plain(explicit).partition("{noun}")
        if not self.text.startswith(before, position):
            return
        begin = position + len(before)
        for end in range(begin + 1, min(len(self.text), begin + NOUN) + 1):
            if self.text[end - 1] in "?!;,":
                break
            if not self.text[end : end + 1].isalnum() and self.text.startswith(after, end):
                yield end + len(after)

    def _worded(self, domain: str, value: Any) -> list[str]:
        """What the domain would say for `value` at that moment, where it has words of its own."""
        scene = self.reader.scene(self.start)
        try:
            domain_values = self.reader.catalogue.domains[domain]
            offered = domain_values(Scene(scene.state, dict(self.values), scene.narrative, {}))
        # it wants to know more than can be read
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            return []
        return [
            option.text
            for option in offered
            if isinstance(option, Worded) and option.value == value
        ]


@lru_cache(maxsize=16384)
def _parts(phrase: str) -> tuple[tuple[str, str | None], ...]:
    return tuple((literal, slot) for literal, slot, _, _ in string.Formatter().parse(plain(phrase)))
