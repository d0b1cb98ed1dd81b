"""Stage II: an initial state for a plan, the repair of one in which a call failed (004 Appendix F),
and a draft: the arguments of the plan are bound and its calls executed in a fresh environment (004
§3.3, Appendix D). A `Chooser` chooses the values that the user says: at random here, now and then
one of an earlier turn, so that a rewrite can refer back to it; by a model in daemon/authors/llm.
Every argument's flow is recorded as it is bound."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from rods.analysis.containment import form_of, leaves
from rods.analysis.flows import Flow
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, canonical, frozen
from rods.composing.catalogue import (
    ABSENT,
    LEFT_OUT,
    Catalogue,
    FromEarlierRecipe,
    FromResult,
    FromUser,
    Recipe,
    Scene,
    Slot,
    Source,
    Worded,
)
from rods.composing.lexicon import runs_on
from rods.composing.records import BoundCall, ComposeError, Draft, Plan, PlannedTurn
from rods.environments.base import Environment, Instance, Result
from rods.errors import InfrastructureError
from rods.faults import PATCHABLE, ErrorType
from rods.tasks import Task

THEMATIC = 0.7  # probability of the story's topic where a domain offers it
REPEAT = 0.4  # probability of a value that an earlier turn mentioned, where the domain offers one


def fresh_state(catalogue: Catalogue, plan: Plan, seed: Task | None, rng: Random) -> JsonObject:
    """A new initial state in which `plan` has a fair chance, with other names, numbers and contents
    than the seed's. Raises ComposeError("func_sample_failed") for a recipe that the catalogue does
    not know."""
    recipes = [catalogue.recipe(name) for turn in plan.turns for name in turn.recipes]
    return catalogue.make_state(recipes, None if seed is None else seed.state, plan.narrative, rng)


def repair(
    catalogue: Catalogue, state: JsonMapping, error: ComposeError, rng: Random
) -> JsonObject | None:
    """`state` patched so that what failed may succeed, or None where nothing is known to help.
    Realise the plan again with the *same* choices (a generator made anew from the same key): the
    patch is cut to the call that failed."""
    patch = catalogue.patch(state, error, rng) if error.type in PATCHABLE else None
    return deep_merge(state, patch) if patch else None


def deep_merge(base: JsonMapping, patch: JsonMapping) -> JsonObject:
    """A copy of `base` with `patch` merged in. Where `base` holds an object, only an object is
    merged; anything else in the patch is dropped there, so that a summary cannot replace a whole
    branch of the world."""
    merged = copy.deepcopy(dict(base))
    for key, value in patch.items():
        old = merged.get(key)
        if not isinstance(old, dict):
            merged[key] = copy.deepcopy(value)
        elif isinstance(value, Mapping):
            merged[key] = deep_merge(old, value)
    return merged


@frozen
class Choice:
    """A value to be chosen: for `slot` of `recipe`, number `place` of its turn, from `values`
    (possible now, some `Worded`; an optional argument offers LEFT_OUT). `scene` is the world at
    that moment, `earlier` the values of the same family that former turns said, `thematic` whether
    the story's topic suits."""

    turn: int
    place: int
    recipe: Recipe
    slot: str
    domain: str
    values: Sequence[Any]
    scene: Scene
    earlier: Sequence[Any]
    thematic: bool


Chooser = Callable[[Choice], Any]  # one of the values, or another that the tool takes


def random_chooser(rng: Random) -> Chooser:
    """Chooses at random, with a preference for the story's topic and for what an earlier turn
    said."""

    def choose(choice: Choice) -> Any:
        earlier = [value for value in choice.values if meant(value) in choice.earlier]
        topic = choice.scene.narrative.get("topic")
        if choice.thematic and topic in choice.values and rng.random() < THEMATIC:
            return topic
        if earlier and rng.random() < REPEAT:
            return rng.choice(earlier)
        return rng.choice(choice.values)

    return choose


@dataclass(slots=True)
class _Thing:
    value: Any
    flow: Flow
    noun: str
    turn: int
    alone: bool = True  # of its kind in the turn that gave it: "that one" is clear


def realise(
    environment: Environment, catalogue: Catalogue, plan: Plan, state: JsonMapping, choose: Chooser
) -> Draft:
    """Binds and executes `plan` from `state` in a fresh instance. Whatever `choose` raises passes
    through. Raises ComposeError: `func_sample_failed` (an unknown recipe, or a thing that nobody
    gave), `decompose_failed` (a recipe's steps differ from the planned tools), `param_gen_failed`
    (nothing to choose from, or a result without the wanted field), `vm_exec_failed` (a call was
    refused), `duplicate_func` (the same call twice in a turn, or once more where it is refused);
    and InfrastructureError when the machinery broke."""
    try:
        instance = environment.reset(state)
    except ValueError as error:
        raise ComposeError("vm_exec_failed", f"the initial state is illegal: {error}") from error
    look = instance.snapshot if environment.features.snapshot else partial(dict, state)
    binder = _Binder(catalogue, plan.narrative, instance, look, choose)
    return Draft(
        plan,
        state,
        tuple(binder.turn_of(number, planned) for number, planned in enumerate(plan.turns)),
    )


@dataclass(slots=True)
class _Binder:
    """Binds and runs a plan, recipe by recipe."""

    catalogue: Catalogue
    narrative: Mapping[str, str]
    instance: Instance
    # the state now, or the initial one where the world shows no other
    look: Callable[[], JsonObject]
    choose: Chooser
    # of the conversation so far
    things: dict[str, _Thing] = field(default_factory=dict)
    # said in earlier turns, by family, latest last
    mentioned: dict[str, list[Any]] = field(default_factory=dict)
    fresh: dict[str, list[Any]] = field(default_factory=dict)  # said in this turn
    # the only value of its family in the last turn that had any
    lone: JsonObject = field(default_factory=dict)
    # things of this turn: "the same" might mean them
    touched: JsonObject = field(default_factory=dict)
    calls: list[tuple[Call, Result]] = field(default_factory=list)  # all so far
    # what was said, given or taken up so far: family, or kind, and value
    met: list[tuple[str, Any]] = field(default_factory=list)
    lately: int = 0  # how many of them before the last turn
    # of the recipe in hand
    turn: int = 0
    place: int = 0
    offset: int = 0  # calls of this turn before the recipe's
    recipe: Recipe = field(init=False)
    chosen: JsonObject = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    bound: list[BoundCall] = field(default_factory=list)
    state: JsonObject | None = None  # a snapshot, until the next call

    def turn_of(self, number: int, planned: PlannedTurn) -> tuple[BoundCall, ...]:
        self.turn = number
        before = len(self.met)
        recipes = [self.catalogue.recipe(name, number) for name in planned.recipes]
        if tuple(tool for recipe in recipes for tool in recipe.tools) != planned.tools:
            raise ComposeError(
                "decompose_failed", "the recipes do not give the planned tools", turn=number
            )
        bound: list[BoundCall] = []
        for self.place, self.recipe in enumerate(recipes):
            self.offset = len(bound)
            bound += self._recipe_bound()
        written = [canonical(bound_call.call.as_json()) for bound_call in bound]
        for index, call in enumerate(written):
            if call in written[:index]:
                name = bound[index].call.name
                raise ComposeError(
                    "duplicate_func", f"{bound[index].call} twice", function=name, turn=number
                )
        for family, values in self.fresh.items():
            self.mentioned.setdefault(family, []).extend(values)
            self.lone[family] = values[0] if len(values) == 1 else None
        for kind, value in self.touched.items():
            self.lone[kind] = value if self.lone.get(kind) == value else None
        self.fresh.clear()
        self.touched.clear()
        self.lately = before
        return tuple(bound)

    def _recipe_bound(self) -> list[BoundCall]:
        # domains may look at things from the start
        self.chosen = {
            kind: self.things[kind].value for kind in sorted(self.recipe.needs & self.things.keys())
        }
        self.slots = {}
        self.bound = []
        self.state = None
        for index, step in enumerate(self.recipe.steps):
            flows: dict[str, Flow] = {}
            arguments: JsonObject = {}
            for parameter, source in step.arguments.items():
                value, flow = self._value(source, index, parameter)
                if value is not LEFT_OUT:
                    arguments[parameter] = value
                    flows[parameter] = flow
            call = Call(step.tool, arguments)
            result = self.instance.call(call)
            self.state = None
            if result.error == "infrastructure":
                raise InfrastructureError(f"while executing {call}: {result.text}")
            if result.error is not None:
                # what was done already fails in every state
                again = any(call == made for made, _ in self.calls)
                raise self._failed(
                    "duplicate_func" if again else "vm_exec_failed",
                    f"{call.name} gave {result.text} for {call}",
                    call.name,
                    call=call,
                )
            self.calls.append((call, result))
            self.bound.append(BoundCall(call, result, flows, self.recipe.name, self.slots))
        things: dict[str, _Thing] = {}
        for kind, gift in self.recipe.gives.items():
            value, flow = self._value(gift.value, len(self.bound), "")
            old = self.things.get(kind)
            alone = old is None or old.turn != self.turn or old.value == value
            noun = (
                self.slots[gift.noun].text
                if gift.noun in self.slots
                else str(self.chosen.get(gift.noun, gift.noun))
            )
            things[kind] = _Thing(value, flow, noun, self.turn, alone)
            # others that the recipe itself came across ("on the day of the wedding")
            beside = gift.value.path[-1:] if isinstance(gift.value, FromResult) else ()
            seen = (item for bound in self.bound for item in leaves(bound.result.value))
            also = [leaf for name, leaf in seen if name in beside and leaf != value]
            self.met += [(self.catalogue.family(kind), one) for one in (*also, value)]
        for kind in self.recipe.ends:
            self.things.pop(kind, None)
            self.met.append((self.catalogue.family(kind), ""))
        self.things |= things
        self.touched |= {kind: thing.value for kind, thing in things.items()}
        return self.bound

    def _failed(self, type: ErrorType, detail: str, tool: str, **where: Any) -> ComposeError:
        return ComposeError(
            type,
            detail,
            function=tool,
            turn=self.turn,
            before=[call for call, _ in self.calls],
            **where,
        )

    def _value(self, source: Source, step: int, parameter: str) -> tuple[Any, Flow]:
        if isinstance(source, FromUser):
            if source.slot not in self.chosen:
                self._choose(source, step)
            self._fills(source.slot, step, parameter)
            return self.chosen[source.slot], Flow("user")
        if isinstance(source, FromResult):
            call = self.bound[source.step].call
            result = self.bound[source.step].result
            if (value := source.of(result.value)) is ABSENT:
                raise ComposeError(
                    "param_gen_failed",
                    f"{result.text} has nothing at {list(source.path)}",
                    function=call.name,
                    turn=self.turn,
                )
            return value, Flow("result", (self.turn, self.offset + source.step))
        if isinstance(source, FromEarlierRecipe):
            thing = self.things.get(source.kind)
            if thing is None:
                raise ComposeError(
                    "func_sample_failed",
                    f"{self.recipe.name} needs a {source.kind} and none was given",
                    function=self.recipe.name,
                    turn=self.turn,
                )
            self.chosen[source.kind] = self.touched[source.kind] = thing.value
            if source.kind not in self.slots:
                self.slots[source.kind] = Slot(
                    source.kind,
                    thing.noun,
                    thing=True,
                    repeats=thing.alone,
                    others=self._unclear(source.kind, thing.value, thing.noun),
                )
            self._fills(source.kind, step, parameter)
            earlier = thing.flow.source == "user" and thing.turn < self.turn
            return thing.value, Flow("earlier") if earlier else thing.flow
        return source.value, Flow("user")

    def _choose(self, source: FromUser, step: int) -> None:
        if self.state is None:
            self.state = self.look()
        scene = Scene(self.state, self.chosen, self.narrative, self.mentioned, tuple(self.calls))
        values = list(self.catalogue.domains[source.domain](scene))
        if not values:
            tool = self.recipe.steps[min(step, len(self.recipe.steps) - 1)].tool
            raise self._failed(
                "param_gen_failed",
                f"nothing to choose from in the domain {source.domain!r}",
                tool,
                domain=source.domain,
            )
        family = self.catalogue.family(source.domain)
        earlier = self.mentioned.get(family, [])
        thematic = source.domain in self.catalogue.thematic
        chosen = self.choose(
            Choice(
                self.turn,
                self.place,
                self.recipe,
                source.slot,
                source.domain,
                values,
                scene,
                earlier,
                thematic,
            )
        )
        value = meant(chosen)
        self.chosen[source.slot] = value
        elsewhere = family in self.fresh or self.touched.get(family, value) != value
        latest = self.lone.get(family) == value and not elsewhere
        self.fresh.setdefault(family, []).append(value)
        self.slots[source.slot] = Slot(
            source.domain,
            spoken(chosen),
            repeats=latest,
            value=value,
            others=self._unclear(source.domain, value),
        )

    def _unclear(self, kind: str, *own: Any) -> bool:
        """Whether a reference to what has one of the values `own` could mean something else that
        was met: of its family, or an identifier that looks alike. So it may where the last turn did
        not speak of it. From now on it is met."""
        family = self.catalogue.family(kind)
        unclear = all(value not in own for _, value in self.met[self.lately :]) or any(
            value not in own and (other == family or "a" != form_of(own[0]) == form_of(value))
            for other, value in self.met
        )
        self.met.append((family, own[0]))
        return unclear

    def _fills(self, slot: str, step: int, parameter: str) -> None:
        fills = self.slots[slot].fills
        if parameter and (step, parameter) not in fills:
            self.slots[slot] = replace(self.slots[slot], fills=(*fills, (step, parameter)))


def meant(value: Any) -> Any:
    """A value of a domain without its words."""
    return value.value if isinstance(value, Worded) else value


def spoken(value: Any) -> str:
    """How a user says a value: in its own words, lists as "a, b and c", each entry in quotation
    marks where one would run on into the next, anything else as it stands."""
    if isinstance(value, Worded):
        return value.text
    if isinstance(value, list) and value:
        *most, last = (f"'{entry}'" if any(map(runs_on, value)) else str(entry) for entry in value)
        return f"{', '.join(most)} and {last}" if most else last
    return str(value)
