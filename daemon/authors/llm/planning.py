"""Stage I by a model: functions for the places of a pattern, and the story (004 §3.3, Appendices C.1 and F).

The model sees the failures so far, the blocklist through what is offered, and guidance by type of error. What it writes
is checked against the pattern and walked through before anything runs: things that nobody gave, other depth than the
root's, the very tools of the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from daemon.authors.base import Assignment
from daemon.authors.catalogue_free.plain import is_plain
from daemon.authors.llm.answers import Form, Unreadable
from daemon.authors.llm.asking import Asker
from daemon.authors.llm.computing import Compute
from daemon.authors.llm.linking import unfed
from daemon.authors.llm.pattern import Pattern, Place, pattern, repeats
from daemon.authors.llm.showing import compact
from prompts import load
from rods.composing.catalogue import Catalogue, Recipe
from rods.composing.plan_search import Table
from rods.composing.records import ComposeError, Plan, PlannedTurn

NARRATIVE = {"type": "string", "minLength": 1, "maxLength": 400}
REMEMBERED = 6  # failures that are told
SHORT = 160  # characters of each


class Planner:
    """Raises ComposeError: `no_pattern`, `no_prompts` (through `check`), `func_sample_failed` for functions that are
    not to be had, `decompose_failed` for one whose calls do not fit its place, `duplicate_func` for one that stands
    twice in a turn, `conversation_construct_failed` for a turn that stands on a later one."""

    def __init__(
        self, catalogue: Catalogue, asker: Asker, compute: Compute, check: Callable[[Assignment], None]
    ) -> None:
        self.catalogue, self.asker, self.compute, self.check = catalogue, asker, compute, check

    async def plan(self, given: Assignment, *, narrative: bool, functions: Literal["other", "same"]) -> Plan:
        self.check(given)
        wanted = await self.compute(lambda: pattern(self.catalogue, given, functions, given.rng("pattern")))
        numbered = {number: places for number, places in enumerate(wanted.turns, start=1) if places}
        fields: dict[str, Any] = {"narrative": NARRATIVE} if narrative else {}
        fields |= {f"turn_{number}": _names(places) for number, places in numbered.items()}

        def read(answer: dict[str, Any]) -> Plan:
            chosen = [_listed(answer, number) if places else [] for number, places in enumerate(wanted.turns, 1)]
            self._walk(given, wanted, chosen, functions)
            turns = tuple(
                PlannedTurn(tuple(names), tuple(tool for name in names for tool in self.catalogue.recipes[name].tools))
                for names in chosen
            )
            return Plan(turns, {"story": answer["narrative"].strip()} if narrative else {})

        others = functions == "other"
        sections = [
            *(["story"] if narrative else []),
            *(["avoid"] if others else []),
            *(["learn"] if given.failures else []),
        ]
        return await self.asker.ask(
            given,
            "planner",
            stage="plan",
            fields={
                "functions": "\n".join(self._line(given, name) for name in wanted.names),
                "pattern": "\n".join(_turn(number, places) for number, places in enumerate(wanted.turns, 1))
                + _links(given, wanted),
                "tools": ", ".join(given.profile.tools),
                "failures": "\n".join(map(_failure, given.failures[-REMEMBERED:])),
                "guidance": self._guidance(given),
            },
            sections=sections,
            form=Form(fields, guiding=frozenset(fields) - {"narrative"}),
            read=read,
            check=partial(self._feeds, given) if wanted.depth is None else None,
            error="func_sample_failed",
            max_tokens=1024,
        )

    async def _feeds(self, given: Assignment, plan: Plan) -> None:
        """Raises Unreadable for single tools that cannot feed each other as in the root."""
        if fault := await self.compute(lambda: unfed(self.catalogue, given, plan)):
            raise Unreadable(fault, error="conversation_construct_failed")

    def _guidance(self, given: Assignment) -> str:
        """What the types of error so far teach, each once, the newest first."""
        told = load("guidance").sections
        types = dict.fromkeys(error.type for error in reversed(given.failures))
        return " ".join(told[type] for type in types if type in told)

    def _line(self, given: Assignment, name: str) -> str:
        recipe, tools = self.catalogue.recipes[name], given.environment.tools()
        if is_plain(recipe):
            return f"{name}: {recipe.phrases[0]} [{tools[name].signature()}]"
        return f"{name}: {recipe.phrases[0]} [{', '.join(recipe.tools)}]"

    def _walk(self, given: Assignment, wanted: Pattern, chosen: list[list[str]], functions: str) -> None:
        """Whether the chosen functions fit their places and each other. Raises Unreadable."""
        table = Table()
        for turn, (places, names) in enumerate(zip(wanted.turns, chosen, strict=True)):
            if len(names) != len(places):
                raise Unreadable(f"turn {turn + 1} has {len(places)} places, not {len(names)}")
            for place, name in zip(places, names, strict=True):
                recipe = self._recipe(given, place, name, turn)
                if names.count(name) > 1 and (wanted.depth is not None or not recipe.says):  # nothing would differ
                    raise Unreadable(f"turn {turn + 1} asks for {name} twice", error="duplicate_func")
                if missing := (recipe.needs.union(recipe.when)) - table.things.keys():
                    self._missing(chosen, turn, recipe, missing)
                table.add(recipe, turn)
            if turn and names and not wanted.turns[turn - 1]:
                self._deniable(given, chosen, turn)
        if wanted.depth is not None and table.depth != wanted.depth:
            raise Unreadable(f"results feed calls over {table.depth} steps, it must be {wanted.depth}")
        if functions == "other" and repeats(given, self.catalogue, chosen):
            raise Unreadable("these are exactly the tools that the existing conversation calls")

    def _deniable(self, given: Assignment, chosen: list[list[str]], turn: int) -> None:
        """Whether what turn `turn` does can be asked for in vain the turn before. Raises Unreadable."""
        recipes = self.catalogue.recipes
        before = {tool for names in chosen[:turn] for name in names for tool in recipes[name].tools}
        tools = {tool for name in chosen[turn] for tool in recipes[name].tools}
        if given.seed.type == "miss_func" and tools <= before:
            raise Unreadable(f"turn {turn + 1} must call a tool that no earlier turn calls")
        if given.seed.type == "miss_param" and not any(recipes[name].says for name in chosen[turn]):
            raise Unreadable(f"turn {turn + 1} must need a value that only the user can say")

    def _recipe(self, given: Assignment, place: Place, name: str, turn: int) -> Recipe:
        if name in place.options:
            return self.catalogue.recipes[name]
        where = f"turn {turn + 1}: {name!r}"
        recipe = self.catalogue.recipes.get(name)
        if recipe is None:
            raise Unreadable(f"{where} is no function")
        if given.blocked.intersection((name, *recipe.tools)):
            raise Unreadable(f"{where} is blocked")
        if len(recipe.steps) != place.calls:
            calls = f"{where} comes down to the {len(recipe.steps)} calls {', '.join(recipe.tools)}"
            raise Unreadable(f"{calls}; there is room for {place.calls}", error="decompose_failed")
        raise Unreadable(f"{where} is not among those offered there: {', '.join(place.options)}")

    def _missing(self, chosen: list[list[str]], turn: int, recipe: Recipe, missing: frozenset[str]) -> None:
        later = [
            other.name
            for names in chosen[turn + 1 :]
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


def _names(places: tuple[Place, ...]) -> Mapping[str, Any]:
    return {
        "type": "array",
        "prefixItems": [{"type": "string", "enum": list(place.options)} for place in places],
        "minItems": len(places),
        "maxItems": len(places),
    }


def _turn(number: int, places: tuple[Place, ...]) -> str:
    if not places:
        return f"turn {number}: no places (the user asks in vain here for what the next turn does)"
    return f"turn {number}: " + compact([list(place.options) for place in places])


def _links(given: Assignment, wanted: Pattern) -> str:
    """Which places should use what earlier ones return, where the functions do not bring that with them."""
    if wanted.depth is not None or not given.profile.edges:
        return ""
    fed = {
        f"place {consumer[1] + 1} of turn {consumer[0] + 1} from place {producer[1] + 1} of turn {producer[0] + 1}"
        for producer, consumer, _ in given.profile.edges
    }
    return f"\nWhat a call returns must be of use as an argument later: {'; '.join(sorted(fed))}."


def _failure(error: ComposeError) -> str:
    where = "" if error.turn is None else f" in turn {error.turn + 1}"
    about = "" if error.function is None else f" with {error.function}"
    return f"- {error.type}{where}{about}: {error.detail[:SHORT]}"
