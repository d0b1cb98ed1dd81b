"""How the recipes of the API classes are written down, and what each class adds to the catalogue.

A line of `recipe` reads: the book it goes into, name, steps, phrases, and what the recipe gives, ends, needs or makes.

- Steps are separated by `;`, each a tool and its arguments: `cd folder=folder:folder; ls a=!true`. Sources are in the
  short notation of `rods.composing.catalogue.step`; `!` marks a constant that the phrases imply, written as JSON.
- Phrases may hold alternatives, `(show|print) {file}`; every combination is a phrase. Alternatives may be empty and do
  not nest.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rods.canonical import keyed_random
from rods.composing.catalogue import Domain, Gift, Implied, Recipe, Source, Step, Story, Words, source

MOST_PHRASES = 16  # of one line of alternatives: lines of many do not drown the others
_ALTERNATIVES = re.compile(r"\(([^()]*\|[^()]*)\)")
Recipes = dict[str, Recipe]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a new state is made for: the plan's recipes in order, the words of the seed's state, the plan's story."""

    recipes: Sequence[Recipe]
    taken: frozenset[str]
    narrative: Mapping[str, str]
    rng: random.Random

    def fresh(self, pool: Sequence[str], count: int = 1) -> list[str]:
        """`count` different entries of `pool`, none of them in the seed's state while there are others."""
        free = [value for value in pool if value.lower() not in self.taken]
        return self.rng.sample(free if len(free) >= count else list(pool), count)

    def calls(self, tool: str) -> bool:
        return any(tool in recipe.tools for recipe in self.recipes)

    def says(self, *domains: str) -> bool:
        """Whether a recipe lets the user choose from one of `domains`."""
        return any(domain in domains for recipe in self.recipes for domain in recipe.says.values())


@dataclass(frozen=True)
class Part:
    """What one API class adds to the catalogue. `make` gives its scenario in a new state; None for a class without."""

    group: str
    recipes: Recipes
    domains: Mapping[str, Domain] = field(default_factory=dict)
    make: Callable[[Wish], dict[str, Any]] | None = None
    pad: Callable[[dict[str, Any], frozenset[str], random.Random], None] | None = None
    stories: tuple[Story, ...] = ()
    things: Mapping[str, Words] = field(default_factory=dict)
    vague: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    supply: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    again: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)  # family → its domains, separated by blanks
    siblings: tuple[tuple[str, str], ...] = ()
    swaps: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    common: str = ""  # tools, separated by blanks


def recipe(
    book: Recipes,
    name: str,
    steps: str,
    *phrases: str,
    gives: str = "",
    ends: str = "",
    when: str = "",
    unless: str = "",
    makes: str = "",
    short: bool = False,
) -> None:
    """Adds a recipe to `book`. `gives` holds entries `kind=source/noun` separated by blanks (no noun: a thing whose
    words need none; `the-first-one` stands for these words), the others hold kinds and facts."""
    if name in book:
        raise ValueError(f"two recipes called {name!r}")
    gifts = {}
    for entry in gives.split():
        kind, _, rest = entry.partition("=")
        value, _, noun = rest.partition("/")
        gifts[kind] = Gift(source(value), noun.replace("-", " "))
    said = tuple(phrase for line in phrases for phrase in alternatives(line))
    book[name] = Recipe(
        name,
        tuple(_step(text) for text in steps.split(";")),
        said,
        gifts,
        tuple(ends.split()),
        tuple(when.split()),
        tuple(unless.split()),
        tuple(makes.split()),
        short,
    )


def alternatives(line: str, most: int = MOST_PHRASES) -> list[str]:
    """The phrases that a line with alternatives stands for, a fixed choice of `most` where there are more."""
    pieces = _ALTERNATIVES.split(line)  # plain text and alternatives take turns
    choices = [piece.split("|") if index % 2 else [piece] for index, piece in enumerate(pieces)]
    phrases = [" ".join("".join(chosen).split()).replace(" ,", ",") for chosen in itertools.product(*choices)]
    return phrases if len(phrases) <= most else keyed_random(0, "phrases", line).sample(phrases, most)


def _step(text: str) -> Step:
    tool, *arguments = text.split()
    sources: dict[str, Source] = {}
    for argument in arguments:
        name, _, value = argument.partition("=")
        sources[name] = Implied(json.loads(value[1:])) if value.startswith("!") else source(value)
    return Step(tool, sources)
