"""The execution pattern of a plan: for every call that the root's shape asks for, the functions that may stand there.

Where the environment has recipes (HIGH-LEVEL functions), a procedural sketch of the right shape is widened: each of its
functions may be exchanged for any other with the same number of calls, the same depth, the same needs, and gifts on
which what follows can rely. So whatever a model picks is likely to fit together, and the root's depth is kept. After a
`decompose_failed`, and where there are no recipes, the functions are the single tools of the API classes that the root
calls at that place (BOTTOM-LEVEL); where a call of the root feeds another, those that can.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from daemon.authors.base import Assignment
from daemon.authors.catalogue_free.plain import is_plain
from daemon.authors.llm.linking import pairs
from rods.composing.catalogue import Catalogue, Recipe
from rods.composing.plan_search import Table, deniable
from rods.composing.planning import plan as sketched
from rods.composing.records import ComposeError

CHOICES = 12  # functions offered for one place
SKETCHES = 16  # that are compared: a model chooses among what comes of it


@dataclass(frozen=True, slots=True)
class Place:
    """One function to choose: which ones fit, and how many calls each of them makes."""

    options: tuple[str, ...]
    calls: int = 1


@dataclass(frozen=True, slots=True)
class Pattern:
    """The places of each turn; none where no call is right. `depth` is None where only the calls can show it."""

    turns: tuple[tuple[Place, ...], ...]
    depth: int | None = None

    @property
    def names(self) -> list[str]:
        """Every function that is offered somewhere, each once."""
        return list(dict.fromkeys(name for turn in self.turns for place in turn for name in place.options))


def pattern(catalogue: Catalogue, given: Assignment, functions: str, rng: random.Random) -> Pattern:
    """The pattern for one plan. `functions` is `other` (rather not the seed's) or `same` (just the seed's).

    Raises ComposeError("no_pattern") when no function is left for some place.
    """
    own = {name: recipe for name, recipe in catalogue.recipes.items() if not is_plain(recipe)}
    single = any(error.type == "decompose_failed" for error in given.failures)
    if own and not single:
        return _from_recipes(catalogue, own, given, functions, rng)
    return _from_tools(catalogue, given, functions, rng)


def _from_recipes(
    catalogue: Catalogue, own: Mapping[str, Recipe], given: Assignment, functions: str, rng: random.Random
) -> Pattern:
    draw = partial(
        sketched,
        replace(catalogue, recipes=own),
        given.environment,
        given.seed,
        given.profile,
        blocked=given.blocked,
        functions="same" if functions == "same" else "other",
        narrative=False,
        rng=rng,
    )
    try:
        plan = draw(tries=SKETCHES)
    except ComposeError:  # a rare shape: look for long
        plan = draw()
    tools = given.environment.tools()
    classes = {tools[call.name].group for calls in given.seed.calls for call in calls} if catalogue.closed else None
    seeds = _used(given) - catalogue.common
    chosen = [[own[name] for name in turn.recipes] for turn in plan.turns]
    flat = [recipe for turn in chosen for recipe in turn]
    table = Table()
    turns = []
    number = 0
    for turn, recipes in enumerate(chosen):
        places = []
        before = frozenset(table.used)
        asked_in_vain = turn > 0 and not chosen[turn - 1]
        for recipe in recipes:
            lacking = asked_in_vain and deniable(catalogue, (recipe,), given.seed.type, before)
            needed = frozenset().union(*(_concerns(later) for later in flat[number + 1 :]))
            options = [
                other.name
                for other in own.values()
                if other is not recipe
                and other not in recipes
                and _exchangeable(recipe, other, table, turn, needed)
                and not given.blocked.intersection((other.name, *other.tools))
                and not (other.short and given.seed.type == "long_context")
                and (not lacking or deniable(catalogue, (other,), given.seed.type, before))
                and (classes is None or classes.issuperset(tools[name].group for name in other.tools))
                and (other.tools == recipe.tools if functions == "same" else not seeds.intersection(other.tools))
            ]
            rng.shuffle(options)
            options = [recipe.name, *options[: CHOICES - 1]]
            rng.shuffle(options)
            places.append(Place(tuple(options), len(recipe.steps)))
            table.add(recipe, turn)
            number += 1
        turns.append(tuple(places))
    return Pattern(tuple(turns), given.profile.depth)


def _exchangeable(recipe: Recipe, other: Recipe, table: Table, turn: int, needed: frozenset[str]) -> bool:
    """Whether `other` may stand for `recipe` on this table, where later functions need the things and facts `needed`,
    or need them away: as many calls, as deep, no more needs of its own, and it leaves the same of what is needed."""
    return (
        len(other.steps) == len(recipe.steps)
        and other.needs == recipe.needs
        and set(other.when) <= set(recipe.when)
        and other.fits(table.things.keys())
        and _left(recipe, table, turn, needed) == _left(other, table, turn, needed)
    )


def _left(recipe: Recipe, table: Table, turn: int, needed: frozenset[str]) -> tuple[int, dict[str, int]]:
    """The depth that a recipe reaches on this table, and that of the needed things which are there afterwards."""
    after = replace(table, things=dict(table.things), used=set(table.used), depth=0)
    after.add(recipe, turn)
    return after.depth, {kind: depth for kind, (depth, _) in after.things.items() if kind in needed}


def _concerns(recipe: Recipe) -> frozenset[str]:
    """The things and facts on which it depends whether a recipe can come."""
    return recipe.needs.union(recipe.when, recipe.unless)


def _from_tools(catalogue: Catalogue, given: Assignment, functions: str, rng: random.Random) -> Pattern:
    tools = given.environment.tools()
    seeds = _used(given) - catalogue.common
    linked = {position for producer, consumer, _ in given.profile.edges for position in (producer, consumer)}
    turns = []
    for turn, nodes in enumerate(given.profile.turns):
        open_value = given.seed.type == "miss_param" and turn > 0 and not given.profile.turns[turn - 1]
        places = []
        for node in nodes:
            if functions == "same":
                options = [node.tool]
            else:
                same_class = [name for name, tool in tools.items() if tool.group == node.group]
                if open_value:  # something has to be said in it, so that it can be left open before
                    same_class = [name for name in same_class if catalogue.recipes[name].says]
                others = [name for name in same_class if name not in seeds]
                options = same_class if node.position in linked else others or same_class  # few tools find things out
            options = [name for name in options if name not in given.blocked and is_plain(catalogue.recipes[name])]
            if not options:
                detail = f"no function of {node.group} is left for turn {node.turn + 1}"
                raise ComposeError("no_pattern", detail, turn=node.turn)
            rng.shuffle(options)
            places.append(Place(tuple(options[:CHOICES])))
        turns.append(places)
    if functions == "other":
        _link(catalogue, given, turns)
    return Pattern(tuple(map(tuple, turns)))


def _link(catalogue: Catalogue, given: Assignment, turns: Sequence[list[Place]]) -> None:
    """Where a call of the root feeds another, leaves only functions that can feed or be fed; all where none can."""
    for producer, consumer, _ in given.profile.edges:
        givers, takers = turns[producer[0]][producer[1]].options, turns[consumer[0]][consumer[1]].options
        if found := pairs(catalogue, given, givers, takers):
            turns[producer[0]][producer[1]] = Place(tuple(dict.fromkeys(one for one, _ in found)))
            turns[consumer[0]][consumer[1]] = Place(tuple(dict.fromkeys(two for _, two in found)))


def repeats(given: Assignment, catalogue: Catalogue, turns: Sequence[Sequence[str]]) -> bool:
    """Whether these functions call exactly the tools of the seed."""
    seed = Counter(call.name for calls in given.seed.calls for call in calls)
    return seed == Counter(tool for turn in turns for name in turn for tool in catalogue.recipes[name].tools)


def _used(given: Assignment) -> set[str]:
    return {call.name for calls in given.seed.calls for call in calls}
