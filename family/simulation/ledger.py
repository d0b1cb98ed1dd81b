"""What a world of simulated tools is known to hold. The paper's tools are stateless (001,
Limitations); a `Ledger` answers without the model where what was shown decides (`known`), and says
what in an answer cannot be (`contradictions`). It holds nothing about a thing but what the policy
was shown or has set itself. A list by equal fields that was answered once is *whole*: whatever
matches is known from then on."""

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from rods.analysis.containment import Text, key_of
from rods.analysis.schemas import Checker
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, canonical, frozen, only
from rods.environments.base import Result
from rods.family.simulation.documents import OF_MANY, OF_ONE, Effect, SimulatedTool

Status = Literal["ok", "not_found", "refused"]
Fields = JsonMapping


@frozen
class ToolAnswer:
    """What a simulated tool answers: a value, or a message why it has none. `not_found`: what was
    asked for is not there; `refused`: anything else that it will not do."""

    status: Status
    value: Fields = field(default_factory=dict)
    message: str = ""

    def result(self) -> Result:
        """As the policy is shown it."""
        if self.status == "ok":
            return Result(json.dumps(self.value, ensure_ascii=False), dict(self.value))
        body = {"error": self.message or self.status.replace("_", " ")}
        return Result(json.dumps(body, ensure_ascii=False), body, "tool")


@dataclass(slots=True)
class _Thing:
    """A thing and what was shown of it. Not `there`: it was removed, or was looked for and not
    found."""

    fields: JsonObject = field(default_factory=dict)
    there: bool = True
    changed: bool = False  # by a call: created, changed or removed


class Ledger:
    """The account of one episode. `tools` are those that it can meet; of calls of others nothing is
    known, and of tools whose effect is not known nothing but the form of their results. Whether
    something may be changed or removed is the tool's to say."""

    def __init__(self, tools: Mapping[str, SimulatedTool]) -> None:
        self._tools = tools
        # by entity and key, what was met last stands last
        self._things: dict[tuple[str, Any], _Thing] = {}
        # by entity: filters whose matches are all known
        self._whole: dict[str, list[JsonObject]] = {}
        self._looked_up: dict[bytes, ToolAnswer] = {}
        self._checker = cache(lambda name: Checker(tools[name].tool.result or {}))

    def known(self, call: Call) -> ToolAnswer | None:
        """The answer that follows from what is known; None where the tool has to be asked."""
        effect = self._effect(call)
        if effect is None or effect.does in ("creates", "finds"):
            return None
        if effect.does == "looks_up":
            return copy.deepcopy(self._looked_up.get(canonical(call.as_json())))
        if effect.does == "lists":
            return self._listed(call, effect)
        thing = self._thing(effect, call.arguments.get(effect.key))
        if thing is None:
            return self._absent(call, effect) if self._is_whole(effect, {}) else None
        if not thing.there:
            return self._absent(call, effect)
        return self._built(call, thing.fields) if effect.does == "reads" else None

    def contradictions(self, call: Call, answer: ToolAnswer) -> list[str]:
        """What in a tool's answer cannot be, each as a sentence for whoever gave it; empty where it
        can be taken up."""
        if call.name not in self._tools:
            return []
        if answer.status == "ok" and (fault := self._checker(call.name).fault(dict(answer.value))):
            return [f"the result {fault}"]
        if (effect := self._effect(call)) is None:
            return []
        if (sure := self.known(call)) is not None:
            same = sure.status == answer.status and (
                sure.status != "ok" or _same(sure.value, answer.value)
            )
            return [] if same else [f"what happened before leaves one answer: {sure.result().text}"]
        if effect.does == "looks_up":
            return []
        if answer.status == "not_found" and effect.does in OF_MANY:
            return ["a list in which nothing stands is an empty list"]
        if answer.status == "not_found" and effect.does in OF_ONE:
            return (
                [f"{_named(effect, call)} is there"]
                if self._thing(effect, call.arguments[effect.key])
                else []
            )
        if answer.status != "ok":
            return []
        if effect.does in OF_MANY:
            items = answer.value.get(effect.items)
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                return [f"the result lacks its list of objects, {effect.items}"]
            return list(self._of_list(call, effect, items))
        return list(self._of_one(call, effect, answer.value))

    def record(self, call: Call, answer: ToolAnswer) -> None:
        """Takes up an answer that the policy is shown. Raises ValueError for one with
        contradictions."""
        if problems := self.contradictions(call, answer):
            raise ValueError(f"{call}: {'; '.join(problems)}")
        effect = self._effect(call)
        if effect is None or answer.status == "refused":
            return
        answer = copy.deepcopy(answer)
        if effect.does == "looks_up":
            self._looked_up[canonical(call.as_json())] = answer
        elif effect.does in OF_ONE and (answer.status == "not_found" or effect.does == "removes"):
            self._set(
                effect,
                call.arguments[effect.key],
                _Thing(there=False, changed=effect.does == "removes"),
            )
        elif answer.status == "not_found":
            return
        elif effect.does in OF_MANY:
            for item in answer.value[effect.items]:
                self._learn(effect, item)
            filters, exact = self._filters(call, effect)
            if exact and not self._is_whole(effect, filters):
                self._whole.setdefault(effect.entity, []).append(filters)
        else:
            self._learn(
                effect, {**self.stated(call), **answer.value}, changed=effect.does != "reads"
            )

    def things(self) -> list[JsonObject]:
        """The things that are known, for the model that plays the tools; what was met last comes
        last."""
        return [
            {entity: thing.fields} if thing.there else {entity: key, "there": False}
            for (entity, key), thing in self._things.items()
        ]

    def stated(self, call: Call) -> JsonObject:
        """The fields that a call says a thing has or gets, and those that its tool always sets."""
        if (effect := self._effect(call)) is None:
            return {}
        schemas = self._shown(call, effect)
        return {
            **{name: value for name, value in call.arguments.items() if name in schemas},
            **effect.sets,
        }

    def fields(self, entity: str, key: Any) -> Fields:
        """What is known of a thing that is there; empty for any other."""
        thing = self._things.get((entity, key))
        return thing.fields if thing is not None and thing.there else {}

    def matching(self, call: Call) -> Iterator[tuple[Any, Fields]]:
        """The known things, with their keys, that a call of a tool that lists or finds asks for. A
        selection goes by what else it is asked with, too: texts that a thing has to say."""
        effect = self._effect(call)
        if effect is None or effect.does not in OF_MANY:
            return
        filters, _ = self._filters(call, effect)
        others = [
            value
            for name, value in call.arguments.items()
            if name not in filters and isinstance(value, str)
        ]
        for key, fields in self._of(effect.entity):
            if _matches(fields, filters) and (
                effect.does == "lists" or all(map(Text.holding(fields).contains_any_form, others))
            ):
                yield key, fields

    def changed(self) -> dict[tuple[str, Any], Fields | None]:
        """What calls have created, changed or removed (None), by kind and key."""
        every = self._things.items()
        return {
            name: thing.fields if thing.there else None for name, thing in every if thing.changed
        }

    def state(self) -> JsonObject:
        """The whole account as JSON, for `load`."""
        return copy.deepcopy(
            {
                "things": [
                    [*name, thing.fields, thing.there, thing.changed]
                    for name, thing in self._things.items()
                ],
                "whole": self._whole,
                "looked_up": [
                    [asked.decode(), answer.status, answer.value, answer.message]
                    for asked, answer in self._looked_up.items()
                ],
            }
        )

    def load(self, state: Any) -> None:
        """Replaces the whole account by what `state` returned. Raises ValueError for what it never
        returns."""
        try:
            things = {
                (str(kind), key): _Thing(dict(fields), *flags)
                for kind, key, fields, *flags in state["things"]
            }
            whole = {
                str(kind): [dict(fields) for fields in filters]
                for kind, filters in state["whole"].items()
            }
            looked_up = {
                asked.encode(): ToolAnswer(*answer) for asked, *answer in state["looked_up"]
            }
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"the ledger is none: {type(error).__name__}: {error}") from error
        self._things, self._whole, self._looked_up = copy.deepcopy((things, whole, looked_up))

    def _effect(self, call: Call) -> Effect | None:
        """None too for a call without the key that its tool requires: it is refused before anybody
        is asked."""
        effect = self._tools[call.name].effect if call.name in self._tools else None
        if (
            effect is not None
            and effect.does in OF_ONE
            and not isinstance(call.arguments.get(effect.key), (str, int))
        ):
            return None
        return effect

    def _thing(self, effect: Effect, key: Any) -> _Thing | None:
        return self._things.get((effect.entity, key)) if isinstance(key, (str, int)) else None

    def _of(self, entity: str) -> Iterator[tuple[Any, Fields]]:
        """Key and fields of everything of a kind that is there."""
        return (
            (key, thing.fields)
            for (kind, key), thing in self._things.items()
            if kind == entity and thing.there
        )

    def _set(self, effect: Effect, key: Any, thing: _Thing) -> None:
        self._things.pop((effect.entity, key), None)
        self._things[effect.entity, key] = thing

    def _learn(self, effect: Effect, fields: Fields, *, changed: bool = False) -> None:
        thing = self._thing(effect, fields[effect.key])
        before = thing.fields if thing is not None and thing.there else {}
        changed = changed or (thing is not None and thing.changed)
        self._set(effect, fields[effect.key], _Thing({**before, **fields}, changed=changed))

    def _shown(self, call: Call, effect: Effect) -> JsonMapping:
        """The schemas of the fields of a thing, as the tool's result shows them."""
        properties: JsonMapping = (self._tools[call.name].tool.result or {})["properties"]
        return (
            properties[effect.items]["items"]["properties"]
            if effect.does in OF_MANY
            else properties
        )

    def _filters(self, call: Call, effect: Effect) -> tuple[JsonObject, bool]:
        """The fields that everything in a list has to have, and whether these alone say what is in
        it."""
        schemas = self._shown(call, effect)
        arguments = call.arguments.items()
        equal = {
            name: value
            for name, value in arguments
            if name in schemas and isinstance(value, (str, int, float))
        }
        return equal, effect.does == "lists" and len(equal) == len(call.arguments)

    def _is_whole(self, effect: Effect, filters: Fields) -> bool:
        """Whether everything that matches `filters` is known: a thing with these fields stood in a
        whole list."""
        return any(_matches(filters, whole) for whole in self._whole.get(effect.entity, ()))

    def _absent(self, call: Call, effect: Effect) -> ToolAnswer:
        return ToolAnswer("not_found", message=f"{_named(effect, call)} was not found")

    def _built(self, call: Call, fields: Fields) -> ToolAnswer | None:
        """The result of a tool about one thing, where all that it has to show is known."""
        schema = self._tools[call.name].tool.result or {}
        if any(name not in fields for name in schema.get("required", ())):
            return None
        value = only(fields, schema["properties"])
        return (
            ToolAnswer("ok", copy.deepcopy(value)) if self._checker(call.name).fits(value) else None
        )

    def _listed(self, call: Call, effect: Effect) -> ToolAnswer | None:
        filters, exact = self._filters(call, effect)
        if not exact or not self._is_whole(effect, filters):
            return None
        there = [fields for _, fields in self._of(effect.entity)]
        if any(name not in fields for fields in there for name in filters):
            return None
        schemas = self._shown(call, effect)
        schema = self._tools[call.name].tool.result or {}
        items = [only(item, schemas) for item in there if _matches(item, filters)]
        value = {effect.items: copy.deepcopy(items)}
        return (
            ToolAnswer("ok", value)
            if self._checker(call.name).fits(value) and len(schema["properties"]) == 1
            else None
        )

    def _of_one(self, call: Call, effect: Effect, value: Fields) -> Iterator[str]:
        """What is wrong with the thing that a tool says it created, read, changed or removed."""
        key = value.get(effect.key)
        stated = self.stated(call)
        for name, set_to in stated.items():
            if name in value and not _same(value[name], set_to):
                yield f"{name} is {_short(set_to)}, not {_short(value[name])}"
        thing = self._thing(effect, key)
        if effect.does == "creates":
            if not isinstance(key, (str, int)):
                yield f"the result does not say the {effect.key} of what was created"
            if thing is not None and (thing.there or effect.key not in call.arguments):
                yield f"{effect.entity} {key} exists or existed: what is created needs its own id"
            return
        unmoved = {
            name: entry
            for name, entry in value.items()
            if name not in stated and name not in effect.touches
        }
        if thing is not None:
            yield from _differing(effect, thing, unmoved)
        elif effect.does != "removes" and self._is_whole(effect, {**unmoved, effect.key: key}):
            yield f"{effect.entity} {key} was in no list that would have shown it"

    def _of_list(self, call: Call, effect: Effect, items: list[Fields]) -> Iterator[str]:
        filters, exact = self._filters(call, effect)
        keys = [item.get(effect.key) for item in items]
        for key, item in zip(keys, items, strict=True):
            if not isinstance(key, (str, int)):
                yield f"the list does not say the {effect.key} of each {effect.entity}"
            if keys.count(key) > 1:
                yield f"{effect.entity} {key} stands there twice"
            if not _matches(item, filters):
                yield f"{effect.entity} {key} is not what was asked for: {_short(filters)}"
            thing = self._thing(effect, key)
            if thing is not None and not thing.there:
                yield f"{effect.entity} {key} is not there"
            elif thing is not None:
                yield from _differing(effect, thing, item)
            elif self._is_whole(effect, item):
                yield f"{effect.entity} {key} was in no earlier list that would have shown it"
        if exact:
            for key, fields in self._of(effect.entity):
                if key not in keys and _matches(fields, filters):
                    yield f"{effect.entity} {key} is missing"


def _differing(effect: Effect, thing: _Thing, fields: Fields) -> Iterator[str]:
    for name, value in fields.items():
        if name in thing.fields and not _same(value, thing.fields[name]):
            key = thing.fields[effect.key]
            before = _short(thing.fields[name])
            yield f"{name} of {effect.entity} {key} is {before}, not {_short(value)}"


def _matches(fields: Fields, wanted: Fields) -> bool:
    """Whether `fields` hold all that is `wanted`, as people write it: "lisbon" is Lisbon."""
    return all(
        name in fields and key_of(fields[name]) == key_of(value) for name, value in wanted.items()
    )


def _same(value: Any, other: Any) -> bool:
    """Equal as JSON: 5 and 5.0 are, 1 and true are not."""
    if isinstance(value, dict) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(
            _same(value[name], other[name]) for name in value
        )
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_same, value, other))
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _named(effect: Effect, call: Call) -> str:
    return f"{effect.entity} {call.arguments.get(effect.key)}"


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:80]
