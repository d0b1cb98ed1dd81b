"""Stage I: functions for the places of a pattern, and the story (004 §3.3, Appendices C.1 and F).

The *pattern* says for every call of the root's shape which functions may stand there. Where the environment has recipes
(HIGH-LEVEL functions), a procedural sketch of the right shape is widened: each of its functions may be exchanged for
any other with as many calls of the same API classes, the same depth and flows, the same needs, and results on which
what follows can rely. So whatever a model picks is likely to fit together, and keeps what the gates hold it to. After a
`decompose_failed`, and where there are no recipes, the functions are single tools (BOTTOM-LEVEL;
`catalogue_free.linking`).

The model sees the schemas of what it may choose, what the root's user says (a story to keep away from), all failures so
far, the blocklist (nothing of which is offered), and guidance by type of error. Its choice is checked against the
pattern before anything runs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from daemon.authors.base import Assignment
from daemon.authors.catalogue_free import is_single_tool, linking
from daemon.authors.llm import showing
from daemon.authors.llm.asking import Context
from prompts import load
from rods.answers import AnswerForm, Unreadable
from rods.composing import planning
from rods.composing.catalogue import Catalogue, Recipe
from rods.composing.plan_search import Table, deniable
from rods.composing.records import ComposeError, Plan, PlannedTurn

CHOICES = 12  # functions offered for one place
SKETCHES = 16  # that are compared: a model chooses among what comes of it
NARRATIVE = {"type": "string", "minLength": 1, "maxLength": 400}
FAILURE = 1_000  # characters of a failure that is told
TOLD = 2_000  # characters of what the root's user says


@dataclass(frozen=True, slots=True)
class FunctionChoice:
    """One function to choose: which ones fit, and how many calls each of them makes."""

    options: tuple[str, ...]
    calls: int = 1


@dataclass(frozen=True, slots=True)
class Pattern:
    """The functions to choose in each turn; none where no call is right. `depth` is None where only the calls can show
    it."""

    turns: tuple[tuple[FunctionChoice, ...], ...]
    depth: int | None = None

    @property
    def offered(self) -> list[list[str]]:
        """The functions that are offered, turn by turn."""
        return [[name for place in turn for name in place.options] for turn in self.turns]

    @property
    def names(self) -> list[str]:
        """Every function that is offered somewhere, each once."""
        return list(dict.fromkeys(name for turn in self.turns for place in turn for name in place.options))


def _repeats(catalogue: Catalogue, given: Assignment, turns: Sequence[Sequence[str]]) -> str:
    """That functions call exactly the seed's tools; empty when they do not."""
    seed = Counter(call.name for calls in given.seed.calls for call in calls)
    called = Counter(tool for names in turns for name in names for tool in catalogue.recipes[name].tools)
    return "these are exactly the tools that the existing conversation calls" if called == seed else ""


async def plan(context: Context, given: Assignment, *, narrative: bool, functions: Literal["other", "same"]) -> Plan:
    """A plan of the pattern's functions. Raises ComposeError: `no_pattern`, `func_sample_failed` for functions that are
    not to be had, `decompose_failed` for one whose calls do not fit its place, `duplicate_func` for one that stands
    twice in a turn, `conversation_construct_failed` for a turn that needs a later one, or for single tools that cannot
    feed each other as in the root."""
    catalogue = context.catalogue
    wanted = await context.compute(lambda: pattern(catalogue, given, functions, given.rng("pattern")))
    choice = any(len(place.options) > 1 for places in wanted.turns for place in places)
    if functions == "other" and not choice and (why := _repeats(catalogue, given, wanted.offered)):
        raise ComposeError("no_pattern", f"{why}, and no other functions fit its places")
    fields: dict[str, Any] = {"narrative": NARRATIVE} if narrative else {}
    fields |= {f"turn_{number}": _names_schema(places) for number, places in enumerate(wanted.turns, 1) if places}

    def read(answer: dict[str, Any]) -> Plan:
        chosen = [_listed(answer, number) if places else [] for number, places in enumerate(wanted.turns, 1)]
        _Check(catalogue, given, wanted, chosen).run(functions)
        turns = tuple(
            PlannedTurn(tuple(names), tuple(tool for name in names for tool in catalogue.recipes[name].tools))
            for names in chosen
        )
        return Plan(turns, {"story": answer["narrative"].strip()} if narrative else {})

    async def check(made: Plan) -> None:
        if fault := await context.compute(lambda: linking.unfed(catalogue, given, made)):
            raise Unreadable(fault, error="conversation_construct_failed")

    told, tools = load("guidance").sections, given.environment.tools()
    called = {tool for name in wanted.names for tool in catalogue.recipes[name].tools}
    failed = dict.fromkeys(error.type for error in reversed(given.failures))  # each once, the newest first
    return await context.asker.ask(
        given,
        "planner",
        stage="plan",
        fields={
            "functions": "\n".join(showing.purpose(catalogue, name) for name in wanted.names),
            "schemas": showing.schemas(tools[name] for name in sorted(called)),
            "pattern": "\n".join(_turn_line(number, places) for number, places in enumerate(wanted.turns, 1))
            + _links(given, wanted),
            "tools": ", ".join(given.profile.tools),
            "root": showing.excerpt("\n".join(given.root.script), TOLD),
            "failures": "\n".join(map(_failure_line, given.failures)),
            "blocked": ", ".join(sorted(given.blocked)) or "(none)",
            "guidance": " ".join(told[type] for type in failed if type in told),
        },
        sections=[
            *(["story", "root"] if narrative else []),
            *(["avoid"] if functions == "other" and choice else []),
            *(["learn"] if given.failures else []),
        ],
        form=AnswerForm(fields, guiding=frozenset(fields) - {"narrative"}),
        read=read,
        check=check if wanted.depth is None else None,
        error="func_sample_failed",
    )


def pattern(catalogue: Catalogue, given: Assignment, functions: str, rng: random.Random) -> Pattern:
    """The pattern for one plan. `functions` is `other` (rather not the seed's) or `same` (just the seed's).

    Raises ComposeError("no_pattern") when no function is left for some place.
    """
    own = {name: recipe for name, recipe in catalogue.recipes.items() if not is_single_tool(recipe)}
    if own and not any(error.type == "decompose_failed" for error in given.failures):
        return _from_recipes(catalogue, own, given, functions, rng)
    turns = linking.tool_options(catalogue, given, functions, rng, CHOICES)
    return Pattern(tuple(tuple(FunctionChoice(tuple(options)) for options in places) for places in turns))


def _from_recipes(
    catalogue: Catalogue, own: Mapping[str, Recipe], given: Assignment, functions: str, rng: random.Random
) -> Pattern:
    sketch = partial(
        planning.plan,
        replace(catalogue, recipes=own),
        given.environment,
        given.seed,
        given.profile,
        limits=given.limits,
        blocked=given.blocked,
        functions="same" if functions == "same" else "other",
        narrative=False,
        rng=rng,
    )
    try:
        sketched = sketch(tries=SKETCHES)
    except ComposeError:  # a rare shape: look for long
        sketched = sketch()
    tools = given.environment.tools()
    seeds = {call.name for calls in given.seed.calls for call in calls}
    avoided = seeds - catalogue.common
    chosen = [[own[name] for name in turn.recipes] for turn in sketched.turns]
    flat = [recipe for turn in chosen for recipe in turn]
    table = Table()
    turns = []
    number = 0
    for turn, recipes in enumerate(chosen):
        places = []
        before = frozenset(table.used)
        again = turn > 0 and not chosen[turn - 1]  # the turn before asks for the same and cannot be served
        for recipe in recipes:
            lacking = again and deniable(catalogue, (recipe,), given.seed.type, before)
            needed = frozenset[str]().union(
                *(later.needs.union(later.when, later.unless) for later in flat[number + 1 :])
            )
            options = [
                other.name
                for other in own.values()
                if other is not recipe
                and other not in recipes
                and _exchangeable(recipe, other, table, turn, needed)
                and not given.blocked.intersection((other.name, *other.tools))
                and not (other.short and given.seed.type == "long_context")
                and (not lacking or deniable(catalogue, (other,), given.seed.type, before))
                and Counter(tools[name].group for name in other.tools)
                == Counter(tools[name].group for name in recipe.tools)
                and (other.tools == recipe.tools if functions == "same" else not avoided.intersection(other.tools))
            ]
            rng.shuffle(options)
            options = [recipe.name, *options[: CHOICES - 1]]
            rng.shuffle(options)
            places.append(FunctionChoice(tuple(options), len(recipe.steps)))
            table.add(recipe, turn)
            number += 1
        turns.append(tuple(places))
    return Pattern(tuple(turns), given.profile.depth)


def _exchangeable(recipe: Recipe, other: Recipe, table: Table, turn: int, needed: frozenset[str]) -> bool:
    """Whether `other` may stand for `recipe` on this table, where it matters to later functions that the things and
    facts `needed` are there, or are not: as many calls, as deep, fed by the same turns, no more needs of its own, and
    it leaves the same of what is needed."""
    return (
        len(other.steps) == len(recipe.steps)
        and other.needs == recipe.needs
        and set(other.when) <= set(recipe.when)
        and other.fits(table.things.keys())
        and _left(recipe, table, turn, needed) == _left(other, table, turn, needed)
    )


def _left(recipe: Recipe, table: Table, turn: int, needed: frozenset[str]) -> tuple[object, ...]:
    """The depth that a recipe reaches on this table, the edges so far, and the depth and turn of the needed things
    which are there afterwards."""
    after = replace(table.copy(), depth=0)
    after.add(recipe, turn)
    left = {kind: (depth, origin[0]) for kind, (depth, origin) in after.things.items() if kind in needed}
    return after.depth, after.edges, left


@dataclass(frozen=True, slots=True)
class _Check:
    """Whether chosen functions fit their places and each other. Every method raises Unreadable where they do not."""

    catalogue: Catalogue
    given: Assignment
    wanted: Pattern
    chosen: Sequence[Sequence[str]]

    def run(self, functions: str) -> None:
        table, depth = Table(), self.wanted.depth
        for turn, (places, names) in enumerate(zip(self.wanted.turns, self.chosen, strict=True)):
            if len(names) != len(places):
                raise Unreadable(f"turn {turn + 1} has {len(places)} places, not {len(names)}")
            for place, name in zip(places, names, strict=True):
                recipe = self._offered(place, name, turn)
                if names.count(name) > 1 and (depth is not None or not recipe.says):  # nothing would differ
                    raise Unreadable(f"turn {turn + 1} asks for {name} twice", error="duplicate_func")
                if missing := (recipe.needs.union(recipe.when)) - table.things.keys():
                    self._nothing_gives(missing, recipe, turn)
                table.add(recipe, turn)
            if turn and names and not self.wanted.turns[turn - 1]:
                self._deniable(turn)
        if depth is not None and table.depth != depth:
            raise Unreadable(f"results feed calls over {table.depth} steps, it must be {depth}")
        if functions == "other" and (why := _repeats(self.catalogue, self.given, self.chosen)):
            raise Unreadable(f"{why}: take another function where a place leaves a choice")

    def _tools(self, turns: Sequence[Sequence[str]]) -> list[str]:
        return [tool for names in turns for name in names for tool in self.catalogue.recipes[name].tools]

    def _deniable(self, turn: int) -> None:
        """What turn `turn` does can be asked for in the turn before, where it cannot be served."""
        before = set(self._tools(self.chosen[:turn]))
        given: set[str] = set()
        for recipe in map(self.catalogue.recipes.__getitem__, self.chosen[turn]):
            if self.given.seed.type == "miss_func" and before.issuperset(recipe.tools) and not given & recipe.needs:
                raise Unreadable(f"turn {turn + 1}: {recipe.name} calls only tools that earlier turns call")
            given.update(recipe.gives)
        says = any(self.catalogue.recipes[name].says for name in self.chosen[turn])
        if self.given.seed.type == "miss_param" and not says:
            raise Unreadable(f"turn {turn + 1} must need a value that only the user can say")

    def _offered(self, place: FunctionChoice, name: str, turn: int) -> Recipe:
        if name in place.options:
            return self.catalogue.recipes[name]
        where = f"turn {turn + 1}: {name!r}"
        recipe = self.catalogue.recipes.get(name)
        if recipe is None:
            raise Unreadable(f"{where} is no function")
        if self.given.blocked.intersection((name, *recipe.tools)):
            raise Unreadable(f"{where} is blocked")
        if len(recipe.steps) != place.calls:
            calls = f"{where} comes down to the {len(recipe.steps)} calls {', '.join(recipe.tools)}"
            raise Unreadable(f"{calls}; there is room for {place.calls}", error="decompose_failed")
        raise Unreadable(f"{where} is not among those offered there: {', '.join(place.options)}")

    def _nothing_gives(self, missing: frozenset[str], recipe: Recipe, turn: int) -> None:
        later = [
            other.name
            for names in self.chosen[turn + 1 :]
            for other in map(self.catalogue.recipes.get, names)
            if other is not None and missing.intersection((*other.gives, *other.makes))
        ]
        what = f"turn {turn + 1}: {recipe.name} needs {', '.join(sorted(missing))}"
        if later:
            raise Unreadable(f"{what}, which only the later {later[0]} gives", error="conversation_construct_failed")
        raise Unreadable(f"{what}, which nothing before it gives")


def _listed(answer: Mapping[str, Any], number: int) -> list[str]:
    names = answer[f"turn_{number}"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Unreadable(f"turn_{number} must be a list of names")
    return names


def _names_schema(places: tuple[FunctionChoice, ...]) -> Mapping[str, Any]:
    return {
        "type": "array",
        "prefixItems": [{"type": "string", "enum": list(place.options)} for place in places],
        "minItems": len(places),
        "maxItems": len(places),
    }


def _turn_line(number: int, places: tuple[FunctionChoice, ...]) -> str:
    if not places:
        return f"turn {number}: no places (the user asks in vain here for what the next turn does)"
    return f"turn {number}: " + showing.compact([list(place.options) for place in places])


def _links(given: Assignment, wanted: Pattern) -> str:
    """What must be kept of the root's flows: which turns use what others return, or which places, where the functions
    do not bring that with them."""
    if not given.profile.edges:
        return ""
    if wanted.depth is not None:
        uses = [
            f"turn {later + 1} uses what {'an earlier call of its own' if turn == later else f'turn {turn + 1}'} finds"
            for turn, later in sorted(given.profile.links)
        ]
        return f"\nKeep to this, whichever functions you choose: {'; '.join(uses)}."
    fed = {
        f"place {consumer[1] + 1} of turn {consumer[0] + 1} from place {producer[1] + 1} of turn {producer[0] + 1}"
        for producer, consumer, _ in given.profile.edges
    }
    return f"\nWhat a call returns must be of use as an argument later: {'; '.join(sorted(fed))}."


def _failure_line(error: ComposeError) -> str:
    where = "" if error.turn is None else f" in turn {error.turn + 1}"
    about = "" if error.function is None else f" with {error.function}"
    return f"- {error.type}{where}{about}: {error.detail[:FAILURE]}"
