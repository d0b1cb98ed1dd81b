"""Policy and user of τ²-bench for the stub server: functions of what they are asked. The policy plays a third of the
items by the ground truth, a third without its last call, and does nothing in the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from rods.calls import Call
from rods.conversations import Persona
from rods.dialects.tags import Hermes
from rods.family.benchmarks.tau2.benchmark import Tau2
from rods.tasks import OpenTask


def answer(request: dict[str, Any]) -> Any:
    if request["model"] == "customer":
        return customer(request["messages"])
    said = [message for message in request["messages"] if message["role"] == "user"]
    made = policy(str(said[0]["content"]), request["messages"])
    if isinstance(made, str):
        return made
    if "tools" not in request:
        return Hermes().write(made)
    assert {call.name for call in made} <= {tool["function"]["name"] for tool in request["tools"]}
    functions = [{"name": call.name, "arguments": json.dumps(dict(call.arguments))} for call in made]
    return {"content": None, "tool_calls": [{"id": "x", "type": "function", "function": one} for one in functions]}


def customer(messages: list[Mapping[str, Any]]) -> str:
    texts = sum(message["role"] == "assistant" for message in messages)
    assert messages[1] == {"role": "user", "content": "Hi! How can I help you today?"}
    item = _items()[str(messages[0]["content"])]
    return [item.texts[0], "Please go on.", "Thank you. ###STOP###"][texts]


def policy(opening: str, messages: list[Mapping[str, Any]]) -> list[Call] | str:
    item = next(item for item in _items().values() if item.texts[0] == opening)
    spoken = sum(message["role"] == "user" and message["content"] == "Please go on." for message in messages)
    called = any(message["role"] == "tool" or "<tool_response>" in str(message["content"]) for message in messages[2:])
    way = way_of(item.provenance["id"])
    if spoken:
        return f"That is {' '.join(item.provenance['told'])}." if way < 2 else "I cannot do that."
    calls = list(item.goal_calls)[: None if way == 0 else -1]
    return calls if calls and way < 2 and not called else "One moment."


def way_of(name: str) -> int:
    return int(name.rsplit("_", 1)[1]) % 3


@cache
def _items() -> dict[str, OpenTask]:
    items = cast(list[OpenTask], Tau2().tasks())
    return {cast(Persona, item.user).intent: item for item in items}
