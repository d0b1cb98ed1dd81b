"""A user's own composable environment: notes and counters with a small catalogue.

`load("tests.rods.composing.own_environment:environment")`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from rods.composing.catalogue import (
    Catalogue,
    Gift,
    Got,
    Implied,
    PhraseBook,
    Recipe,
    Said,
    Step,
    Story,
    Words,
    step,
)
from rods.composing.records import ComposeError, Draft
from rods.environments.base import Environment
from tests.rods.toy_environment import Toy, World

TITLES = ("plans", "songs", "rivers", "birds", "films", "walks", "plants", "coins")
BODIES = ("red and blue", "call the office", "buy seven lamps", "ask again", "far too late", "nothing yet")
COUNTERS = ("visitors", "parcels", "letters", "errors")

RECIPES = (
    Recipe(
        "note",
        (step("write", title="title:title", body="body:body"),),
        ("write a note called {title} that says {body}", "note down {body} under the title {title}"),
        {"note": Gift(Got(0, ("note_id",)), "title")},
    ),
    Recipe("read_back", (step("read", note_id="^note"),), ("read {note} back to me", "tell me what {note} says")),
    Recipe("all_titles", (Step("titles"),), ("list the titles of all my notes",)),
    Recipe(
        "mark",
        (Step("label", {"note_ids": Said("notes", "notes"), "color": Said("color", "color")}),),
        ("mark the notes {notes} as {color}", "give the notes {notes} the color {color}"),
    ),
    Recipe(
        "count_up",
        (step("count", name="name:counter", amount="amount:amount"),),
        ("add {amount} to my counter of {name}", "count {amount} more {name}"),
    ),
    Recipe(
        "count_pair",
        (Step("count", {"name": Said("name", "counter"), "amount": Implied(2)}),),
        ("count {name} twice", "add a pair to my counter of {name}"),
    ),
    Recipe("add_up", (Step("total"),), ("add up all my counters", "tell me what my counters come to")),
)
BOOK = PhraseBook(
    frames={1: ("Please {0}.", "Could you {0}?"), 2: ("Please {0}, then {1}.", "{0}, please. Also {1}.")},
    links=("Next,", "Good."),
    stories=(
        Story("journal", ("I keep a journal about {place}.",), ("On with {place}.",), ("Last entry about {place}.",)),
    ),
    things={"note": Words(("my note on {noun}",), ("that note",))},
    vague={"amount": ("some number",), "counter": ("something",)},
    supply={"amount": ("The number is {value}.",), "counter": ("I mean {value}.",)},
)


def _make_state(
    recipes: Sequence[Recipe], avoid: Mapping[str, Any] | None, narrative: Mapping[str, str], rng: random.Random
) -> dict[str, Any]:
    notes = {str(101 + n): {"title": rng.choice(TITLES), "body": rng.choice(BODIES)} for n in range(rng.randint(0, 2))}
    return {"notes": notes, "counters": {rng.choice(COUNTERS): rng.randint(1, 50)}}


def _patch(state: Mapping[str, Any], error: ComposeError, rng: random.Random) -> dict[str, Any] | None:
    if error.domain == "notes":
        return {"notes": {"101": {"title": rng.choice(TITLES), "body": rng.choice(BODIES)}}}
    return None


def _pad(draft: Draft, spoken: frozenset[str], rng: random.Random) -> dict[str, Any]:
    state = dict(draft.state)
    return {**state, "counters": {**state["counters"], **{f"spare{n}": n for n in range(9)}}}


CATALOGUE = Catalogue(
    environment="tests.rods.composing.own_environment:environment",
    recipes={recipe.name: recipe for recipe in RECIPES},
    domains={
        "title": lambda scene: TITLES,
        "body": lambda scene: BODIES,
        "notes": lambda scene: [[int(number) for number in scene.state["notes"]]] if scene.state["notes"] else [],
        "color": lambda scene: ("red", "blue"),
        "counter": lambda scene: COUNTERS,
        "amount": lambda scene: range(3, 40),
    },
    book=BOOK,
    make_state=_make_state,
    patch=_patch,
    pad=_pad,
    topics=lambda rng: {"place": rng.choice(("the sea", "the hills", "the city"))},
    lookups=frozenset({"read", "titles", "total"}),
    ordinary=frozenset({"write", "read", "titles", "label", "count", "total"}),
)


class Own(Toy):
    def catalogue(self) -> Catalogue:
        return CATALOGUE


def environment() -> Environment:
    made = Own("environment", World)
    made.name = CATALOGUE.environment
    return made


def bare() -> Environment:
    """The same world without a catalogue."""
    return Toy("environment", World)
