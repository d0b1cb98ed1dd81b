"""One call a line, for policies with a small vocabulary and little room (nano): `! name | key = value | key = value`.

A reply whose first line does not start with `!` is an answer and ends the turn. Values are JSON where they parse as a
number, true, false, null, a quoted text, a list or an object, and plain text otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from rods.calls import MAX_CALL_TEXT, MAX_DEPTH, Call, max_nesting
from rods.dialects.base import Parsed, RoleAndText
from rods.environments.base import Result, Tool


class Compact:
    """See the module's page."""

    name = "compact"

    def system(self, tools: Sequence[Tool]) -> str:
        return "\n".join(_signature(tool) for tool in tools)

    def user(self, text: str, returned: Sequence[Tool]) -> str:
        return "\n".join([text, *(_signature(tool) for tool in returned)])

    def parse(self, text: str) -> Parsed:
        lines = [line.strip() for line in text.strip().split("\n") if line.strip()]
        if not lines or not lines[0].startswith("!"):
            return Parsed(answer=text.strip())
        calls: list[Call] = []
        for line in lines:
            if len(line) > MAX_CALL_TEXT or max_nesting(line) > MAX_DEPTH:
                return Parsed(error="line too long")
            if not line.startswith("!"):
                return Parsed(error="each line must be one call")
            name, *pairs = (part.strip() for part in line[1:].split("|"))
            if not name:
                return Parsed(error="no tool name")
            arguments: dict[str, Any] = {}
            for pair in pairs:
                key, equals, value = (part.strip() for part in pair.partition("="))
                if not key or not equals or key in arguments:
                    return Parsed(error="bad argument")
                arguments[key] = _value(value)
            calls.append(Call(name, arguments))
        return Parsed(calls=tuple(calls))

    def observation(self, results: Sequence[Result]) -> RoleAndText:
        return "tool", "\n".join(result.text for result in results)

    def complaint(self, error: str) -> RoleAndText:
        return "tool", error

    def write(self, calls: Sequence[Call]) -> str:
        return "\n".join(
            " | ".join([f"! {call.name}", *(f"{key} = {_text(value)}" for key, value in call.arguments.items())])
            for call in calls
        )

    def answer(self, text: str) -> str:
        return text


def _signature(tool: Tool) -> str:
    return f"{tool.name} ( {' '.join(tool.parameter_names)} )"


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return text


def _text(value: Any) -> str:
    """The shortest text that `_value` reads back as `value`."""
    if isinstance(value, str) and _is_plain(value):
        return value
    return orjson.dumps(value).decode().replace("|", "\\u007c")


def _is_plain(text: str) -> bool:
    """Whether `text` may stand unquoted: on one line, without separators, and not readable as another value."""
    return (
        text != ""
        and text == text.strip()
        and text.isprintable()
        and not set(text) & {"|", '"'}
        and _value(text) == text
    )
