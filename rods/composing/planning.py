"""Stage I: plans a call sequence with a given shape (004 §3.3), procedurally.

A *shape* is what a plan takes over from its seed: calls per turn, empty turns (in which no call is right), depth, and
the API classes. `plan` reads the shape off a profile and prefers recipes whose functions the seed does not use; it is
a random search over the catalogue's recipes for the lowest cost, and it refuses what misses turns or depth.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from rods.composing.catalogue import Catalogue, Got, Known, Recipe
from rods.composing.records import ComposeError, Plan, PlannedTurn
from rods.environments import load
from rods.profile import Profile
from rods.tasks import Task, TaskType

TRIES = 120  # candidate plans a search for a seed's shape
DRAWS = 60  # recipes drawn for a place, before it stays empty
DEEPER = 3.0  # how much likelier one is that comes closer to the wanted depth
JOIN = 2  # words that join a request to the next, and values longer than one word
TAKE_UP = 3.0  # how much likelier a recipe is that takes up a thing from before
OVERLAP, CLASS, COUNT, DEPTH, LINK = 3.0, 1.0, 0.6, 4.0, 0.7  # costs: a function of the seed's, a class apart, …


@dataclass(frozen=True, slots=True)
class Shape:
    """What a plan must look like. `counts[t]` calls in turn t, 0 where no call is right; `depth` calls on the longest
    path of results into arguments (None: any); `classes` calls per API class and turn (None: any); `links` results
    used across turns (None: any)."""

    counts: tuple[int, ...]
    depth: int | None = None
    classes: tuple[Mapping[str, int], ...] | None = None
    links: int | None = None


def shape_of(profile: Profile) -> Shape:
    """The shape of a seed."""
    classes = tuple(Counter(node.group for node in turn) for turn in profile.turns)
    links = sum(producer[0] < consumer[0] for producer, consumer, _ in profile.edges)
    return Shape(profile.calls_per_turn, profile.depth, classes, links)


def plan(
    catalogue: Catalogue,
    seed: Task,
    profile: Profile,
    *,
    blocked: frozenset[str],
    functions: Literal["other", "same"],
    narrative: bool,
    rng: random.Random,
) -> Plan:
    """A plan with the profile of `seed`: the same turns and depth, calls per turn within one.

    `functions="other"` avoids the seed's functions as far as the shape allows and never repeats their multiset; "same"
    calls exactly the seed's functions, turn by turn. `blocked` names functions and recipes not to be used (Appendix F).
    Raises ComposeError("no_pattern") when the search finds nothing.
    """
    wanted = [tuple(call.name for call in turn) for turn in seed.calls]
    if functions == "same":
        return _same(catalogue, seed.type, wanted, blocked, narrative, rng)
    shape = shape_of(profile)
    avoid = frozenset(name for turn in wanted for name in turn)
    multiset = Counter(name for turn in wanted for name in turn)
    return sketch(
        catalogue, shape, seed.type, blocked=blocked, avoid=avoid, other=multiset, narrative=narrative, rng=rng
    )


def sketch(
    catalogue: Catalogue,
    shape: Shape,
    type: TaskType,
    *,
    blocked: frozenset[str] = frozenset(),
    avoid: frozenset[str] = frozenset(),
    other: Counter[str] | None = None,
    usable: frozenset[str] | None = None,
    narrative: bool = True,
    tries: int = TRIES,
    rng: random.Random,
) -> Plan:
    """A plan of the given shape, without a seed. `avoid` are functions to keep away from, `other` a multiset of
    functions that must not come out again, `usable` the API classes to choose from (None: all), `tries` the candidates
    to look at (fewer when one costs nothing).

    Raises ComposeError("no_pattern") when the search finds nothing.
    """
    groups = _groups(catalogue.environment)
    recipes = [
        recipe
        for name, recipe in catalogue.recipes.items()
        if name not in blocked
        and not blocked.intersection(recipe.tools)
        and (usable is None or all(groups[tool] in usable for tool in recipe.tools))
    ]
    best: list[tuple[Recipe, ...]] | None = None
    lowest = float("inf")
    for _ in range(tries):
        candidate = _Candidate(catalogue, groups, shape, type, avoid, rng)
        if not candidate.fill(recipes):
            continue
        tools = Counter(tool for turn in candidate.turns for recipe in turn for tool in recipe.tools)
        if other is not None and tools == other:
            continue
        cost = candidate.cost(tools)
        if cost < lowest:
            best, lowest = candidate.turns, cost
            if cost == 0:
                break
    if best is None:
        raise ComposeError("no_pattern", f"no recipes give {list(shape.counts)} calls a turn at depth {shape.depth}")
    return _plan(catalogue, best, narrative, rng)


@dataclass(slots=True)
class _Candidate:
    """One random filling of a shape. Tracks which things are on the table, and at which depth they arose."""

    catalogue: Catalogue
    groups: Mapping[str, str]
    shape: Shape
    type: TaskType
    avoid: frozenset[str]
    rng: random.Random
    turns: list[tuple[Recipe, ...]] = field(default_factory=list)
    things: dict[str, tuple[int, int]] = field(default_factory=dict)  # kind → (depth, turn) of its giver
    used: set[str] = field(default_factory=set)
    depth: int = 0
    links: int = 0

    def fill(self, recipes: Sequence[Recipe]) -> bool:
        """Whether every turn could be filled, at the wanted depth."""
        shape = self.shape
        for turn, count in enumerate(shape.counts):
            if count == 0:
                self.turns.append(())
                continue
            blank = turn > 0 and shape.counts[turn - 1] == 0
            chosen = self._turn(recipes, turn, count, blank)
            if chosen is None:
                return False
            self.turns.append(chosen)
        return shape.depth is None or self.depth == shape.depth

    def _turn(self, recipes: Sequence[Recipe], turn: int, count: int, blank: bool) -> tuple[Recipe, ...] | None:
        before = frozenset(self.used)
        classes = Counter(self.shape.classes[turn]) if self.shape.classes is not None else None
        chosen: list[Recipe] = []
        room = count
        while room > 0:
            recipe = self._pick(recipes, room, chosen, classes)
            if recipe is None and not chosen:
                recipe = self._pick(recipes, room + 1, chosen, classes)
            if recipe is None:
                break
            chosen.append(recipe)
            self._note(recipe, turn)
            room -= len(recipe.steps)
            if classes is not None:
                classes -= Counter(self.groups[tool] for tool in recipe.tools)
        if room > 1 or not chosen:
            return None
        if len(chosen) > 1 and sum(recipe.words + JOIN for recipe in chosen) > self.catalogue.book.longest:
            return None
        if blank and not blurrable(self.catalogue, chosen, self.type, before):
            return None
        return tuple(chosen)

    def _pick(
        self, recipes: Sequence[Recipe], room: int, chosen: Sequence[Recipe], classes: Counter[str] | None
    ) -> Recipe | None:
        """A recipe of at most `room` calls, by weight: rejection sampling, which weighs only what it draws."""
        for _ in range(DRAWS):
            recipe = self.rng.choice(recipes)
            fits = len(recipe.steps) <= room and recipe not in chosen and recipe.needs <= self.things.keys()
            if fits and self.rng.random() * TAKE_UP < self._weight(recipe, classes):
                return recipe
        return None

    def _weight(self, recipe: Recipe, classes: Counter[str] | None) -> float:
        weight = TAKE_UP if recipe.needs else 1.0
        for tool in recipe.tools:
            if tool in self.avoid:
                weight *= 0.15
            if tool in self.used:
                weight *= 0.5
            if classes is not None and not classes[self.groups[tool]]:
                weight *= 0.2
        if self.shape.depth is not None:
            reach = max(depths(recipe, self.things), default=0)
            if reach > self.shape.depth:
                weight *= 0.02
            elif reach > max(self.depth, 1):
                weight *= DEEPER
        return min(weight, TAKE_UP)

    def _note(self, recipe: Recipe, turn: int) -> None:
        reached = depths(recipe, self.things)
        self.depth = max(self.depth, *reached)
        self.links += sum(self.things[kind][0] > 0 and self.things[kind][1] < turn for kind in recipe.needs)
        self.used.update(recipe.tools)
        for kind in recipe.ends:
            self.things.pop(kind, None)
        for kind, gift in recipe.gives.items():
            if isinstance(gift.value, Got):
                self.things[kind] = (reached[gift.value.step], turn)
            elif isinstance(gift.value, Known):
                self.things[kind] = self.things[gift.value.kind]
            else:
                self.things[kind] = (0, turn)

    def cost(self, tools: Counter[str]) -> float:
        shape = self.shape
        total = OVERLAP * sum(count for tool, count in tools.items() if tool in self.avoid)
        for turn, wanted in zip(self.turns, shape.counts, strict=True):
            total += COUNT * abs(sum(len(recipe.steps) for recipe in turn) - wanted)
        if shape.classes is not None:
            for turn, classes in zip(self.turns, shape.classes, strict=True):
                mine = Counter(self.groups[tool] for recipe in turn for tool in recipe.tools)
                total += CLASS * ((mine - Counter(classes)).total() + (Counter(classes) - mine).total()) / 2
        if shape.links is not None:
            total += LINK * abs(self.links - shape.links)
        return total


def blurrable(catalogue: Catalogue, chosen: Sequence[Recipe], type: TaskType, used: frozenset[str]) -> bool:
    """Whether a turn of these recipes can have its request made impossible first: for miss_func a tool that no earlier
    turn used, for miss_param a said value that the phrase book can blur."""
    if type == "miss_func":
        return any(tool not in used for recipe in chosen for tool in recipe.tools)
    if type == "miss_param":
        return any(
            catalogue.family(domain) in catalogue.book.vague for recipe in chosen for domain in recipe.says.values()
        )
    return False  # base and long_context have no turns without calls that we could write


def depths(recipe: Recipe, things: Mapping[str, tuple[int, int]]) -> list[int]:
    """The depth that each step reaches: 1 + the deepest call whose result feeds it. `things[kind][0]` is the depth of
    the call that a thing's value came from, 0 when the user said it."""
    reached: list[int] = []
    for step in recipe.steps:
        fed = [0]
        for source in step.arguments.values():
            if isinstance(source, Got):
                fed.append(reached[source.step])
            elif isinstance(source, Known):
                fed.append(things[source.kind][0])
        reached.append(1 + max(fed))
    return reached


def _same(
    catalogue: Catalogue,
    type: TaskType,
    wanted: Sequence[tuple[str, ...]],
    blocked: frozenset[str],
    narrative: bool,
    rng: random.Random,
) -> Plan:
    """Recipes whose tools are exactly the seed's, turn by turn and in order (an ablation, DESIGN §5.11)."""
    given: set[str] = set()
    turns: list[tuple[Recipe, ...]] = []
    used: set[str] = set()
    for turn, tools in enumerate(wanted):
        blank = turn > 0 and not wanted[turn - 1]
        ways = _decompositions(catalogue, tools, frozenset(given), blocked)
        if blank:
            ways = [way for way in ways if blurrable(catalogue, way, type, frozenset(used))]
        if not ways:
            raise ComposeError("no_pattern", f"no recipes call exactly {', '.join(tools)}", turn=turn)
        chosen = rng.choice(ways)
        for recipe in chosen:
            given = (given - set(recipe.ends)) | set(recipe.gives)
        used.update(tools)
        turns.append(chosen)
    return _plan(catalogue, turns, narrative, rng)


def _decompositions(
    catalogue: Catalogue, tools: tuple[str, ...], given: frozenset[str], blocked: frozenset[str], limit: int = 40
) -> list[tuple[Recipe, ...]]:
    """The ways, at most `limit`, to write `tools` as recipes one after the other."""
    if not tools:
        return [()]
    ways: list[tuple[Recipe, ...]] = []
    for name, recipe in catalogue.recipes.items():
        fits = tools[: len(recipe.steps)] == recipe.tools and recipe.needs <= given
        if not fits or name in blocked or blocked.intersection(recipe.tools):
            continue
        after = (given - set(recipe.ends)) | set(recipe.gives)
        for rest in _decompositions(catalogue, tools[len(recipe.steps) :], after, blocked, limit):
            if recipe not in rest:
                ways.append((recipe, *rest))
        if len(ways) >= limit:
            return ways[:limit]
    return ways


def _plan(catalogue: Catalogue, turns: Sequence[tuple[Recipe, ...]], narrative: bool, rng: random.Random) -> Plan:
    story: dict[str, str] = {}
    if narrative:
        story = {"story": rng.choice(catalogue.book.stories).name, **catalogue.topics(rng)}
    planned = tuple(
        PlannedTurn(tuple(recipe.name for recipe in turn), tuple(tool for recipe in turn for tool in recipe.tools))
        for turn in turns
    )
    return Plan(planned, story)


@lru_cache(maxsize=8)
def _groups(environment: str) -> Mapping[str, str]:
    return {name: tool.group for name, tool in load(environment).tools().items()}
