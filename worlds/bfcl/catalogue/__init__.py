"""BFCL's catalogue for `rods/composing`: one module an API class, put together here."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from rods.composing.catalogue import Catalogue, PhraseBook, Recipe
from rods.composing.records import ComposeError, Draft
from rods.composing.states import deep_merge
from worlds.bfcl.catalogue import (
    calculator,
    crossing,
    file_system,
    messages,
    phrases,
    pools,
    tickets,
    trading,
    travel,
    tweets,
    vehicle,
)
from worlds.bfcl.catalogue.notation import Part, Wish
from worlds.bfcl.classes import MODULES, STATELESS
from worlds.bfcl.effects import READING

PARTS: tuple[Part, ...] = tuple(
    module.PART for module in (file_system, vehicle, trading, travel, calculator, messages, tweets, tickets, crossing)
)
SHOWN = 64  # BFCL shows every tool of a task's classes
# Tool names that are ordinary words, too.
ORDINARY = frozenset(
    (
        *("find", "sort", "comment", "mention", "mean", "power", "percentage", "logarithm"),
        *("add", "subtract", "multiply", "divide"),
    )
)


@cache
def catalogue() -> Catalogue:
    return Catalogue(
        environment="bfcl",
        recipes=_merged(part.recipes for part in PARTS),
        domains=_merged(part.domains for part in PARTS),
        book=_book(),
        make_state=make_state,
        patch=patch,
        pad=pad,
        topics=_topics,
        families={
            domain: family for part in PARTS for family, domains in part.families.items() for domain in domains.split()
        },
        siblings={one: other for part in PARTS for pair in part.siblings for one, other in (pair, pair[::-1])},
        swaps=_merged(part.swaps for part in PARTS),
        lookups=READING & {tool for part in PARTS for recipe in part.recipes.values() for tool in recipe.tools},
        shown=SHOWN,
        ordinary=ORDINARY,
        silent=frozenset(kind for part in PARTS for kind in part.silent),
        present=_present,
        common=frozenset(tool for part in PARTS for tool in part.common.split()),
        repeated=0.1,
        missing_first=True,
        closed=True,
    )


def make_state(
    recipes: Sequence[Recipe], avoid: Mapping[str, Any] | None, narrative: Mapping[str, str], rng: random.Random
) -> dict[str, Any]:
    """A world with the seed's API classes and those that the recipes call, without the words of `avoid`."""
    called = {_groups()[tool] for recipe in recipes for tool in recipe.tools}
    classes = list(avoid["classes"]) if avoid else []
    classes += [name for name in MODULES if name in called and name not in classes]
    wish = Wish(recipes, frozenset(_words(avoid)), narrative, rng)
    makers = {part.group: part.make for part in PARTS}
    config = {name: make(wish) for name in classes if (make := makers.get(name)) is not None}
    for name in classes:  # a class without recipes keeps the seed's scenario
        if name not in config and name not in STATELESS and avoid:
            config[name] = avoid["config"].get(name, {})
    return {"classes": classes, "config": config, "long_context": False}


def patch(state: Mapping[str, Any], error: ComposeError, rng: random.Random) -> dict[str, Any] | None:
    """Nothing: a world is made for its plan, and what still fails is planned anew."""
    return None


def pad(draft: Draft, spoken: frozenset[str], rng: random.Random) -> dict[str, Any]:
    """The draft's world, padded as BFCL pads (by its flag) and with more entries of our own."""
    state = deep_merge(draft.state, {"long_context": True})
    for part in PARTS:
        if part.pad is not None and part.group in state["config"]:
            part.pad(state["config"][part.group], spoken, rng)
    return state


def _present(state: Mapping[str, Any]) -> Collection[str]:
    names: Collection[str] = state["classes"]
    return names


def _topics(rng: random.Random) -> dict[str, str]:
    return {"topic": rng.choice(pools.TOPICS), "friend": rng.choice(pools.FIRST_NAMES)}


def _book() -> PhraseBook:
    return PhraseBook(
        phrases.FRAMES,
        phrases.LINKS,
        tuple(story for part in PARTS for story in part.stories) + phrases.STORIES,
        _merged(part.things for part in PARTS),
        _merged(part.vague for part in PARTS),
        _merged(part.supply for part in PARTS),
        _merged(part.again for part in PARTS),
        longest=phrases.LONGEST,
    )


def _merged(tables: Iterator[Mapping[str, Any]] | Any) -> dict[str, Any]:
    """One table of several. Raises ValueError when two of them hold the same key."""
    whole: dict[str, Any] = {}
    for table in tables:
        if twice := whole.keys() & table.keys():
            raise ValueError(f"two classes define {sorted(twice)}")
        whole |= table
    return whole


@cache
def _groups() -> Mapping[str, str]:
    from worlds.bfcl.world import environment

    return {name: tool.group for name, tool in environment().tools().items()}


def _words(value: Any) -> Iterator[str]:
    """Every key and every short text of a state, in lower case."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key).lower()
            yield from re.findall(r"[a-z]{4,}", str(key).lower())
            yield from _words(item)
    elif isinstance(value, list):
        for item in value:
            yield from _words(item)
    elif isinstance(value, str):
        yield value.lower()
