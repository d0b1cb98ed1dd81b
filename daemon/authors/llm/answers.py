"""The form of an agent's answer, said once: its fields with their schemas. Two ways of writing follow from it.

Constrained, an answer is one JSON object that the server holds to `Form.schema()`. Tagged, each field stands between
tags of its name: texts as they are, a list of things of one kind as one pair of tags an element, the rest as JSON.
Either way `read` gives the same dictionary and is strict: a tag that is missing, open or double, a value that breaks
its schema, NaN, numbers that fit nowhere or an endless answer raise `Unreadable`. Thinking goes into `reason`; a
model's own <think> block is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rods import model_json
from rods.analysis.schemas import TYPES
from rods.composing.records import ErrorType

Schema = Mapping[str, Any]
LONGEST = 100_000  # characters of an answer
REASON = 300  # characters of thinking in a constrained answer, so that a weak model comes to the point
THINK = re.compile(r"\s*<think>.*?</think>", re.DOTALL)


class Unreadable(ValueError):
    """An answer without the demanded form or meaning. The text says to the model what was wrong; `error` is what it is
    called when no further try mends it, instead of what the caller named."""

    def __init__(self, text: str, error: ErrorType | None = None) -> None:
        super().__init__(text)
        self.error = error


@dataclass(frozen=True, slots=True)
class Form:
    """`fields` in the order in which they are written; `optional` ones may be left out. The schemas of `guiding` ones
    bind a constrained answer only: whoever reads the answer says better what is wrong with them. `reason` is the room
    for thinking before them, in characters of a constrained answer; 0: none."""

    fields: Mapping[str, Schema]
    optional: frozenset[str] = frozenset()
    guiding: frozenset[str] = frozenset()
    reason: int = REASON

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the constrained answer."""
        fields: dict[str, Any] = {"reason": {"type": "string", "maxLength": self.reason}} if self.reason else {}
        fields |= self.fields
        return obj(fields, optional=self.optional)

    def read(self, text: str, *, constrained: bool) -> dict[str, Any]:
        """The fields of an answer, and its `reason` ("" when there is none). Raises Unreadable."""
        if len(text) > LONGEST:
            raise Unreadable(f"the answer has {len(text)} characters, at most {LONGEST} are read")
        text = THINK.sub("", text, count=1)
        found = self._object(text) if constrained else self._tags(text)
        for name, schema in self.fields.items():
            if name not in found:
                if name not in self.optional:
                    raise Unreadable(f"{name} is missing")
            elif name not in self.guiding and (what := fault(schema, found[name])):
                raise Unreadable(f"{name} {what}")
        return found

    def _object(self, text: str) -> dict[str, Any]:
        try:
            value = model_json.find(text)
        except ValueError as error:
            raise Unreadable(f"no JSON object could be read: {error}") from None
        if not isinstance(value, dict):
            raise Unreadable("the answer is not a JSON object")
        reason = value.get("reason", "")
        return {
            "reason": reason if isinstance(reason, str) else "",
            **{name: value[name] for name in self.fields if name in value},
        }

    def _tags(self, text: str) -> dict[str, Any]:
        reasons = re.findall(r"<reason>(.*?)</reason>", text, re.DOTALL)
        text = re.sub(r"<reason>.*?</reason>", "", text, flags=re.DOTALL)
        found: dict[str, Any] = {"reason": " ".join(reasons).strip()}
        for name, schema in self.fields.items():
            parts = _between(name, text)
            if schema.get("type") == "array" and "items" in schema:
                found[name] = [_inside(name, part, schema["items"]) for part in parts]
            elif len(parts) > 1:
                raise Unreadable(f"<{name}> stands there {len(parts)} times")
            elif parts:
                found[name] = _inside(name, parts[0], schema)
        return found


def obj(fields: Mapping[str, Schema], optional: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The schema of an object with exactly these fields."""
    return {
        "type": "object",
        "properties": dict(fields),
        "required": [name for name in fields if name not in optional],
        "additionalProperties": False,
    }


def fault(schema: Schema, value: Any) -> str:
    """What keeps `value` from conforming to `schema`, as the rest of a sentence; empty when it does. Knows the words
    that this project's schemas use."""
    if "const" in schema and value != schema["const"]:
        return f"must be {schema['const']!r}"
    if "anyOf" in schema:
        faults = [fault(way, value) for way in schema["anyOf"]]
        return "" if not all(faults) else faults[0]
    kind = schema.get("type")
    if kind in TYPES and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return f"must be of type {kind}"
    if "enum" in schema and value not in schema["enum"]:
        return f"must be one of {', '.join(map(str, schema['enum'][:40]))}, not {str(value)[:80]!r}"
    if isinstance(value, str):
        return _size(schema, "Length", len(value), "characters")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        return "" if low <= value <= high else f"must lie between {low} and {high}"
    if isinstance(value, list):
        what = _size(schema, "Items", len(value), "elements")
        faults = [f"{number}: {each}" for number, item in enumerate(value) if (each := _item(schema, number, item))]
        return what or (f"at {faults[0]}" if faults else "")
    return _object_fault(schema, value) if isinstance(value, dict) else ""


def _item(schema: Schema, number: int, item: Any) -> str:
    places = schema.get("prefixItems", ())
    return fault(places[number] if number < len(places) else schema.get("items", {}), item)


def _object_fault(schema: Schema, value: Mapping[str, Any]) -> str:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"lacks {name!r}"
    for name, item in value.items():
        if name not in known:
            if schema.get("additionalProperties") is False:
                return f"has an unknown field {name[:80]!r}"
        elif what := fault(known[name], item):
            return f"in {name}: {what}"
    return ""


def _size(schema: Schema, what: str, size: int, unit: str) -> str:
    low, high = schema.get(f"min{what}", 0), schema.get(f"max{what}", size)
    return "" if low <= size <= high else f"has {size} {unit}, allowed are {low} to {high}"


def _between(name: str, text: str) -> list[str]:
    """The contents of all pairs of tags called `name`. Raises Unreadable when they are not pairs."""
    opened, closed = f"<{name}>", f"</{name}>"
    parts = []
    for piece in text.split(opened)[1:]:
        inside, end, _ = piece.partition(closed)
        if not end:
            raise Unreadable(f"{opened} is not closed")
        parts.append(inside.strip())
    if text.count(closed) != len(parts):
        raise Unreadable(f"{closed} without {opened}")
    return parts


def _inside(name: str, text: str, schema: Schema) -> Any:
    if schema.get("type") == "string":
        return text
    try:
        return model_json.find(text)
    except ValueError as error:
        raise Unreadable(f"<{name}> does not hold JSON: {error}") from None
