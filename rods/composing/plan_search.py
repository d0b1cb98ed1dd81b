"""The search behind planning: random fillings of a shape with recipes (`PlanSample`), and what they
cost.

`Table` keeps what a sequence of recipes gives: which things, from which call their values come and
at which depth, and which calls feed which. It predicts, before anything runs, what
`rods.analysis.profile` infers afterwards. Fillings of a shape begin alike again and again, so all
of a plan share a tree of these tables (`Prefix`): what a sequence gives, and what may follow it
with which weight, is found once."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

from rods.analysis.profile import Position, edges_apart
from rods.canonical import Texts, frozen
from rods.composing.catalogue import Catalogue, FromEarlierRecipe, FromResult, Recipe
from rods.composing.records import ComposeError, Plan, PlannedTurn
from rods.tasks import TaskType

SAME_TRIES = 40  # random decompositions of a seed's functions
WAYS = 40  # decompositions of one turn
DRAWS = 60  # recipes drawn for a place, before it stays empty
AGAIN = 6  # fillings of a turn whose edges are not the wanted ones, before the whole is given up
TAKE_UP = 3.0  # how much likelier a recipe is that takes up a thing from before
DEEPER = 3.0  # how much likelier one is that comes closer to the wanted depth
# how much likelier what should rather not be chosen is
AVOIDED = 0.15
REPEATED = 0.5
FOREIGN = 0.2
TOO_DEEP = 0.02
SHALLOW = 0.2  # the same for what brings no depth, once chance alone has not found enough of it
# the same for each edge that is wanted, or is not
WIRED = 20.0
MISWIRED = 0.02
GIVING = 6.0  # the same for what leaves a result behind, where a later turn is to take one up
# costs: a function to avoid, a call more or less, a class apart
OVERLAP = 3.0
COUNT = 0.6
CLASS = 1.0
JOIN = 2  # words that join a request to the next, and values longer than one word

Turn = tuple[Recipe, ...]
Recipes = Sequence[Recipe]


@frozen
class PlanShape:
    """What a plan must look like. `counts[t]` calls in turn t, 0 where no call is right; `depth`
    calls on the longest path of results into arguments (None: any); `classes` calls per API class
    and turn (None: any); `edges` calls that feed another, by the turns of both (None: any)."""

    counts: tuple[int, ...]
    depth: int | None = None
    classes: tuple[Mapping[str, int], ...] | None = None
    edges: Counter[tuple[int, int]] | None = None


@dataclass(slots=True)
class Table:
    """What a sequence of recipes has given so far. `things[kind]` is (depth, position) of the call
    that the thing's value came from; depth 0 when the user said it; facts stand among them. `edges`
    are the calls that feed another, by turns, `sizes` the calls of each turn."""

    things: dict[str, tuple[int, Position]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    depth: int = 0
    edges: Counter[tuple[int, int]] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)

    def copy(self) -> "Table":
        return Table(
            dict(self.things), set(self.used), self.depth, Counter(self.edges), Counter(self.sizes)
        )

    def depths(self, recipe: Recipe) -> Sequence[int]:
        """The depth that each step would reach: 1 + the deepest call whose result feeds it."""
        if not recipe.needs:
            return recipe.depths
        return recipe.depths_over({kind: self.things[kind][0] for kind in recipe.needs})

    def feeding(self, recipe: Recipe, turn: int) -> Mapping[int, int]:
        """How many calls of which turn would feed the recipe's calls in `turn`."""
        calls = {turn: recipe.inside} if recipe.inside else {}
        for step in recipe.steps if recipe.needs else ():
            for origin, _ in {
                self.things[kind][1] for kind in step.takes_up if self.things[kind][0]
            }:
                calls[origin] = calls.get(origin, 0) + 1
        return calls

    def add(self, recipe: Recipe, turn: int) -> None:
        reached = self.depths(recipe)
        self.depth = max(self.depth, *reached)
        self.edges.update({(fed, turn): count for fed, count in self.feeding(recipe, turn).items()})
        self.used.update(recipe.tools)
        start = self.sizes[turn]
        self.sizes[turn] += len(recipe.steps)
        things: dict[str, tuple[int, Position]] = {}
        for kind, gift in recipe.gives.items():
            if isinstance(gift.value, FromResult):
                things[kind] = (reached[gift.value.step], (turn, start + gift.value.step))
            elif isinstance(gift.value, FromEarlierRecipe):
                things[kind] = self.things[gift.value.kind]
            else:
                things[kind] = (0, (turn, start))
        for kind in recipe.ends:
            self.things.pop(kind, None)
        self.things |= things
        for fact in recipe.makes:
            self.things[fact] = (0, (turn, start))

    def holds(self, turn: int) -> bool:
        """Whether a result of `turn` is still there to be taken up."""
        return any(depth and origin[0] == turn for depth, origin in self.things.values())


@dataclass(slots=True, eq=False)
class Prefix:
    """The recipes that fillings of one shape began with, by turns, and what is known behind them:
    `weighed` has by turn and room the recipes that may come, with their weights added up, `wired`
    what `PlanSample.wired` said by turn."""

    table: Table = field(default_factory=Table)
    after: dict[tuple[int, Recipe], "Prefix"] = field(default_factory=dict)
    weighed: dict[tuple[int, int], tuple[Recipes, Sequence[float]]] = field(default_factory=dict)
    wired: dict[int, bool] = field(default_factory=dict)

    def then(self, recipe: Recipe, turn: int) -> "Prefix":
        """The sequence with `recipe` in `turn` behind it."""
        if (prefix := self.after.get((turn, recipe))) is None:
            prefix = self.after[turn, recipe] = Prefix(self.table.copy())
            prefix.table.add(recipe, turn)
        return prefix


@dataclass(slots=True)
class PlanSample:
    """One random filling of a shape, behind `prefix`, which fillings share that differ in chance
    alone. `avoid` are functions to keep away from; `fair` as in `deniable`."""

    catalogue: Catalogue
    groups: Mapping[str, str]  # the API class of each tool
    shape: PlanShape
    type: TaskType
    avoid: frozenset[str]
    rng: Random
    fair: bool = True
    turns: list[Turn] = field(default_factory=list)
    prefix: Prefix = field(default_factory=Prefix)
    seeks_depth: bool = False  # weighs down recipes that bring none
    spare: int = 0  # edges by which it may miss those of the shape
    first: tuple[int, Recipe] | None = None  # a turn, and the recipe that it begins with if it can

    def fill(self, recipes: Recipes, deep: Recipes = ()) -> bool:
        """Whether every turn could be filled, at the wanted depth and with the wanted edges. A turn
        drawn at random begins with one of the `deep` recipes, if there are any."""
        counts = self.shape.counts
        places = [
            (turn, recipe)
            for recipe in deep
            for turn, count in enumerate(counts)
            if count >= len(recipe.steps)
        ]
        if places:
            self.first = self.rng.choice(places)
        for turn, count in enumerate(counts):
            before = self.prefix
            for _ in range(1 if self.shape.edges is None else AGAIN):
                self.prefix = before
                after_blank = turn > 0 and counts[turn - 1] == 0
                chosen = self._turn(recipes, turn, count, after_blank=after_blank) if count else ()
                if chosen is not None and self.wired(turn):
                    self.turns.append(chosen)
                    break
            else:
                return False
        return self.shape.depth in (None, self.table.depth)

    @property
    def table(self) -> Table:
        """What was chosen so far gives."""
        return self.prefix.table

    def wired(self, turn: int) -> bool:
        """Whether the edges so far are the wanted ones, but for `spare`, and what later turns take
        up is there."""
        if self.shape.edges is None:
            return True
        if turn in self.prefix.wired:
            return self.prefix.wired[turn]
        due = Counter({edge: count for edge, count in self.shape.edges.items() if edge[1] <= turn})
        owed = Counter(edge[0] for edge in self.shape.edges.elements() if edge[0] <= turn < edge[1])
        lost = sum(count for origin, count in owed.items() if not self.table.holds(origin))
        wired = edges_apart(due, self.table.edges) + lost <= self.spare
        self.prefix.wired[turn] = wired
        return wired

    def _turn(self, recipes: Recipes, turn: int, count: int, *, after_blank: bool) -> Turn | None:
        before = frozenset(self.table.used) if after_blank else frozenset()
        chosen: list[Recipe] = []
        room = count
        while room > 0:
            begins = (
                None if chosen or self.first is None or self.first[0] != turn else self.first[1]
            )
            begun = begins is not None and begins.fits(self.table.things.keys())
            recipe = begins if begun else self._pick(recipes, turn, room, chosen)
            if recipe is None and not chosen:
                recipe = self._pick(recipes, turn, room + 1, chosen)
            if recipe is None:
                break
            chosen.append(recipe)
            self.prefix = self.prefix.then(recipe, turn)
            room -= len(recipe.steps)
        if room > 1 or not chosen:  # a turn may have one call less or more than wanted
            return None
        if (
            len(chosen) > 1
            and sum(recipe.words + JOIN for recipe in chosen) > self.catalogue.book.longest
        ):
            return None
        fits = not after_blank or deniable(
            self.catalogue, chosen, self.type, before, fair=self.fair
        )
        return tuple(chosen) if fits else None

    def _pick(self, recipes: Recipes, turn: int, room: int, chosen: Recipes) -> Recipe | None:
        """A recipe of at most `room` calls, by weight. Where edges are wanted few recipes will do,
        so all are weighed; otherwise by rejection sampling, which weighs only what it draws."""
        choice = self.rng.choice
        chance = self.rng.random
        at_hand = self.table.things.keys()
        if self.shape.edges is not None:
            if (weighed := self.prefix.weighed.get((turn, room))) is None:
                weighed = self.prefix.weighed[turn, room] = self._weighed(
                    recipes, turn, room, chosen
                )
            fitting, sums = weighed
            return self.rng.choices(fitting, cum_weights=sums)[0] if fitting else None
        classes = self._classes(turn, chosen)
        for _ in range(DRAWS):
            recipe = choice(recipes)
            if len(recipe.steps) > room or recipe in chosen or not recipe.fits(at_hand):
                continue
            drawn = chance() * TAKE_UP
            # a weight is at most this, and most draws fail it already
            plain = not recipe.needs and (
                self.shape.depth is None or recipe.reach <= max(self.table.depth, 1)
            )
            if drawn < (1.0 if plain else TAKE_UP) and drawn < self._weight(recipe, classes):
                return recipe
        return None

    def _weighed(
        self, recipes: Recipes, turn: int, room: int, chosen: Recipes
    ) -> tuple[Recipes, Sequence[float]]:
        """The recipes of at most `room` calls that fit, and their weights added up; none where all
        weigh nothing."""
        at_hand = self.table.things.keys()
        classes = self._classes(turn, chosen)
        short = [recipe for recipe in recipes if len(recipe.steps) <= room and recipe not in chosen]
        fitting = [recipe for recipe in short if recipe.fits(at_hand)]
        wired = self._wiring(fitting, turn)
        weights = [
            likelier and likelier * self._weight(recipe, classes) for recipe, likelier in wired
        ]
        return (fitting, list(accumulate(weights))) if any(weights) else ((), ())

    def _classes(self, turn: int, chosen: Recipes) -> Counter[str] | None:
        """The calls by API class that `turn` lacks behind those `chosen`; None where any will
        do."""
        if self.shape.classes is None:
            return None
        return Counter(self.shape.classes[turn]) - Counter(
            self.groups[tool] for each in chosen for tool in each.tools
        )

    def _wiring(self, recipes: Recipes, turn: int) -> Iterator[tuple[Recipe, float]]:
        """Each recipe, and how much likelier it is for the edges that it brings or prepares; 0 with
        too many others."""
        wanted = self.shape.edges or Counter()
        table = self.table
        missing = {a: count - table.edges[a, b] for (a, b), count in wanted.items() if b == turn}
        owed = any(a == turn < b for a, b in wanted) and not table.holds(turn)
        for recipe in recipes:
            good = extra = 0
            for origin, count in table.feeding(recipe, turn).items():
                met = min(count, max(missing.get(origin, 0), 0))
                good = good + met
                extra = extra + count - met
            weight = float(WIRED**good * MISWIRED**extra) if extra <= self.spare else 0.0
            yield recipe, weight * GIVING if owed and recipe.gives_results else weight

    def _weight(self, recipe: Recipe, classes: Counter[str] | None) -> float:
        table = self.table
        weight = TAKE_UP if recipe.needs else 1.0
        for turn in self.turns:
            if recipe in turn:
                weight *= self.catalogue.repeated
                break
        for tool in recipe.tools:
            if tool in self.avoid:
                weight *= AVOIDED
            if tool in table.used:
                weight *= REPEATED
            if classes is not None and not classes[self.groups[tool]]:
                weight *= FOREIGN
        if self.shape.depth is not None:
            reach = max(table.depths(recipe), default=0) if recipe.needs else recipe.reach
            if reach > self.shape.depth:
                weight *= TOO_DEEP
            elif reach > max(table.depth, 1):
                weight *= DEEPER
            elif self.seeks_depth and reach <= table.depth < self.shape.depth:
                weight *= SHALLOW
        return weight

    def cost(self, tools: Counter[str]) -> float:
        """How far the filling is from what was wanted; 0 is as good as it gets. `tools` counts its
        functions."""
        shape = self.shape
        total = OVERLAP * sum(count for tool, count in tools.items() if tool in self.avoid)
        for turn, wanted in zip(self.turns, shape.counts, strict=True):
            total += COUNT * abs(sum(len(recipe.steps) for recipe in turn) - wanted)
        for turn, classes in zip(self.turns, shape.classes or (), strict=shape.classes is not None):
            own = Counter(self.groups[tool] for recipe in turn for tool in recipe.tools)
            total += (
                CLASS * ((own - Counter(classes)).total() + (Counter(classes) - own).total()) / 2
            )
        return total

    def same(self, wanted: Sequence[Texts], blocked: frozenset[str]) -> list[Turn]:
        """Recipes with exactly the `wanted` tools, in order, at the shape's depth as near its edges
        as may be."""
        fitting: list[tuple[int, int, list[Turn]]] = []
        for number in range(SAME_TRIES):
            table = Table()
            turns: list[Turn] = []
            for turn, tools in enumerate(wanted):
                ways = self._decompositions(tools, frozenset(table.things), blocked)
                if turn and not wanted[turn - 1]:
                    ways = [
                        way
                        for way in ways
                        if deniable(self.catalogue, way, self.type, frozenset(table.used))
                    ]
                if not ways:
                    break
                turns.append(self.rng.choice(ways))
                for recipe in turns[-1]:
                    table.add(recipe, turn)
            if len(turns) == len(wanted) and table.depth == self.shape.depth:
                fitting.append(
                    (edges_apart(table.edges, self.shape.edges or Counter()), number, turns)
                )
                if not fitting[-1][0]:
                    break
        if not fitting:
            raise ComposeError(
                "no_pattern", "no recipes call exactly the functions of the seed at its depth"
            )
        return min(fitting)[2]

    def _decompositions(
        self, tools: Texts, at_hand: frozenset[str], blocked: frozenset[str]
    ) -> list[Turn]:
        """The ways, at most `WAYS`, to write `tools` as recipes one after the other; `at_hand`
        are the things that there are."""
        if not tools:
            return [()]
        ways: list[Turn] = []
        for name, recipe in self.catalogue.recipes.items():
            fits = tools[: len(recipe.steps)] == recipe.tools and recipe.fits(at_hand)
            if not fits or name in blocked or blocked.intersection(recipe.tools):
                continue
            after = (at_hand - set(recipe.ends)) | set(recipe.gives) | set(recipe.makes)
            rests = self._decompositions(tools[len(recipe.steps) :], after, blocked)
            ways += [(recipe, *rest) for rest in rests if recipe not in rest]
            if len(ways) >= WAYS:
                break
        return ways[:WAYS]

    def planned(self, turns: Sequence[Turn], narrative: bool) -> Plan:
        """The plan of these recipes, with a story of the phrase book if there is to be one."""
        story: dict[str, str] = {}
        if narrative:
            used = {self.groups[tool] for turn in turns for recipe in turn for tool in recipe.tools}
            stories = [
                story
                for story in self.catalogue.book.stories
                if not story.groups or used & story.groups
            ]
            story = {"story": self.rng.choice(stories).name, **self.catalogue.topics(self.rng)}
        named = ((tuple(recipe.name for recipe in turn), turn) for turn in turns)
        planned = (
            PlannedTurn(names, tuple(tool for recipe in turn for tool in recipe.tools))
            for names, turn in named
        )
        return Plan(tuple(planned), story)


def most_calls(catalogue: Catalogue, recipes: Recipes) -> float:
    """More calls than this no turn can have: its request would grow too long."""
    densest = max((len(recipe.steps) / (recipe.words + JOIN) for recipe in recipes), default=0.0)
    return max(catalogue.book.longest * densest, *(len(recipe.steps) for recipe in recipes), 0)


def deniable(
    catalogue: Catalogue,
    chosen: Recipes,
    type: TaskType,
    used: frozenset[str],
    *,
    fair: bool = True,
) -> bool:
    """Whether a turn without calls can precede a turn of these recipes: for miss_func it calls a
    tool that no earlier turn `used` and that is not `known`, for miss_param the user says a value
    that the phrase book can blur. Where nothing of the turn may be possible before (`fair`), each
    recipe has such a tool or takes up what another one of the turn gives, and such a value belongs
    to the first. Other types have no such turns."""
    if type == "miss_func":
        needed = used | catalogue.known
        new = [not needed.issuperset(recipe.tools) for recipe in chosen]
        if not fair:
            return any(new)
        things: set[str] = set()
        for own, recipe in zip(new, chosen, strict=True):
            if not own and recipe.needs.isdisjoint(things):
                return False
            things.update(recipe.gives)
        return True
    if type == "miss_param":
        vague = catalogue.book.vague
        recipes = chosen[:1] if fair else chosen
        return any(
            catalogue.family(domain) in vague
            for recipe in recipes
            for domain in recipe.user_slots.values()
        )
    return False
