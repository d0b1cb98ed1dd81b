"""JSON that a model wrote: `read_exact` for a policy's calls, `values` and `find` for the answers
of models that write tasks.

Neither drops, rounds or invents anything: numbers that other readers would round, keys that come
twice, NaN and deep nesting are errors that say what is wrong. Whatever is read can be written again
by orjson."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import orjson

from rods.canonical import JsonObject, canonical

MAX_DEPTH = 40  # brackets inside of brackets in a policy's text; parsers recurse into the C stack
MAX_ANSWER_DEPTH = 60  # the same in an answer
MAX_ANSWER = 1 << 20  # characters of an answer
# what Python has for the types of JSON Schema
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}
_QUOTED = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
# Where JSON begins amid prose, in which {names} and [notes] stand, too; `flat`: a whole list that
# begins with no text and holds no other brackets.
_START = re.compile(
    rf'\{{\s*+(?:\}}|\Z|{_QUOTED.pattern}\s*+(?::|\Z))|\[\s*+[\[{{"]'
    rf'|(?P<flat>\[(?=\s*+[\]\d.tfn-])(?:[^\[\]{{}}"]++|{_QUOTED.pattern[:-1]})*+\])',
    re.DOTALL,
)
_TOKEN = re.compile(rf"{_QUOTED.pattern}|{_BRACKET.pattern}", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_QUOTED.pattern})|,(?=\s*+[\]}}])", re.DOTALL)
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19  # 2^63 has as many digits


def read_exact(text: str) -> Any:
    """The JSON value that is the whole of `text`, which may hold nothing else. Raises
    JSONDecodeError where it is none, and ValueError saying what to write instead where orjson would
    read something else: it takes the last of two values of one key, and rounds integers over 64
    bits."""
    if _nested_deeper(text, MAX_DEPTH):
        raise ValueError(f"nested deeper than {MAX_DEPTH}: write it flatter")
    return exact(text)


def exact(text: str) -> Any:
    """The same of a text that need not be flat: a line that a person or a program wrote."""
    value = orjson.loads(text)
    # A key that came twice leaves its quotes out of what is written again; escapes (\u0022) could
    # make up for them.
    doubtful = "\\u" in text or text.count('"') != orjson.dumps(value).count(b'"')
    if doubtful or _LONG_NUMBER in text.encode().translate(_DIGITS):
        _DECODER.decode(text)
    return value


def find(text: str, fits: Callable[[Any], bool] = lambda value: True) -> Any:
    """The one JSON value of those in `text` that fits, or the only one. Raises ValueError where
    several differ, and as `values` does."""
    every = values(text)
    fitting = [value for value in every if fits(value)] or every
    different = {canonical(value) for value in fitting}
    if len(different) > 1:
        raise ValueError(f"{len(different)} different JSON values stand there; give one")
    return fitting[0]


def values(text: str) -> list[Any]:
    """The JSON values in `text`, in order: all of it, or the outermost objects and lists amid
    prose, or what its only fenced block holds. A comma behind a last element is overlooked; lone
    surrogates become U+FFFD. What is broken is passed over, not searched for pieces. Raises
    ValueError when there is none, or when one is cut off."""
    try:
        return [_read(text)]
    except ValueError as error:
        fault = error
    found: list[Any] = []
    place = 0
    text = valid_unicode(text) if len(text) <= MAX_ANSWER else ""
    while start := _START.search(text, place):
        begin = start.start()
        place = start.end() if start["flat"] else _end(text, begin)
        try:
            found.append(all_valid(_decoded(text[begin:place])))
        except ValueError as error:
            fault = error
    if not found:
        fenced = text.split("```")
        if len(fenced) != 3:
            raise fault
        found = [_read(fenced[1].lstrip().removeprefix("json"))]
    return found


def _end(text: str, start: int) -> int:
    """Where the JSON ends that begins with a bracket at `start`. Raises ValueError."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if not depth:
            return token.end()
        if depth > MAX_ANSWER_DEPTH:
            raise ValueError(f"nested deeper than {MAX_ANSWER_DEPTH}")
    raise ValueError(f"it is cut off: what begins with {text[start : start + 20]!r} never ends")


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError:
        return _DECODER.decode(_LAST_COMMA.sub(r"\1", text))


def valid_unicode(text: str) -> str:
    """`text` with pairs of surrogates joined and lone ones replaced: it can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A JSON value with what `change` makes of each of its leaves, and of the keys of its
    objects."""
    if isinstance(value, Mapping):
        return {change(key): mapped(item, change) for key, item in value.items()}
    return (
        [mapped(item, change) for item in value]
        if isinstance(value, (list, tuple))
        else change(value)
    )


def all_valid(value: Any) -> Any:
    """A JSON value with all of its texts as `valid_unicode` makes them: decoders give lone
    surrogates too."""
    return mapped(value, lambda leaf: valid_unicode(leaf) if isinstance(leaf, str) else leaf)


def is_json(text: str) -> bool:
    """Whether orjson reads `text`."""
    try:
        orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return False
    return True


def _read(text: str) -> Any:
    if len(text) > MAX_ANSWER:
        raise ValueError(f"{len(text)} characters; at most {MAX_ANSWER} are read")
    if _nested_deeper(text, MAX_ANSWER_DEPTH):
        raise ValueError(f"nested deeper than {MAX_ANSWER_DEPTH}")
    return all_valid(_DECODER.decode(valid_unicode(text)))


def _nested_deeper(text: str, limit: int) -> bool:
    """Whether the JSON that `text` begins with is nested deeper than `limit`, found before it is
    parsed. Brackets in its texts do not count: closing ones would hide as many open ones. May be
    True for what is no JSON."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for bracket in _BRACKET.findall(_QUOTED.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > limit:
            return True
    return False


def _no_nan(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _integer(digits: str) -> int:
    if len(digits) > 20 or not -(1 << 63) <= int(digits) < 1 << 64:
        raise ValueError(
            f"an integer over 64 bits: {digits[:40]}; write it in quotes, or a smaller one"
        )
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"a number too large: {digits[:40]}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key in counts if counts[key] > 1)
        raise ValueError(f"an object names a key twice: {twice[:40]!r}; write each key once")
    return values


_DECODER = json.JSONDecoder(
    parse_constant=_no_nan, parse_int=_integer, parse_float=_number, object_pairs_hook=_object
)
