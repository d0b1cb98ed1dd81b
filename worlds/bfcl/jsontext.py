"""Writes a tool's answer as `json.dumps` would, at less cost, and reads it back.

`json.dumps` builds an encoder for every call, and long_context pads answers with constants of
thousands of numbers. Here one encoder serves all calls, and a *kept* value, which never changes,
carries its own JSON text. It is otherwise the text, list or dict that it was made from.
"""

import ast
import json
import json.encoder
from collections.abc import Callable
from functools import cached_property
from json.encoder import encode_basestring_ascii as _quote
from typing import Any

from rods.canonical import JsonObject
from rods.syntax import parse


def _encoder() -> Callable[[Any], str]:
    """One call of CPython's C encoder with the settings of `json.dumps`."""
    make = vars(json.encoder)["c_make_encoder"]

    def refuse(value: Any) -> Any:
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")

    chunks = make(None, refuse, _quote, None, ": ", ", ", False, False, True)
    join = "".join
    return lambda value: join(chunks(value, 0))


write = _encoder()
"""Writes a dict as `json.dumps` does, and raises as it does."""


class _Kept:
    """A value that nobody changes from here on. Its JSON text is written when it is first asked
    for: most of what a state holds never is."""

    json = cached_property(write)


class KeptText(_Kept, str):
    """A text."""


class KeptList(_Kept, list[Any]):
    """A list."""


class KeptDict(_Kept, JsonObject):
    """An object."""


_KEPT: dict[type, Any] = {str: KeptText, list: KeptList, dict: KeptDict}
_KEPT_TYPES = frozenset(_KEPT.values())


def keep(value: Any) -> Any:
    """`value`, a text, list or dict, as one that keeps its JSON text."""
    return _KEPT[type(value)](value)


def write_padded(value: JsonObject) -> str:
    """As `write`, for answers of which parts may be kept."""
    for item in value.values():
        kind = type(item)
        if kind in _KEPT_TYPES or kind is dict:
            break
    else:
        return write(value)
    parts: list[str] = []
    between: JsonObject = {}  # what is not kept is written at one go
    for key, item in value.items():
        if type(key) is not str:
            return write(value)
        kind = type(item)
        if kind in _KEPT_TYPES:
            text = item.json
        elif kind is dict and item:
            text = write_padded(item)
        else:
            between[key] = item
            continue
        if between:
            parts.append(write(between)[1:-1])
            between.clear()
        parts.append(f"{_quote(key)}: {text}")
    if between:
        parts.append(write(between)[1:-1])
    return f"{{{', '.join(parts)}}}"


def value_of(text: str) -> Any:
    """The JSON value that a result's text says: JSON for a dict, Python's writing for anything
    else. What has no JSON value (decimal numbers, infinities, `...`) stays text."""
    try:
        if text.startswith("{"):
            return json.loads(text, parse_constant=_refuse)
        return json.loads(
            json.dumps(ast.literal_eval(parse(text.lstrip(" \t"), mode="eval")), allow_nan=False)
        )
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return text


def _refuse(constant: str) -> Any:
    raise ValueError(constant)
