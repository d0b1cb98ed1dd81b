"""What the stub says in tests of stages I and II: good answers made from a request's schema or its
listing, and roles with one habit each. Later stages are played by `later_roles`."""

from __future__ import annotations

import json
import random
import re
from typing import Any

from tests.daemon.authors.llm import later_roles

Fields = dict[str, Any]
MARKS = {
    "For each place, in order": "planner",
    "Still to be chosen, one a line": "parameters",
    "Turn it into the data of the new conversation": "initial_state",
    "one of its calls failed": "config_patch",
    "Write what the user says in each of these turns": "query",
    '"aligned" when all of this holds': "query_verification",
}

WAYS = ("one of", "found by an earlier call", "such as")  # in which a line offers values


def role(request: dict[str, Any]) -> str:
    asked = later_roles.question(request)
    return next((name for mark, name in MARKS.items() if mark in asked), "later")


def instance(schema: Any, rng: random.Random) -> Any:
    """An instance of a schema of this project."""
    if "anyOf" in schema:
        return instance(schema["anyOf"][0], rng)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        return {
            name: instance(schema["properties"][name], rng) for name in schema.get("required", ())
        }
    if kind == "array":
        places = schema.get("prefixItems") or [schema["items"]] * max(1, schema.get("minItems", 1))
        return [instance(place, rng) for place in places]
    if kind in ("integer", "number"):
        low = schema.get("minimum", 1)
        high = schema.get("maximum", 50)
        return rng.randint(low, max(low, min(high, low + 40)))
    if kind == "string":
        return rng.choice(("maple", "quartz", "lantern", "velvet", "harbor", "comet"))[
            : schema.get("maxLength", 9)
        ]
    return True


def other_texts(state: Any) -> Any:
    """The texts of a world that are no names, each with another end."""
    changed = {key: other_texts(value) for key, value in state.items() if isinstance(value, dict)}
    texts = {
        key: f"{value} soon"
        for key, value in state.items()
        if isinstance(value, str) and " " in value
    }
    return texts | {key: value for key, value in changed.items() if value}


def open_values(request: dict[str, Any]) -> dict[str, Any]:
    """What may stand for each value that is asked for, by its key."""
    asked = later_roles.question(request)
    lines = re.findall(r"^([\d.]+\w+) \(\w+ of \w+\): (\{.*\})$", asked, re.MULTILINE)
    return {key: json.loads(line) for key, line in lines}


def fields_of(request: dict[str, Any]) -> Fields:
    """Good answers. Chance is keyed by the request's own seed, as with a server."""
    rng = random.Random(request.get("seed", 0))
    asked = later_roles.question(request)
    name = role(request)
    if name == "planner":
        places = re.findall(r"^turn (\d+): (\[\[.*\]\])$", asked, re.MULTILINE)
        chosen = {
            f"turn_{number}": [rng.choice(options) for options in json.loads(line)]
            for number, line in places
        }
        return {
            **({"narrative": "Somebody tidies up."} if "the story behind it" in asked else {}),
            **chosen,
        }
    if name == "parameters":
        return {
            **({"story": "Somebody tidies up."} if "First tell the story" in asked else {}),
            "values": {
                key: rng.choice(offered)
                if (offered := next(filter(None, map(one.get, WAYS)), None))
                else instance(one["any"], rng)
                for key, one in open_values(request).items()
            },
        }
    if name == "query":
        return {
            "query": [
                later_roles.sentence(values, f"Please see to this matter ({doing})")
                for doing, values in zip(
                    later_roles.doings(asked), later_roles.must_say(asked), strict=True
                )
            ]
        }
    if name == "query_verification":
        return {
            "verdict": ["aligned"] * len(re.findall(r"^Turn \d+:$", asked, re.MULTILINE)),
            "problem": "",
        }
    if name == "initial_state":
        old = json.loads(
            re.findall(r"^The data of another conversation, as JSON:\n(.*)$", asked, re.MULTILINE)[
                0
            ]
        )
        return {"state": other_texts(old)}
    if name == "config_patch":
        return {"patch": {"today": "monday"}}
    return later_roles.good_fields(request)


def written(request: dict[str, Any], fields: Fields) -> str:
    """The fields in the form that the request wants."""
    if role(request) == "later" or "response_format" in request:
        return later_roles.written(request, fields)
    parts = ["<reason>because</reason>"]
    for name, value in fields.items():
        whole = isinstance(value, str) or name.startswith("turn_") or not isinstance(value, list)
        for one in [value] if whole else value:
            parts.append(f"<{name}>{one if isinstance(one, str) else json.dumps(one)}</{name}>")
    return "\n".join(parts)


def good(request: dict[str, Any]) -> str:
    return written(request, fields_of(request))
