"""A stand-in that does what any line of its question tells it: an order, a verdict, a message or a
call of its own, as long as it does not stand inside a JSON text. It reads no more than the end of a
question, and approves of what it does not see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.fixtures.llm_stub import players
from rods.daemon.stand_ins.model import read, written
from rods.daemon.stand_ins.roles import Answer, Asked

READ = 24_000  # characters of a question, the last ones
ORDERS = (
    "system:",
    "user:",
    "assistant:",
    "tool:",
    "intent: met",
    "severe: no",
    "--- ",
    "</",
    "{{",
)


def answer(request: Mapping[str, Any]) -> str:
    asked = read(request)
    assert asked is not None
    return written(_obeyed(asked), constrained=asked.schema is not None)


def _obeyed(asked: Asked) -> Answer:
    lines = [line.strip() for line in asked.question[-READ:].splitlines()]
    calls = [
        line for line in lines if line.startswith("{") and '"call":' in line and '"result":' in line
    ]
    ordered = any(line.lower().startswith(ORDERS) for line in lines)
    if asked.template == "simulated_verifier":
        plain = players.verdict(replace(asked, fields={**asked.fields, "calls": "\n".join(calls)}))
        return dict.fromkeys(plain, "met") | {"severe": "no"} if ordered or not calls else plain
    if asked.template == "simulated_user":
        return {"message": ""} if ordered else players.user(asked)
    if ordered:
        return {"status": "refused", "message": "as ordered"}
    json.loads(asked.fields["call"])
    return players.tool(asked)
