"""Bounds on arguments, checked before a call: a policy writes them, and any call must stay quick.

Inside these bounds every tool of the API classes is linear in its arguments and in the state, and
so runs in-process. Two tools compute with as many digits as the call asks for: `logarithm` and
`square_root`. Few digits run in-process, more of them in a worker that can be killed, and beyond a
last bound the call is refused. The bounds are far above anything in the 800 tasks (texts of at most
205 characters, lists of 6, integers of 16 digits).
"""

import sys
from typing import Any

from rods.canonical import JsonMapping, JsonObject

MAX_TEXT = 16_384  # characters of one text argument, and of all texts inside one list or object
MAX_ITEMS = 1_000  # entries of one list or object, nested ones included
MAX_DEPTH = 40
MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**63 - 1
MAX_RESULT = 250_000  # characters of one result
UNBOUNDED = frozenset({"logarithm", "square_root"})
IN_PROCESS_DIGITS = 1_000
MAX_DIGITS = 5_000
DIGITS_OF_AN_INTEGER = 4_300  # Python writes no longer ones, and says so
_MAX_FLOAT = sys.float_info.max
_COMMON = 2**53  # a number within this is within every bound
# 4,300 digits are 14,285 bits: an integer with more of them cannot be written
_BITS_OF_AN_INTEGER = 14_400


def bounds_of(tool: str, parameter: str, schema: JsonMapping) -> JsonObject:
    """The declared bounds of a parameter, in the words of JSON Schema."""
    if tool in UNBOUNDED and parameter == "precision":
        return {"maximum": MAX_DIGITS}
    return {
        "string": {"maxLength": MAX_TEXT},
        "integer": {"minimum": MIN_INTEGER, "maximum": MAX_INTEGER},
        "array": {"maxItems": MAX_ITEMS},
        "object": {"maxProperties": MAX_ITEMS},
    }.get(schema["type"], {})


def over(value: Any) -> str | None:
    """Why `value` may not be an argument, or None. Bounds hold whatever type a parameter is
    documented to have."""
    kind = type(value)
    if kind is str:
        return (
            f"a text of {len(value)} characters; at most {MAX_TEXT}"
            if len(value) > MAX_TEXT
            else None
        )
    if kind is bool or value is None:
        return None
    if kind is int:
        return None if MIN_INTEGER <= value <= MAX_INTEGER else "an integer beyond 64 bits"
    if kind is float:
        return None if -_MAX_FLOAT <= value <= _MAX_FLOAT else "a number that is not finite"
    return _over_nested(value)


def short(values: list[Any]) -> bool:
    """Whether these are few short texts and common numbers, and nothing else: what `over` need not
    look at."""
    if len(values) > 16:
        return False
    for item in values:
        kind = type(item)
        if kind is str:
            if len(item) > 256:
                return False
        elif (kind is not float and kind is not int) or not -_COMMON <= item <= _COMMON:
            return False
    return True


def impossible_power(base: Any, exponent: Any) -> bool:
    """Whether `base ** exponent` is an integer with too many digits to be written, found without
    computing it."""
    if not isinstance(base, int) or not isinstance(exponent, int) or exponent <= 0:
        return False
    return (abs(base).bit_length() - 1) * exponent > _BITS_OF_AN_INTEGER


def digits(arguments: JsonMapping) -> int | None:
    """How many digits a call of an unbounded tool asks for; None when an argument is no plain
    number."""
    if any(type(value) not in (int, float) for value in arguments.values()):
        return None
    precision = arguments.get("precision", 0)
    return precision if type(precision) is int and precision >= 0 else None


def _over_nested(value: Any) -> str | None:
    items = characters = 0
    waiting = [(value, 1)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_DEPTH:
            return f"nested deeper than {MAX_DEPTH}"
        parts: list[Any] = []
        if isinstance(part, dict):
            characters += sum(len(key) for key in part if isinstance(key, str))
            parts = list(part.values())
        elif isinstance(part, (list, tuple)):
            parts = list(part)
        elif isinstance(part, str):
            characters += len(part)
        elif type(part) in (int, float) and (why := over(part)) is not None:
            return why
        items += len(parts)
        if items > MAX_ITEMS:
            return f"more than {MAX_ITEMS} entries"
        if characters > MAX_TEXT:
            return f"more than {MAX_TEXT} characters"
        waiting.extend((inner, depth + 1) for inner in parts)
    return None
