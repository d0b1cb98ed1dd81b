"""A tool repository as an environment: results are drawn from their schemas, keyed by what they are
about (a thing has the same fields whichever tool shows it), and a ledger keeps them consistent.
Whatever is named is there, unless it was removed or was in no list that would have shown it. The
state `{"random_seed": 3}` says what else there is."""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from rods.analysis.sampling import Sampler
from rods.analysis.schemas import Checker, fits, limits
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, canonical, content_id, keyed_random, without
from rods.environments.base import Environment, Features, Instance, Result, Tools, kept
from rods.family.simulation.documents import (
    OF_MANY,
    OF_ONE,
    Effect,
    SimulatedTool,
    ToolRepository,
    from_environment,
)
from rods.family.simulation.ledger import Ledger, ToolAnswer

BEHAVIOUR = 1  # version of what is drawn; another one gives tasks another environment
DRAWS = 8  # of a result, until one contradicts nothing
LONGEST = 20_000  # bytes of a call's arguments
ITEMS = 3  # things that a list adds to those that are known, at most
STATE_FIELDS = frozenset({"random_seed", "ledger"})


class RepositoryEnvironment:
    """The tools of a repository as an `Environment`. Their documents, effects and examples are its
    hash."""

    def __init__(self, repository: ToolRepository, name: str = "repository") -> None:
        self.repository = repository
        self.name = name
        self.features = Features()
        self._tools = {entry.tool.name: entry.tool for entry in repository.tools.values()}
        # by tool and parameter, compiled when asked for
        self._checkers = defaultdict[str, dict[str, Checker]](dict)
        self._words = _examples(repository)
        documents = [_document(entry) for entry in repository.tools.values()]
        self.hash = content_id([BEHAVIOUR, dict(repository.categories), documents])

    def tools(self) -> Tools:
        return self._tools

    def reset(self, state: JsonMapping | None) -> Instance:
        return RepositoryWorld(self, state or {})

    def refusal(self, call: Call) -> Result | None:
        """What a call gets that breaks its tool's document; None for one that can be carried
        out."""
        tool = self._tools.get(call.name)
        if tool is None:
            return Result(f"no tool is called {call.name!r}", None, "unknown_tool")
        try:
            size = len(canonical(dict(call.arguments)))
        except (ValueError, RecursionError) as error:
            return Result(f"the arguments are {error}"[:400], None, "bad_arguments")
        if size > LONGEST:
            return Result(
                f"the arguments have {size:,} bytes, allowed are {LONGEST:,}", None, "bounds"
            )
        by_name = tool.by_name
        if missing := [
            name
            for name, parameter in by_name.items()
            if parameter.required and name not in call.arguments
        ]:
            return Result(f"missing arguments: {', '.join(missing)}", None, "bad_arguments")
        if unknown := [name for name in call.arguments if name not in by_name]:
            return Result(f"unknown arguments: {', '.join(unknown)}"[:400], None, "bad_arguments")
        for name, value in call.arguments.items():
            if name not in (checkers := self._checkers[call.name]):
                checkers[name] = Checker(limits(by_name[name]))
            if fault := checkers[name].fault(value):
                kind = by_name[name].schema.get("type")
                wrong_type = kind is not None and not fits({"type": kind}, value)
                return Result(f"{name} {fault}", None, "bad_arguments" if wrong_type else "bounds")
        return None

    def drawable(self, schema: JsonMapping, name: str, group: str) -> JsonObject:
        """A result's schema with the examples that parameters of its category have under the same
        names."""
        form = dict(schema)
        if isinstance(form.get("properties"), Mapping):
            form["properties"] = {
                key: self.drawable(inner, key, group) for key, inner in form["properties"].items()
            }
        if isinstance(form.get("items"), Mapping):
            form["items"] = self.drawable(form["items"], name, group)
        plain = form.get("type") == "string" and not form.keys() & {
            "enum",
            "pattern",
            "format",
            "examples",
        }
        if plain and (words := self._words.get((group, name))):
            form["examples"] = words
        return form


class RepositoryWorld:
    """One episode's world (`rods.environments.base.Instance`)."""

    def __init__(self, environment: RepositoryEnvironment, state: JsonMapping) -> None:
        """Raises ValueError for a state that no world of this environment has."""
        if unknown := sorted(set(state) - STATE_FIELDS):
            raise ValueError(
                f"unknown field {unknown[0]} in the state; there are "
                f"{', '.join(sorted(STATE_FIELDS))}"
            )
        self.environment = environment
        self.random_seed = state.get("random_seed", 0)
        if type(self.random_seed) is not int:
            raise ValueError(f"random_seed is {self.random_seed!r}; it must be a whole number")
        self.ledger = Ledger(environment.repository.tools)
        if "ledger" in state:
            self.ledger.load(state["ledger"])

    def call(self, call: Call) -> Result:
        refused = self.environment.refusal(call)
        if refused is not None:
            return refused
        answer = self.ledger.known(call) or self.drawn(call)
        self.ledger.record(call, answer)
        return answer.result()

    def snapshot(self) -> JsonObject:
        return {"random_seed": self.random_seed, "ledger": self.ledger.state()}

    def fork(self) -> Instance:
        return RepositoryWorld(self.environment, self.snapshot())

    def same_state(self, other: Instance) -> bool:
        """Whether calls have created, changed and removed the same in two worlds of one random
        seed."""
        if not isinstance(other, RepositoryWorld):
            return False
        return (
            self.random_seed == other.random_seed
            and self.ledger.changed() == other.ledger.changed()
        )

    def drawn(self, call: Call) -> ToolAnswer:
        """An answer that contradicts nothing: what is asked for, else that it is not there, else a
        refusal."""
        entry = self.environment.repository.tools[call.name]
        for attempt in range(DRAWS):
            answer = ToolAnswer("ok", self._value(call, entry, attempt))
            if not self.ledger.contradictions(call, answer):
                return answer
        absent = ToolAnswer("not_found", message="there is no such thing")
        if (
            entry.effect is not None
            and entry.effect.does in OF_ONE
            and not self.ledger.contradictions(call, absent)
        ):
            return absent
        return ToolAnswer("refused", message="that cannot be done")

    def _value(self, call: Call, entry: SimulatedTool, attempt: int) -> JsonObject:
        schema = self.environment.drawable(
            entry.tool.result or {"type": "object"}, "", entry.tool.group
        )
        effect = entry.effect
        asked = canonical(call.as_json()).decode()
        stated = self.ledger.stated(call)
        properties: JsonMapping = schema.get("properties", {})
        if effect is None or effect.does == "looks_up":
            drawn = self._fields(properties, asked, attempt)
            return {
                **drawn,
                **{name: value for name, value in call.arguments.items() if name in drawn},
            }
        if effect.does in OF_MANY:
            others = without(properties, effect.items)
            items = self._items(
                call, effect, properties[effect.items]["items"]["properties"], attempt
            )
            return {**self._fields(others, asked, attempt), effect.items: list(items)}
        if effect.does == "creates":
            return {**self._fields(properties, asked, attempt), **stated}
        key = call.arguments[effect.key]
        touched = {name: properties[name] for name in effect.touches - stated.keys()}
        return (
            self._thing(effect, key, properties)
            | self._fields(touched, effect.entity, key, asked)
            | stated
        )

    def _items(
        self, call: Call, effect: Effect, properties: JsonMapping, attempt: int
    ) -> Iterator[JsonObject]:
        """What a list holds: the known things that match it, then some that were not met before."""
        for key, _ in self.ledger.matching(call):
            yield self._thing(effect, key, properties)
        asked = canonical(call.as_json()).decode()
        stated = without(self.ledger.stated(call), effect.key)
        for number in range(
            self._random("items", asked, attempt).randint(0 if attempt else 1, ITEMS)
        ):
            drawn = self._fields({effect.key: properties[effect.key]}, asked, number, attempt)
            yield self._thing(effect, drawn[effect.key], properties) | stated

    def _thing(self, effect: Effect, key: Any, properties: JsonMapping) -> JsonObject:
        """A thing as it is known, and drawn as far as it is not."""
        fields = self.ledger.fields(effect.entity, key)
        drawn = self._fields(without(properties, *fields), effect.entity, key)
        whole = {**fields, **drawn, effect.key: key}
        return {name: whole[name] for name in properties}

    def _fields(self, properties: JsonMapping, *about: str | int) -> JsonObject:
        """Values of fields, each keyed by what it is about and by its name: no field depends on
        which others there are."""
        return {
            name: Sampler(self._random("field", name, *about)).value(name, form)
            for name, form in properties.items()
        }

    def _random(self, purpose: str, *about: str | int) -> random.Random:
        return keyed_random(self.random_seed, f"repository {purpose}", *about)


def _document(entry: SimulatedTool) -> list[Any]:
    effect = entry.effect
    effects = effect and [
        effect.does,
        effect.entity,
        effect.key,
        dict(effect.sets),
        sorted(effect.touches),
        effect.items,
    ]
    bounds = {
        parameter.name: dict(parameter.bounds)
        for parameter in entry.tool.parameters
        if parameter.bounds
    }
    return [entry.tool.group, entry.tool.schema(), entry.tool.result, bounds, effects]


def _examples(repository: ToolRepository) -> dict[tuple[str, str], list[Any]]:
    """The examples of all parameters of a category, by their name."""
    examples: dict[tuple[str, str], list[Any]] = {}
    for entry in repository.tools.values():
        for parameter in entry.tool.parameters:
            for example in limits(parameter).get("examples", ()):
                values = examples.setdefault((entry.tool.group, parameter.name), [])
                if example not in values:
                    values.append(example)
    return examples


@kept
def as_repository(environment: Environment) -> RepositoryEnvironment:
    """The tools of any environment as documents; what they do is known of a repository's alone."""
    if isinstance(environment, RepositoryEnvironment):
        return environment
    return RepositoryEnvironment(from_environment(environment), environment.name)
