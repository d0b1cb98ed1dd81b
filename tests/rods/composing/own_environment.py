"""A user's own composable environment: notes and counters, with its tables in `own_catalogue.toml`.

`load("tests.rods.composing.own_environment:environment")`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rods.composing.catalogue import Catalogue, Recipe
from rods.composing.recipes import read
from rods.composing.records import ComposeError, Draft
from rods.environments.base import Environment
from tests.rods.toy_environment import Toy, World

TABLES = read(Path(__file__).with_name("own_catalogue.toml"))
TITLES, BODIES, COUNTERS = (TABLES.domains[name] for name in ("title", "body", "counter"))


def _make_state(
    recipes: Sequence[Recipe],
    avoid: Mapping[str, Any] | None,
    narrative: Mapping[str, str],
    rng: random.Random,
) -> dict[str, Any]:
    notes = {
        str(101 + n): {"title": rng.choice(TITLES), "body": rng.choice(BODIES)}
        for n in range(rng.randint(0, 2))
    }
    return {"notes": notes, "counters": {rng.choice(COUNTERS): rng.randint(1, 50)}}


def _patch(
    state: Mapping[str, Any], error: ComposeError, rng: random.Random
) -> dict[str, Any] | None:
    if error.domain == "notes":
        return {"notes": {"101": {"title": rng.choice(TITLES), "body": rng.choice(BODIES)}}}
    return None


def _pad(draft: Draft, spoken: frozenset[str], rng: random.Random) -> dict[str, Any]:
    state = dict(draft.state)
    return {**state, "counters": {**state["counters"], **{f"spare{n}": n for n in range(9)}}}


CATALOGUE = TABLES.catalogue(
    "tests.rods.composing.own_environment:environment",
    domains={
        "notes": lambda scene: (
            [[int(number) for number in scene.state["notes"]]] if scene.state["notes"] else []
        ),
        "amount": lambda scene: range(3, 40),
    },
    make_state=_make_state,
    patch=_patch,
    pad=_pad,
    topics=lambda rng: {"place": rng.choice(TABLES.pools["places"])},
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
