"""What failed calls have in common: the tool, and the words of its refusal without the values in them (000 Appendix C).

A *pattern* is a refusal's text in which every value is a placeholder: an argument of the call, wherever it stands, is
`{argument}`; then quotations are `<text>`, numbers `<number>`, what is no word of a language (paths, addresses,
identifiers with digits, capitals) or a capitalised word inside a sentence `<name>`. Equal patterns of one tool are one
kind of failure. A *shape* is what an argument looked like, no value of it: words, also joined by `_`, are `a`, runs of
digits `9`, signs stay ("letters/plan_2.txt" is "a/a_9.a"); other types are their JSON names.

Only refusals of tools count: what breaks a tool's document is answered from that document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rods.analysis.says import is_small
from rods.calls import Call
from rods.environments.base import Result
from rods.observations import MOST_FAILED, MOST_SHAPES, PATTERN_LENGTH, SHAPE_LENGTH, FailedCall

READ = 1_000  # characters of a refusal that are looked at
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"|“[^”]*”|`[^`]*`|\[[^\]]*\]")
_NAME = re.compile(
    r"\S*[^\W\d_]+[./@#:\\][^\s.,;:!?]\S*|(?<!\S)[./@#\\]\S+|\b(?=\w*[^\W_])\w*\d\w*[^\W\d]\w*|\b[^\W\d]\w*\d\w*|\b[A-Z]{2,}\b"
)
_NUMBER = re.compile(r"[-+]?[$€£]?\d[\d,.:/-]*%?")
_CAPITALS = re.compile(r"(?<=[\w,] )[A-Z][\w'’-]*(?: [A-Z][\w'’-]*)*")
_LETTERS, _DIGITS = re.compile(r"[^\W\d_]+(?:_[^\W\d_]+)*"), re.compile(r"\d+")
_JSON = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def refusal_text(result: Result) -> str:
    """What the tool said when it refused: the text of `error` where the result is an object."""
    value: Any = result.value
    return str(value["error"]) if isinstance(value, dict) and "error" in value else result.text


def pattern(call: Call, result: Result) -> str:
    """The refusal of `call` without values, at most `PATTERN_LENGTH` characters."""
    text = " ".join(refusal_text(result)[:READ].split())
    given = {name: value for name, value in call.arguments.items() if not isinstance(value, bool | list | dict | None)}
    for name, value in sorted(given.items(), key=lambda one: (-len(str(one[1])), one[0])):
        if not is_small(value):
            written = re.escape(" ".join(str(value).split()))
            text = re.sub(rf"(?<!\w)['\"]?{written}['\"]?(?!\w)", f"{{{name}}}", text)
    for found, placeholder in ((_QUOTED, "<text>"), (_NAME, "<name>"), (_NUMBER, "<number>"), (_CAPITALS, "<name>")):
        # what is a placeholder already stays
        parts = re.split(r"(\{\w+\}|<\w+>)", text)
        text = "".join(part if index % 2 else found.sub(placeholder, part) for index, part in enumerate(parts))
    return text[:PATTERN_LENGTH]


def shape(value: Any) -> str:
    """What `value` looks like, at most `SHAPE_LENGTH` characters."""
    if isinstance(value, str):
        return _DIGITS.sub("9", _LETTERS.sub("a", " ".join(value[:READ].split())))[:SHAPE_LENGTH]
    return _JSON.get(type(value), "null")


def failed_calls(made: Iterable[tuple[Call, Result]]) -> tuple[FailedCall, ...]:
    """The failures among the calls of a rollout, the first `MOST_FAILED` kinds of them, each once with its number."""
    found: dict[tuple[str, str], FailedCall] = {}
    for call, result in made:
        if result.error != "tool":
            continue
        key = (call.name, pattern(call, result))
        known = found.get(key)
        if known is not None:
            found[key] = FailedCall(known.tool, known.pattern, known.shapes, known.count + 1)
        elif len(found) < MOST_FAILED:
            shapes = tuple((name, shape(value)) for name, value in list(call.arguments.items())[:MOST_SHAPES])
            found[key] = FailedCall(*key, shapes)
    return tuple(found.values())
