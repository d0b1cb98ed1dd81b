"""Stage I: plans a call sequence with a seed's shape (004 §3.3), procedurally: calls per turn,
turns in which no call is right, depth, and API classes (`PlanShape`). Functions, names, numbers and
story are new; `functions="same"` keeps the functions, as an ablation."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from rods.analysis.flows import Flow
from rods.analysis.profile import Node, Profile, distance, edges_apart, isomorphic
from rods.canonical import without
from rods.composing.catalogue import Catalogue, FromEarlierRecipe, FromResult, Recipe, Source
from rods.composing.plan_search import PlanSample, PlanShape, Prefix, Turn, most_calls
from rods.composing.records import ComposeError, Plan
from rods.config import Gates
from rods.environments.base import Environment
from rods.tasks import Task, TaskType

TRIES = 80  # candidate plans looked at for a seed's shape
LONGER = 5  # times as many while none of them fits
ENOUGH = 8  # that fit, to choose the nearest of
# costs of the whole distance, and of an edge from turn to turn that only one of both has
NEAR = 5.0
EDGE = 2.0


def outline(turns: Sequence[Turn], groups: Mapping[str, str], type: TaskType) -> Profile:
    """The profile that these recipes are going to have; every said value counts as said in its own
    turn."""
    things: dict[str, Flow] = {}
    nodes: list[tuple[Node, ...]] = []
    for turn, recipes in enumerate(turns):
        calls: list[Node] = []
        for recipe in recipes:
            start = (turn, len(calls))
            for step in recipe.steps:
                flows = {
                    name: _flow(source, start, things) for name, source in step.arguments.items()
                }
                calls.append(Node(turn, len(calls), step.tool, groups[step.tool], flows))
            gifts = {kind: _flow(gift.value, start, things) for kind, gift in recipe.gives.items()}
            things = without(things, *recipe.ends) | gifts
        nodes.append(tuple(calls))
    return Profile(type, tuple(nodes))


def _flow(source: Source, start: tuple[int, int], things: Mapping[str, Flow]) -> Flow:
    """The flow of a source in the recipe whose first call is at `start`."""
    if isinstance(source, FromResult):
        return Flow("result", (start[0], start[1] + source.step))
    return things[source.kind] if isinstance(source, FromEarlierRecipe) else Flow("user")


def shape_of(profile: Profile) -> PlanShape:
    """The shape of a seed."""
    classes = tuple(Counter(node.group for node in turn) for turn in profile.turns)
    return PlanShape(profile.calls_per_turn, profile.depth, classes, profile.links)


def plan(
    catalogue: Catalogue,
    environment: Environment,
    goal: Profile | PlanShape,
    type: TaskType,
    *,
    seed: Task | None = None,
    limits: Gates | None = None,
    blocked: frozenset[str] = frozenset(),
    functions: Literal["other", "same"] = "other",
    usable: frozenset[str] | None = None,
    narrative: bool = True,
    fair: bool = True,
    tries: int = TRIES,
    rng: random.Random,
) -> Plan:
    """A plan of a given shape, or one that comes close to a given profile, as far as it shows
    before anything runs within the `limits` that a variant has to keep (None: however near): the
    cheapest of `tries` random fillings.

    `functions="other"` avoids the functions of `seed`, if there is one, as far as the shape allows
    and never repeats their multiset; "same" calls exactly the seed's functions, turn by turn.
    `blocked` names functions and recipes not to be used (Appendix F), `usable` the API classes to
    choose from (those of a given profile, else None: all); `fair` as in `deniable`. Raises
    ComposeError("no_pattern") when the search finds nothing."""
    groups = {name: tool.group for name, tool in environment.tools().items()}
    root = goal if isinstance(goal, Profile) else None
    shape = shape_of(goal) if isinstance(goal, Profile) else goal
    if root is not None:
        usable = frozenset(root.classes)
    wanted = [
        tuple(call.name for call in turn) for turn in (seed.calls if seed is not None else ())
    ]
    other = Counter(name for turn in wanted for name in turn)
    avoid = frozenset(other) - catalogue.common
    sample = partial(PlanSample, catalogue, groups, shape, type, avoid, rng, fair)
    if functions == "same":
        return sample().planned(sample().same(wanted, blocked), narrative)
    free = [
        recipe
        for name, recipe in catalogue.recipes.items()
        if blocked.isdisjoint((name, *recipe.tools))
    ]
    fit = [recipe for recipe in free if not (recipe.short and type == "long_context")]
    recipes = [
        recipe
        for recipe in fit
        if usable is None or all(groups[tool] in usable for tool in recipe.tools)
    ]
    fitting: list[tuple[float, int, list[Turn]]] = []
    deep: list[Recipe] = []
    start = Prefix()
    if not recipes or max(shape.counts) - 1 > most_calls(catalogue, recipes):
        tries = 0
    for number in range(LONGER * tries):
        if (
            len(fitting) >= ENOUGH
            if root is not None and number < tries
            else fitting and number >= tries
        ):
            break
        if number == tries:  # what was found so far was weighed otherwise
            start = Prefix()
        candidate = sample(prefix=start)
        # chance alone has not reached the depth, nor all edges: from now on it is sought
        if number >= tries:
            deep = [recipe for recipe in recipes if recipe.reach == shape.depth]
            candidate.seeks_depth = True
            candidate.spare = limits.profile_edges if limits is not None else 0
        if not candidate.fill(recipes, deep if number % 2 else ()):
            continue
        tools = Counter(
            tool for turn in candidate.turns for recipe in turn for tool in recipe.tools
        )
        if seed is not None and tools == other:
            continue
        cost = candidate.cost(tools)
        # a closer look: the cost knows classes and counts, the distance the whole graph
        if root is not None:
            seen = outline(candidate.turns, groups, type)
            if limits is not None and limits.profile and isomorphic(root, seen, limits):
                continue
            cost += NEAR * distance(root, seen) + EDGE * edges_apart(root.links, seen.links)
        fitting.append((cost, number, candidate.turns))
        if cost == 0 and root is None:
            break
    if not fitting:
        what = f"no recipes give {list(shape.counts)} calls a turn at depth {shape.depth}"
        if shape.classes is not None:
            turns = (
                ", ".join(f"{count} {name}" for name, count in sorted(turn.items()))
                for turn in shape.classes
            )
            what += f", by API class {' | '.join(turn or 'none' for turn in turns)}"
        raise ComposeError("no_pattern", what)
    return sample().planned(min(fitting)[2], narrative)
