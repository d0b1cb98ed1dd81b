"""What the API classes share when a new state is made: the request for it, what each class adds,
names of people."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rods.canonical import JsonMapping, JsonObject, frozen
from rods.composing.catalogue import Domain, Recipe, Scene, Worded
from rods.composing.recipes import RecipeTables, read


def tables(name: str) -> RecipeTables:
    """The tables of `worlds/bfcl/recipes/<name>.toml`."""
    return read(Path(__file__).parents[1] / "recipes" / f"{name}.toml")


WORDS = tables("words")
FIRST_NAMES: tuple[str, ...] = WORDS.pools["first_names"]
LAST_NAMES: tuple[str, ...] = WORDS.pools["last_names"]
MONTHS: tuple[str, ...] = WORDS.pools["months"]


@frozen
class ScenarioRequest:
    """What a new state is made for: the plan's recipes in order, the words of the seed's state, the
    plan's story."""

    recipes: Sequence[Recipe]
    taken: frozenset[str]
    narrative: Mapping[str, str]
    rng: random.Random

    def fresh(self, pool: Sequence[str], count: int = 1) -> list[str]:
        """`count` different entries of `pool`, none of them in the seed's state while there are
        others."""
        free = [value for value in pool if value.lower() not in self.taken]
        return self.rng.sample(free if len(free) >= count else list(pool), count)

    def calls(self, tool: str) -> bool:
        return any(tool in recipe.tools for recipe in self.recipes)

    def mentions(self, *domains: str) -> bool:
        """Whether a recipe lets the user choose from one of `domains`."""
        return any(
            domain in domains for recipe in self.recipes for domain in recipe.user_slots.values()
        )


@dataclass(frozen=True)
class ClassCatalogue:
    """What one API class adds to the catalogue. `make` gives its scenario in a new state, None for
    a class without one; `pad` lengthens a scenario in place, adding nothing that the spoken words
    could mean."""

    group: str
    tables: RecipeTables
    domains: Mapping[str, Domain]
    make: Callable[[ScenarioRequest], JsonObject] | None = None
    pad: Callable[[JsonObject, frozenset[str], random.Random], None] | None = None


def day_of(year: int, month: int, day: int) -> Worded:
    return Worded(f"{year}-{month:02d}-{day:02d}", f"{MONTHS[month - 1]} {day}, {year}")


def object_of(group: str) -> Callable[[Scene], JsonMapping]:
    """What gives the object of class `group` in a scene: what has changed since the start, else its
    scenario."""
    return lambda scene: scene.state.get("objects", {}).get(group) or scene.state["config"][group]
