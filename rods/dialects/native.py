"""The model's own form: its chat template documents tools and shows results, and its replies are
read by the table of its family."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from rods.calls import Call
from rods.dialects import NO_TOOLS, Message, Parsed, RoleAndText
from rods.dialects.families import Family
from rods.environments.base import Result, Tool


class Native:
    name = "native"

    def __init__(self, family: Family) -> None:
        self.family = family

    def system(self, tools: Sequence[Tool], guidelines: str = "") -> str:
        return guidelines

    def beside(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        return tuple(_document(tool) for tool in tools)

    def user(self, text: str, returned: Sequence[Tool]) -> str:
        """No chat template documents tools that come later: they stand below the text, one JSON
        document a line."""
        if not returned:
            return text
        return "\n".join([text, "", "More tools:", *map(_document, returned)])

    def observation(self, calls: Sequence[Call], results: Sequence[Result]) -> Sequence[Message]:
        return [
            Message("tool", result.text, name=call.name)
            for call, result in zip(calls, results, strict=True)
        ]

    def complaint(self, error: str) -> RoleAndText:
        return "user", f"Format error: {error}."

    def parse(self, text: str, tools: Mapping[str, Tool] = NO_TOOLS) -> Parsed:
        return Parsed(answer=text)

    def write(self, calls: Sequence[Call]) -> str:
        return ""

    def answer(self, text: str) -> str:
        return text


def _document(tool: Tool) -> str:
    return orjson.dumps({"type": "function", "function": tool.schema()}).decode()


def template_in(folder: Path) -> str:
    return ""


def family_in(folder: str, name: str = "") -> Family | None:
    return None
