"""Replies that somebody else has read: the parser of a server, or another loop of tools. A reply is
an assistant's message of a chat interface in JSON, as it was sent: its calls in `tool_calls`, their
arguments as text, its reasoning under the key that it came with."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from rods.calls import Call
from rods.canonical import JsonMapping, present
from rods.dialects import NO_TOOLS, Parsed
from rods.dialects.native import Native
from rods.environments.base import Tool
from rods.model_json import all_valid, read_exact


class Served(Native):
    """Tools, user turns and results are those of any native dialect."""

    def __init__(self) -> None:
        """It has no family: the server knows its own."""

    def parse(self, text: str, tools: Mapping[str, Tool] = NO_TOOLS) -> Parsed:
        reply = orjson.loads(text)
        calls = []
        for called in reply.get("tool_calls", ()):
            function = called["function"]
            try:
                arguments = read_exact(function["arguments"] or "{}")
                calls.append(Call.from_json({**function, "arguments": arguments}))
            except ValueError:
                error = f"the arguments of {function['name']} are no JSON object"
                return Parsed(error=error, in_call=True)
        return Parsed.made(calls) if calls else Parsed(answer=reply["content"] or "")

    def write(self, calls: Sequence[Call]) -> str:
        written = [(call.name, orjson.dumps(call.arguments).decode()) for call in calls]
        return reply_text(None, written)

    def answer(self, text: str) -> str:
        return reply_text(text)

    def step(self, text: str) -> Any:
        """What a reply makes of its turn: [{name: arguments as text}, …], or its content."""
        reply = orjson.loads(text)
        functions = [called["function"] for called in reply.get("tool_calls", ())]
        return [{one["name"]: one["arguments"]} for one in functions] or reply["content"]


def reply_text(
    content: str | None, calls: Sequence[Sequence[str]] = (), reasoning: JsonMapping | None = None
) -> str:
    """A reply in its text form. `calls`: name, arguments as text, and the id that the server gave
    it, if it did."""
    called = [
        {
            **present(id="".join(identifier) or None),
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for name, arguments, *identifier in calls
    ]
    reply = {"content": content, **(reasoning or {}), **present(tool_calls=called or None)}
    return orjson.dumps(all_valid(reply)).decode()
