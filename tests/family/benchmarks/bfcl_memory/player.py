"""A policy for questions about earlier conversations, a function of what it is shown: in a conversation it writes the
user's words into its memory, turn by turn; a question it answers with what it is shown of its memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

ASKED = "'answer':"  # stands in the system prompt of questions alone
KEPT = ("Michael", "Seattle", "35", "espresso", "deadline", "meeting", "dentist")


def said(messages: Sequence[Mapping[str, Any]], *, unified: bool) -> tuple[str, dict[str, str]] | str:
    """A call, or an answer."""
    system, last = str(messages[0]["content"]), messages[-1]
    result = last["role"] == "tool" or str(last["content"]).startswith("[{'role': 'tool'")
    if ASKED in system:
        shown = system.partition("previous interactions:\n")[2].partition("\n\nFor your final answer")[0]
        return json.dumps({"answer": shown[-2000:], "context": "My memory says so."})
    if result:
        return "Noted."
    words = " ".join(dict.fromkeys(word for word in KEPT if word in str(last["content"])))
    text = f"{words} {str(last['content'])[:60]} (so it was said)"
    number = sum(message["role"] == "user" for message in messages)
    made = {"text": f"{text}\n"} if unified else {"key": f"note_{number}", "value": text}
    return "memory_append" if unified else "core_memory_add", made


def answer(request: dict[str, Any]) -> Any:
    """For the stub server."""
    shown = json.dumps(request.get("tools") or request["messages"][0]["content"])
    made = said(request["messages"], unified="memory_append" in shown)
    if isinstance(made, str):
        return made
    name, arguments = made
    if "tools" in request:
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"content": None, "tool_calls": [{"id": "x", "type": "function", "function": function}]}
    return f"[{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})]"
