"""What a worker is asked, as JSON: orjson, and Python's own where that would refuse or change a value.

Integers beyond 64 bits, infinities and lone surrogates occur in what policies write, and an environment must see them.
A request written by Python's own module begins with a space, and is read by it. Replies are orjson's alone.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

_OWN = b" "


def dumps(value: Any) -> bytes:
    """Raises ValueError or TypeError for what is no JSON."""
    try:
        text = orjson.dumps(value)
    except TypeError:
        return _OWN + json.dumps(value).encode()
    return _OWN + json.dumps(value).encode() if b"null" in text and _has_odd_number(value) else text


def loads(content: bytes) -> Any:
    """Raises ValueError for what is no JSON, or nested too deeply."""
    if content[:1] != _OWN:
        return orjson.loads(content)
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _has_odd_number(value: Any) -> bool:
    """Whether orjson would write an infinity or a NaN as null."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, float):
            if part - part != 0:
                return True
        elif isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple)):
            waiting.extend(part)
    return False
