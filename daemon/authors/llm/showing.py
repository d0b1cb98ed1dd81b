"""What prompts show of tools, calls and worlds: compact, because contexts are short (FACTS §1), and as JSON where a
program may want to read it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from rods.composing.records import BoundCall, Draft
from rods.environments.base import Tool

LONGEST_RESULT = 400  # characters of a call's result


def signatures(tools: Iterable[Tool]) -> str:
    """One line a tool: its typed arguments and the first sentence of its description."""
    return "\n".join(f"{tool.signature()}: {tool.description.split('. ')[0].strip().rstrip('.')}" for tool in tools)


def compact(value: Any, longest: int = 0) -> str:
    """`value` as one line of JSON, cut after `longest` characters (0: whole)."""
    text = orjson.dumps(value, default=str).decode()
    return text if not longest or len(text) <= longest else text[: longest - 1] + "…"


def turn_lines(calls: Sequence[BoundCall]) -> str:
    """The calls of one turn, one JSON object a line: name, arguments and what came back."""
    return "\n".join(
        compact(
            {
                "call": bound.call.name,
                "arguments": dict(bound.call.arguments),
                "result": _cut(bound.result.text),
            }
        )
        for bound in calls
    )


def turns(draft: Draft, texts: Sequence[str] = ()) -> str:
    """All turns of a draft under headings "Turn 1:", with their texts where there are any."""
    parts = []
    for number, calls in enumerate(draft.turns):
        text = f"\nuser: {texts[number]}" if texts and texts[number] else ""
        parts.append(f"Turn {number + 1}:{text}\n{turn_lines(calls) or '(no call is right in this turn)'}")
    return "\n".join(parts)


def narrative(story: Mapping[str, str]) -> str:
    """The plan's narrative in one text; "(none)" without one."""
    return " ".join(f"{name}: {text}" if len(story) > 1 else text for name, text in story.items()) or "(none)"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_RESULT else text[: LONGEST_RESULT - 1] + "…"
