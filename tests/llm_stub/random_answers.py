"""A model without any sense: random instances of the schema that it is sent (`Script.answer` names `answer`).

What such answers come to is what the constraints alone achieve; beside it the yield of a real model shows the model's
own share. Every choice the grammar leaves open is drawn evenly: which name, which number in its range, how long a list,
which printable characters in a text.
"""

from __future__ import annotations

import json
import random
import string
from typing import Any

LETTERS = string.ascii_letters + string.digits + " .,-_/'"
LONGEST = 40  # characters of a text, elements of a list that the schema does not bound
WIDEST = 1000  # numbers without bounds lie between minus this and this


def answer(request: dict[str, Any]) -> str:
    """An answer to a chat request, the same for the same request."""
    chance = random.Random(json.dumps(request, sort_keys=True))
    wanted = request.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        return json.dumps(instance(wanted["json_schema"]["schema"], chance))
    return _text(chance, 0, 400)


def instance(schema: dict[str, Any], chance: random.Random) -> Any:
    """A random instance of a JSON Schema, as far as this project's schemas go."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return chance.choice(schema["enum"])
    if "anyOf" in schema:
        return instance(chance.choice(schema["anyOf"]), chance)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = chance.choice(kind)
    if kind == "object":
        return _object(schema, chance)
    if kind == "array":
        return _array(schema, chance)
    if kind == "integer":
        low = schema.get("minimum", -WIDEST)
        return chance.randint(low, schema.get("maximum", max(low, WIDEST)))
    if kind == "number":
        low = schema.get("minimum", -WIDEST)
        return round(chance.uniform(low, schema.get("maximum", max(low, WIDEST))), chance.randint(0, 3))
    if kind == "boolean":
        return chance.random() < 0.5
    if kind == "null":
        return None
    low = schema.get("minLength", 0)
    return _text(chance, low, schema.get("maxLength", max(low, LONGEST)))


def _object(schema: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    required = schema.get("required", ())
    names = [name for name in schema.get("properties", {}) if name in required or chance.random() < 0.5]
    return {name: instance(schema["properties"][name], chance) for name in names}


def _array(schema: dict[str, Any], chance: random.Random) -> list[Any]:
    places = schema.get("prefixItems", [])
    low = max(schema.get("minItems", 0), 0)
    length = chance.randint(low, schema.get("maxItems", max(low, len(places), 4)))
    return [
        instance(places[place] if place < len(places) else schema.get("items", {}), chance) for place in range(length)
    ]


def _text(chance: random.Random, low: int, high: int) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randint(low, high)))
