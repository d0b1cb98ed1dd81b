"""JSON that a model wrote, read as it stands or not at all: nothing is dropped, rounded, or nested without bound."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

MAX_DEPTH = 40  # brackets inside of brackets; parsers recurse into the C stack

QUOTED = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
BRACKET = re.compile(r"[\[\]{}]")
LONG_NUMBER = re.compile(r"[0-9]{19}")  # 2^63 has as many digits


def read_json(text: str) -> Any:
    """The JSON value that is the whole of `text`. Raises JSONDecodeError where it is none, and ValueError saying what
    to write instead where orjson would read something else: it takes the last of two values of one key, and rounds
    integers over 64 bits."""
    if nested_deeper(text, MAX_DEPTH):
        raise ValueError(f"nested deeper than {MAX_DEPTH}: write it flatter")
    value = orjson.loads(text)
    # A key that came twice leaves its quotes out of what is written again; escapes (\u0022) could make up for them.
    doubtful = "\\u" in text or text.count('"') != orjson.dumps(value).count(b'"')
    if doubtful or LONG_NUMBER.search(text):
        CHECKING.decode(text)
    return value


def nested_deeper(text: str, limit: int) -> bool:
    """Whether the JSON that `text` begins with is nested deeper than `limit`, found before it is parsed. Brackets in
    its texts do not count: closing ones would hide as many open ones. May be True for what is no JSON."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for bracket in BRACKET.findall(QUOTED.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > limit:
            return True
    return False


def exact_integer(digits: str) -> int:
    """For JSON decoders. Raises ValueError for what JSON's readers elsewhere would round."""
    if len(digits) > 20 or not -(1 << 63) <= int(digits) < 1 << 64:
        raise ValueError(f"an integer over 64 bits: {digits[:40]}; write it in quotes, or a smaller one")
    return int(digits)


def object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For JSON decoders. Raises ValueError for a key that comes twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"an object names a key twice: {twice[:40]!r}; write each key once")
    return found


CHECKING = json.JSONDecoder(parse_int=exact_integer, object_pairs_hook=object_of_pairs)
