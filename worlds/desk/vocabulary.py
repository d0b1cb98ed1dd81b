"""All words that desk's own tasks can show or ask for: what a word-level tokenizer needs to know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rods.tasks import RETURN_SENTENCE
from worlds.desk import pools
from worlds.desk.catalogue import catalogue
from worlds.desk.registry import REFUSALS, REGISTRY
from worlds.desk.states import RICH

WORD = re.compile(r"[a-z_]+[0-9]*|[0-9]+")


def words() -> list[str]:
    """The distinct lower-case words, sorted: of tools, parameters, result keys, errors, values and phrases.

    Tool names and ids (`find_contact`, `box12`, `m14`) are one word each. Amounts beyond the usual ones can arise when
    money moves several times; a tokenizer needs a way to spell them.
    """
    return sorted({word for text in _texts() for word in WORD.findall(text.lower())})


def _texts() -> Iterator[str]:
    for name, registered in REGISTRY.items():
        yield name
        yield registered.tool.description
        for parameter in registered.tool.parameters:
            yield f"{parameter.name} {parameter.schema['type']} {parameter.description}"
    yield "ok true false null error unknown argument wrong type of bad missing no such tool"
    yield from REFUSALS
    yield "address names mails sender text event day hour events files balance bill amount"  # keys of results
    for pool in (pools.DAYS, pools.TEAMS, pools.ROOMS, pools.FOLDERS, pools.ACCOUNTS, pools.NAMES, pools.ADDRESSES):
        yield from pool
    for pool in (pools.TOPICS, pools.FILES, pools.VENDORS, pools.TEXTS):
        yield from pool
    numbers = (*pools.HOURS, *pools.AMOUNTS, *range(0, pools.BALANCES[-1] + 401, 20), RICH)
    yield from map(str, numbers)
    for letter in "mei":
        yield from (f"{letter}{number}" for number in (*pools.FIRST_IDS, *range(pools.NEXT_IDS[0], 32)))
    for recipe in catalogue().recipes.values():
        yield from map(_plain, recipe.phrases)
    yield from map(_plain, _book())
    yield RETURN_SENTENCE


def _book() -> Iterator[str]:
    book = catalogue().book
    groups: list[Iterable[str]] = [book.links, *book.frames.values()]
    groups += [part for story in book.stories for part in (story.opening, story.later, story.closing)]
    groups += [part for words in book.things.values() for part in (words.explicit, words.back)]
    groups += [*book.vague.values(), *book.supply.values(), *book.again.values()]
    for group in groups:
        yield from group


def _plain(template: str) -> str:
    return re.sub(r"\{[^}]*\}", " ", template)
