"""Stage V: which function or value goes missing, and whether its turn is really out of reach."""

from __future__ import annotations

import json
import random
import re
from typing import Any

from rods.analysis.flows import Text
from tests.llm_stub.roles.reading import Asked

CHOICE = re.compile(r"^(\d+)\. \S+ of \S+: (.*)$", re.MULTILINE)
VAGUE = ("one of mine", "the usual one", "the one we spoke of")


def take_function(asked: Asked, chance: random.Random) -> dict[str, Any]:
    return {"function": chance.choice(asked.fields["choices"].split(", "))}


def leave_open(asked: Asked, chance: random.Random) -> dict[str, Any]:
    """The first value that can be cut out of the request without leaving a trace."""
    query = asked.fields["query"]
    found = [(int(number), json.loads(value)) for number, value in CHOICE.findall(asked.fields["choices"])]
    for number, value in found:
        words = " and ".join(map(str, value)) if isinstance(value, list) else str(value)
        request = re.sub(rf"'?{re.escape(words)}'?", chance.choice(VAGUE), query, flags=re.IGNORECASE)
        if not Text.of(request).says(value):
            return {"choice": number, "request": request, "supply": f"I mean {words}, of course."}
    number, value = found[0]
    return {"choice": number, "request": "Please do what I have in mind.", "supply": f"I mean {value}, of course."}


def out_of_reach(field: str) -> Any:
    return lambda asked, chance: {field: "no"}


ROLES = {
    "miss_func": take_function,
    "miss_func_verify": out_of_reach("served"),
    "miss_param": leave_open,
    "miss_param_verify": out_of_reach("known"),
}
