"""How a policy is asked in an evaluation: the form of its calls, and native tool calls as text: JSON {"content": text
or null, "calls": [[name, arguments as text], …]}, their results a JSON list of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import orjson

from rods.episode.engine import Message

Form = Literal["prompt", "native"]  # calls written as text, or made through the server's function calling
Documents = Literal["full", "signatures"]  # tool documents as the benchmark shows them, or one line a tool


@runtime_checkable
class NativeCalls(Protocol):
    """A dialect (rods.dialects) whose replies have the native form: its tools travel beside the messages."""

    def tools(self, visible: Sequence[str], returned: Sequence[str]) -> list[dict[str, Any]]:
        """The tools of a request: those visible from the start, then those that have returned."""
        ...


def reply_text(content: str | None, calls: Sequence[tuple[str, str]]) -> str:
    """A native reply in its text form."""
    return orjson.dumps({"content": content, "calls": calls}).decode()


def messages(conversation: Sequence[Message]) -> list[dict[str, Any]]:
    """A conversation of the native form as chat-completion messages. Calls whose arguments are no JSON object, which
    servers would refuse to take back, are shown as the assistant's text, and their results as the user's."""
    shown: list[dict[str, Any]] = []
    for message in conversation:
        if message.role == "assistant":
            reply = orjson.loads(message.content)
            calls = [
                {"id": f"call_{len(shown)}_{index}", "type": "function", "function": {"name": name, "arguments": text}}
                for index, (name, text) in enumerate(reply["calls"])
            ]
            content = reply["content"]
            if not all(_is_object(text) for _, text in reply["calls"]):
                lines = "\n".join(f"{name} {text}" for name, text in reply["calls"])
                content, calls = "\n".join(filter(None, [content, lines])), []
            shown.append({"role": "assistant", "content": content} | ({"tool_calls": calls} if calls else {}))
        elif message.role == "tool":
            texts, calls = orjson.loads(message.content), shown[-1].get("tool_calls", [])
            if not calls:
                shown.append({"role": "user", "content": "\n".join(texts)})
            for call, text in zip(calls, texts, strict=False):
                shown.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        elif message.content:
            shown.append({"role": message.role, "content": message.content})
    return shown


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False
