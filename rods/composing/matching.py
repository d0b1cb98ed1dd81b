"""Finds a phrase in a text, with words for its slots that say given values. Half of `reading`."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rods.composing.bind import spoken
from rods.composing.catalogue import Catalogue, Recipe, Scene, Worded

_QUOTES = re.compile(r"(?<!\w)'|'(?!\w)|\"")
NOUN = 60  # characters at most that a noun may have


@dataclass(frozen=True, slots=True)
class Thing:
    """A value on the table, and the noun that names it, where that can be told."""

    value: Any
    noun: str | None


@dataclass(frozen=True, slots=True)
class Said:
    """What a turn's words may be, beside the values themselves: `last` is the one value of each family last said (a
    back reference means it), `things` those on the table; both None when nobody knows. `vague`: a value may be blurred.
    `scene` gives the world in which a domain is asked for words of its own."""

    last: Mapping[str, Any] | None
    things: Mapping[str, Thing] | None
    vague: bool
    scene: Callable[[], Scene]


def plain(text: str) -> str:
    """Folded, without quotation marks: a blurred value has lost its own."""
    return _QUOTES.sub("", text).casefold()


def spans(
    catalogue: Catalogue, recipe: Recipe, values: Mapping[str, Any], text: str, said: Said
) -> Iterator[tuple[int, int]]:
    """Where `text` (plain) holds a phrase of the recipe that says `values` (by slot and kind of thing)."""
    finder = _Finder(catalogue, recipe, values, text, said)
    for phrase in recipe.phrases:
        parts = _parts(phrase)
        if all(literal in text for literal, _ in parts):
            for begin in finder.begins(parts[0][0]):
                yield from ((begin, end) for end in finder.ends(parts, begin))


@dataclass(frozen=True, slots=True)
class _Finder:
    catalogue: Catalogue
    recipe: Recipe
    values: Mapping[str, Any]
    text: str
    said: Said

    def begins(self, literal: str) -> Iterator[int]:
        """Where a phrase may begin: where its first words stand, or at any word when it begins with a value."""
        if not literal:
            yield from (word.start() for word in re.finditer(r"\S+", self.text))
            return
        position = self.text.find(literal)
        while position >= 0:
            if position == 0 or not self.text[position - 1].isalnum():
                yield position
            position = self.text.find(literal, position + 1)

    def ends(self, parts: Sequence[tuple[str, str | None]], position: int, index: int = 0) -> Iterator[int]:
        """Where a match of `parts` from `index` on ends when it begins at `position`."""
        if index == len(parts):
            if not self.text[position : position + 1].isalnum() or not self.text[position - 1].isalnum():
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
        if slot not in self.recipe.says:
            yield from self._thing(slot, position)
            return
        book, said, value = self.catalogue.book, self.said, self.values[slot]
        domain = self.recipe.says[slot]
        family = self.catalogue.family(domain)
        words = [spoken(value)]
        if said.last is None or (value is not None and said.last.get(family) == value):
            words += book.again.get(family, ())
        if said.vague:
            words += book.vague.get(family, ())
        yield from self._after(words, position) or self._after(self._worded(domain, value), position)

    def _after(self, words: Iterable[str], position: int) -> list[int]:
        """The ends of those of `words` that stand at `position` as whole words."""
        found = []
        for each in map(plain, words):
            end = position + len(each)
            if self.text.startswith(each, position) and not (
                each[-1:].isalnum() and self.text[end : end + 1].isalnum()
            ):
                found.append(end)
        return found

    def _thing(self, kind: str, position: int) -> Iterator[int]:
        words = self.catalogue.book.things.get(kind)
        if words is None:
            return
        yield from self._after(words.back, position)
        noun = self.said.things[kind].noun if self.said.things is not None and kind in self.said.things else None
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
        scene = self.said.scene()
        try:
            offered = self.catalogue.domains[domain](Scene(scene.state, dict(self.values), scene.narrative, {}))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):  # it wants to know more than can be read
            return []
        return [each.text for each in offered if isinstance(each, Worded) and each.value == value]


@lru_cache(maxsize=16384)
def _parts(phrase: str) -> tuple[tuple[str, str | None], ...]:
    return tuple((literal, slot) for literal, slot, _, _ in string.Formatter().parse(plain(phrase)))
