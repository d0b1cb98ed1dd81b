"""One call a line in few tokens, for policies with a small vocabulary and little room (nano):

! send_mail to= ann text= see you at noon

A reply whose first line does not start with `!` is an answer and ends the turn. `key=` opens a
value, which runs to the next `key=` or the end of the line. Values are JSON where they parse as
such (a number, true, false, null, a quoted text, a list, an object) and plain text otherwise. Tools
are documented as they are called, without values (but for the cues of an interface). Words stand
apart by single spaces throughout: a word has one spelling in all texts."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from rods.calls import MAX_CALL_TEXT, MAX_CALLS, Call
from rods.dialects import NO_TOOLS, Message, Parsed, RoleAndText
from rods.environments.base import Parameter, Result, Tool
from rods.model_json import is_json, read_exact

KEY = re.compile(r"(?:^|(?<= ))([A-Za-z_][A-Za-z_0-9]*)=(?= |$)")


class Compact:
    """The dialect described above."""

    name = "compact"

    def system(self, tools: Sequence[Tool], guidelines: str = "") -> str:
        return f"{_documents(tools)} . {guidelines}" if guidelines else _documents(tools)

    def user(self, text: str, returned: Sequence[Tool]) -> str:
        return f"{text} new {_documents(returned)}" if returned else text

    def beside(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        return ()

    def parse(self, text: str, tools: Mapping[str, Tool] = NO_TOOLS) -> Parsed:
        lines = [line.strip() for line in text.strip().split("\n") if line.strip()]
        if not lines or not lines[0].startswith("!"):
            return Parsed(answer=text.strip())
        calls: list[Call] = []
        for line in lines[: MAX_CALLS + 1]:
            if len(line) > MAX_CALL_TEXT:
                return Parsed(error="line too long")
            if not line.startswith("!"):
                return Parsed(error="each line must be one call")
            name, _, rest = line[1:].strip().partition(" ")
            keys = list(KEY.finditer(rest))
            starts = [key.start() for key in keys] + [len(rest)]
            values = [
                rest[key.end() : start].strip() for key, start in zip(keys, starts[1:], strict=True)
            ]
            try:
                arguments = {key[1]: _value(value) for key, value in zip(keys, values, strict=True)}
            except ValueError as error:
                return Parsed(error=str(error), in_call=True)
            if (
                not name
                or rest[: starts[0]].strip()
                or not all(values)
                or len(arguments) < len(keys)
            ):
                return Parsed(error="bad call", in_call=True)
            calls.append(Call(name, arguments))
        return Parsed.made(calls)

    def observation(self, calls: Sequence[Call], results: Sequence[Result]) -> Sequence[Message]:
        return [Message("tool", " | ".join(_shown(result) for result in results))]

    def complaint(self, error: str) -> RoleAndText:
        return "tool", error

    def write(self, calls: Sequence[Call]) -> str:
        written = (
            (call, [f"{key}= {_text(value)}" for key, value in call.arguments.items()])
            for call in calls
        )
        return "\n".join(" ".join([f"! {call.name}", *arguments]) for call, arguments in written)

    def answer(self, text: str) -> str:
        return text


def _documents(tools: Sequence[Tool]) -> str:
    return " ".join(["tools", *(" ".join([t.name, *map(_document, t.parameters)]) for t in tools)])


def _document(parameter: Parameter) -> str:
    return f"{parameter.name}= {parameter.cue}" if parameter.cue else f"{parameter.name}="


def _shown(result: Result) -> str:
    """A result that is an object reads like a call's arguments (`event= e12 hour= 9`; what is true
    by its key alone), so that a looked-up word has the same spelling in the result and in the next
    call. Others are shown as they are."""
    if not isinstance(result.value, dict):
        return result.text
    parts: list[str] = []
    for key, value in result.value.items():
        items = value if isinstance(value, list) else [value]
        parts.append(
            key if value is True else " ".join([f"{key}=", *(_text(item) for item in items)])
        )
    return " ".join(parts)


def _value(text: str) -> Any:
    """Raises ValueError for JSON that would not be read as it stands."""
    try:
        return read_exact(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return text


def _text(value: Any) -> str:
    """The shortest text that `_value` reads back as `value`, on one line and free of anything like
    ` key= `."""
    bare = (
        isinstance(value, str) and value and value == value.strip() and not set(value) & set('\n="')
    )
    return str(value) if bare and not is_json(value) else json.dumps(value).replace("=", "\\u003d")
