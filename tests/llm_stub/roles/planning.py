"""Stages I and II: functions for the places of a pattern, values for arguments, and repairs of the world."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from tests.llm_stub.random_answers import instance
from tests.llm_stub.roles.reading import Asked

VALUE = re.compile(r"^(\S+) \(\S+ of \S+\): (\{.*\})$", re.MULTILINE)
PLACES = re.compile(r"^turn (\d+): (\[\[.*\]\])$", re.MULTILINE)
STORY = "Somebody puts things in order before a short journey and wants nothing to be forgotten."


def plan(asked: Asked, chance: random.Random) -> dict[str, Any]:
    """Any of the functions that may stand in a place; none twice in a turn where that can be helped."""
    found: dict[str, Any] = {"narrative": STORY} if asked.schema is None or _wants(asked, "narrative") else {}
    for number, places in PLACES.findall(asked.fields["pattern"]):
        names: list[str] = []
        for options in json.loads(places):
            fresh = [name for name in options if name not in names]
            names.append(chance.choice(fresh or options))
        found[f"turn_{number}"] = names if asked.schema is not None else json.dumps(names)
    return found


def values(asked: Asked, chance: random.Random) -> dict[str, Any]:
    """Any of the values that a line offers, or one like its examples."""
    found = {}
    for name, text in VALUE.findall(asked.fields["values"]):
        may = json.loads(text)
        offered = may.get("one of") or may.get("such as")
        found[name] = chance.choice(offered) if offered else instance(may["any"], chance)
    return {"values": found}


def patch(asked: Asked, chance: random.Random) -> dict[str, Any]:
    """One of the usual remedies: a switch that is off, something closed, an amount that is low."""
    try:
        state = json.loads(asked.fields["state"])
    except ValueError:  # cut
        state = {}
    changes = [{"path": path, "value": value} for path, value in _remedies(state)]
    return {"patch": [chance.choice(changes)] if changes else [{"path": "nothing", "value": 0}]}


def _remedies(part: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(part, dict):
        for name, value in part.items():
            yield from _remedies(value, f"{path}.{name}" if path else name)
    elif part is False:
        yield path, True
    elif part == "Closed":
        yield path, "Open"
    elif isinstance(part, (int, float)) and not isinstance(part, bool) and 0 <= part < 50:
        yield path, part * 10 + 100


def world(asked: Asked, chance: random.Random) -> dict[str, Any]:
    return {"state": {}}


def _wants(asked: Asked, field: str) -> bool:
    return asked.schema is not None and field in asked.schema["properties"]


ROLES = {"planner": plan, "parameters": values, "config_patch": patch, "initial_state": world}
