"""Stage I: plans a call sequence with a seed's shape (004 §3.3), procedurally: calls per turn, turns in which no call
is right, depth, and API classes (`PlanShape`). Functions, names, numbers and story are new; `functions="same"` keeps
the functions, as an ablation.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from rods.analysis.profile import Profile, distance, edges_apart, isomorphic
from rods.composing.catalogue import Catalogue, Recipe
from rods.composing.plan_search import PlanSample, PlanShape, Table, Turn, deniable, most_calls, outline
from rods.composing.records import ComposeError, Plan, PlannedTurn
from rods.config import Gates
from rods.environments.base import Environment
from rods.tasks import Task, TaskType

TRIES = 80  # candidate plans looked at for a seed's shape
LONGER = 5  # times as many while none of them fits
ENOUGH = 8  # that fit, to choose the nearest of
NEAR, EDGE = 5.0, 2.0  # costs of the whole distance, and of an edge from turn to turn that only one of both has
SAME_TRIES = 40  # random decompositions of a seed's functions
WAYS = 40  # decompositions of one turn


def shape_of(profile: Profile) -> PlanShape:
    """The shape of a seed."""
    classes = tuple(Counter(node.group for node in turn) for turn in profile.turns)
    return PlanShape(profile.calls_per_turn, profile.depth, classes, profile.links)


def plan(
    catalogue: Catalogue,
    environment: Environment,
    seed: Task,
    profile: Profile,
    *,
    limits: Gates,
    blocked: frozenset[str],
    functions: Literal["other", "same"],
    narrative: bool,
    tries: int = TRIES,
    rng: random.Random,
) -> Plan:
    """A plan with the profile of `seed`, as far as it shows before anything runs within the `limits` that a variant has
    to keep; the best of `tries`.

    `functions="other"` avoids the seed's functions as far as the shape allows and never repeats their multiset; "same"
    calls exactly the seed's functions, turn by turn. `blocked` names functions and recipes not to be used (Appendix F).
    Raises ComposeError("no_pattern") when the search finds nothing.
    """
    wanted = [tuple(call.name for call in turn) for turn in seed.calls]
    if functions == "same":
        turns = _same(catalogue, seed.type, wanted, profile, blocked, rng)
        groups = {name: tool.group for name, tool in environment.tools().items()}
        return _plan(catalogue, groups, turns, narrative, rng)
    return sketch(
        catalogue,
        environment,
        shape_of(profile),
        seed.type,
        blocked=blocked,
        other=Counter(name for turn in wanted for name in turn),
        usable=frozenset(profile.classes),
        root=profile,
        limits=limits,
        narrative=narrative,
        tries=tries,
        rng=rng,
    )


def sketch(
    catalogue: Catalogue,
    environment: Environment,
    shape: PlanShape,
    type: TaskType,
    *,
    blocked: frozenset[str] = frozenset(),
    other: Counter[str] | None = None,
    usable: frozenset[str] | None = None,
    root: Profile | None = None,
    limits: Gates | None = None,
    narrative: bool = True,
    fair: bool = True,
    tries: int = TRIES,
    rng: random.Random,
) -> Plan:
    """A plan of the given shape, without a seed: the cheapest of `tries` random fillings.

    `other` are functions to keep away from, and never to call in just these numbers, `usable` the API classes to choose
    from (None: all), `root` a profile to come close to, within `limits` (None: however near);
    `fair` as in `plan_search.deniable`.
    Raises ComposeError("no_pattern") when no filling fits.
    """
    groups = {name: tool.group for name, tool in environment.tools().items()}
    avoid = frozenset(other or ()) - catalogue.common
    recipes = [
        recipe
        for name, recipe in catalogue.recipes.items()
        if name not in blocked
        and not blocked.intersection(recipe.tools)
        and not (recipe.short and type == "long_context")
        and (usable is None or all(groups[tool] in usable for tool in recipe.tools))
    ]
    fitting: list[tuple[float, int, list[Turn]]] = []
    deep: list[Recipe] = []
    missed: Counter[tuple[int, str]] = Counter()  # turn at fault (-1: the whole) and why, of each filling not taken
    if not recipes or max(shape.counts) - 1 > most_calls(catalogue, recipes):
        tries = 0
    for number in range(LONGER * tries):
        if len(fitting) >= ENOUGH if root is not None and number < tries else fitting and number >= tries:
            break
        candidate = PlanSample(catalogue, groups, shape, type, avoid, rng, fair)
        if number >= tries:  # chance alone has not reached the depth, nor all edges: from now on it is sought
            deep = [recipe for recipe in recipes if recipe.reach == shape.depth]
            candidate.seeks_depth, candidate.spare = True, limits.profile_edges if limits is not None else 0
        if not candidate.fill(recipes, deep if number % 2 else ()):
            turn, depth = len(candidate.turns), candidate.table.depth
            whole = turn == len(shape.counts)
            missed[(-1, f"came to depth {depth}") if whole else (turn, f"found nothing fitting for turn {turn}")] += 1
            continue
        tools = Counter(tool for turn in candidate.turns for recipe in turn for tool in recipe.tools)
        if tools == other:
            missed[-1, "had the seed's very tools"] += 1
            continue
        cost = candidate.cost(tools)
        if root is not None:  # a closer look: the cost knows classes and counts, the distance the whole graph
            seen = outline(candidate.turns, groups, type)
            if limits is not None and limits.profile and (far := isomorphic(root, seen, limits)):
                missed[-1, f"were too far from the seed ({far[0]})"] += 1
                continue
            cost += NEAR * distance(root, seen) + EDGE * edges_apart(root.links, seen.links)
        fitting.append((cost, number, candidate.turns))
        if cost == 0 and root is None:
            break
    if not fitting:
        why = _unplanned(catalogue, groups, shape, recipes, avoid, missed)
        told = f"no recipes give {list(shape.counts)} calls a turn at depth {shape.depth}{why}"
        raise ComposeError("no_pattern", told)
    return _plan(catalogue, groups, min(fitting)[2], narrative, rng)


def _unplanned(
    catalogue: Catalogue,
    groups: Mapping[str, str],
    shape: PlanShape,
    recipes: Sequence[Recipe],
    avoid: frozenset[str],
    missed: Counter[tuple[int, str]],
) -> str:
    """What a shape wanted, why most fillings were `missed`, and the nearest recipe for the turn at fault (else the
    fullest) with what keeps it out. `recipes` are those that might come."""
    told = ""
    if shape.classes is not None:
        wanted = (", ".join(f"{count} {name}" for name, count in sorted(turn.items())) for turn in shape.classes)
        told = f", by API class {' | '.join(turn or 'none' for turn in wanted)}"
    if most := missed.most_common(2):
        told += f"; of {missed.total()} plans {' and '.join(f'{count} {why}' for (_, why), count in most)}"
    if not catalogue.recipes:
        return told
    turn = most[0][0][0] if most else -1
    if turn < 0:
        turn = max(range(len(shape.counts)), key=shape.counts.__getitem__)

    def apart(recipe: Recipe) -> tuple[int, bool]:
        classes = Counter(groups[tool] for tool in recipe.tools)
        wanted = Counter(shape.classes[turn]) if shape.classes is not None else classes
        away = ((classes - wanted) + (wanted - classes)).total() + abs(len(recipe.steps) - shape.counts[turn])
        return away, recipe not in recipes

    nearest = min(catalogue.recipes.values(), key=apart)
    own = [tool for tool in dict.fromkeys(nearest.tools) if tool in avoid]
    if nearest not in recipes:
        kept = "is blocked, short in a long context, or calls a class that the seed does not"
    elif len(nearest.steps) > shape.counts[turn] + 1:
        kept = f"has {len(nearest.steps)} calls"
    elif own:
        kept = f"calls the seed's own {', '.join(own)}: write one of other tools"
    elif nearest.needs and not turn:
        kept = f"takes up {', '.join(sorted(nearest.needs))}, which nothing gives before"
    else:
        kept = "does not bring the depth and the edges alone"
    return f"{told}; nearest for turn {turn} is the recipe {nearest.name}, which {kept}"


def _same(
    catalogue: Catalogue,
    type: TaskType,
    wanted: Sequence[tuple[str, ...]],
    root: Profile,
    blocked: frozenset[str],
    rng: random.Random,
) -> list[Turn]:
    """Recipes whose tools are exactly the seed's, in order, at the root's depth and as near to its edges as chance
    comes."""
    fitting: list[tuple[int, int, list[Turn]]] = []
    for number in range(SAME_TRIES):
        table = Table()
        turns: list[Turn] = []
        for turn, tools in enumerate(wanted):
            ways = _decompositions(catalogue, tools, frozenset(table.things), blocked)
            if turn and not wanted[turn - 1]:
                ways = [way for way in ways if deniable(catalogue, way, type, frozenset(table.used))]
            if not ways:
                break
            turns.append(rng.choice(ways))
            for recipe in turns[-1]:
                table.add(recipe, turn)
        if len(turns) == len(wanted) and table.depth == root.depth:
            fitting.append((edges_apart(table.edges, root.links), number, turns))
            if not fitting[-1][0]:
                break
    if not fitting:
        raise ComposeError("no_pattern", "no recipes call exactly the functions of the seed at its depth")
    return min(fitting)[2]


def _decompositions(
    catalogue: Catalogue, tools: tuple[str, ...], given: frozenset[str], blocked: frozenset[str]
) -> list[Turn]:
    """The ways, at most `WAYS`, to write `tools` as recipes one after the other; `given` are the things at hand."""
    if not tools:
        return [()]
    ways: list[Turn] = []
    for name, recipe in catalogue.recipes.items():
        fits = tools[: len(recipe.steps)] == recipe.tools and recipe.fits(given)
        if not fits or name in blocked or blocked.intersection(recipe.tools):
            continue
        after = (given - set(recipe.ends)) | set(recipe.gives) | set(recipe.makes)
        rests = _decompositions(catalogue, tools[len(recipe.steps) :], after, blocked)
        ways += [(recipe, *rest) for rest in rests if recipe not in rest]
        if len(ways) >= WAYS:
            break
    return ways[:WAYS]


def _plan(
    catalogue: Catalogue, groups: Mapping[str, str], turns: Sequence[Turn], narrative: bool, rng: random.Random
) -> Plan:
    story: dict[str, str] = {}
    if narrative:
        used = {groups[tool] for turn in turns for recipe in turn for tool in recipe.tools}
        stories = [story for story in catalogue.book.stories if not story.groups or used & story.groups]
        story = {"story": rng.choice(stories).name, **catalogue.topics(rng)}
    planned = tuple(
        PlannedTurn(tuple(recipe.name for recipe in turn), tuple(tool for recipe in turn for tool in recipe.tools))
        for turn in turns
    )
    return Plan(planned, story)
