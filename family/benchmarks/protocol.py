"""How a policy is asked in an evaluation: the form of its calls, and native tool calls as text: JSON {"content": text
or null, "calls": [[name, arguments as text], …]}, their results a JSON list of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import orjson

from rods.episode.engine import Message

Form = Literal["prompt", "native"]  # calls written as text, or made through the server's function calling
Documents = Literal["full", "signatures"]  # tool documents as the benchmark shows them, or one line a tool


@runtime_checkable
class NativeCalls(Protocol):
    """A dialect (rods.dialects.base) whose replies have the native form: its tools travel beside the messages."""

    def tools(self, visible: Sequence[str], returned: Sequence[str]) -> list[dict[str, Any]]:
        """The tools of a request: those visible from the start, then those that have returned."""
        ...


def reply_text(content: str | None, calls: Sequence[tuple[str, str]]) -> str:
    """A native reply in its text form."""
    return orjson.dumps({"content": content, "calls": calls}).decode()


def messages(conversation: Sequence[Message]) -> list[dict[str, Any]]:
    """A conversation of the native form as chat-completion messages. Calls whose arguments are no JSON object, which
    servers would refuse to take back, are shown as the assistant's text, and their results as the user's."""
    found: list[dict[str, Any]] = []
    identifiers: list[str] = []
    for message in conversation:
        if message.role == "assistant":
            reply = orjson.loads(message.content)
            identifiers = [f"call_{len(found)}_{index}" for index in range(len(reply["calls"]))]
            found.append(_assistant(reply, identifiers))
        elif message.role == "tool":
            texts = orjson.loads(message.content)
            if "tool_calls" not in found[-1]:
                found.append({"role": "user", "content": "\n".join(texts)})
                continue
            found += [
                {"role": "tool", "tool_call_id": identifier, "content": text}
                for identifier, text in zip(identifiers, texts, strict=False)
            ]
        elif message.content:
            found.append({"role": message.role, "content": message.content})
    return found


def _assistant(reply: Mapping[str, Any], identifiers: Sequence[str]) -> dict[str, Any]:
    calls = reply["calls"]
    if not all(_is_object(arguments) for _, arguments in calls):
        shown = "\n".join(f"{name} {arguments}" for name, arguments in calls)
        return {"role": "assistant", "content": "\n".join(filter(None, [reply["content"], shown]))}
    message: dict[str, Any] = {"role": "assistant", "content": reply["content"]}
    if calls:
        message["tool_calls"] = [
            {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}
            for identifier, (name, arguments) in zip(identifiers, calls, strict=True)
        ]
    return message


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False
