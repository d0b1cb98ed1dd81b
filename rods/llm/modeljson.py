"""JSON that a model wrote. It is data with bad manners: prose around it, NaN, enormous numbers, half a surrogate.

What is read here can always be written again, by orjson too: numbers that do not fit are refused, never rounded (orjson
would read 2^70 as a float), and so is NaN (it would become null).
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from rods.exact_json import exact_integer, nested_deeper, object_of_pairs
from rods.llm.wire import whole_text

DEEPEST = 60
LONGEST = 1 << 20  # characters


def read(text: str) -> Any:
    """The JSON value that is the whole of `text`. Raises ValueError saying what is wrong with it."""
    if len(text) > LONGEST:
        raise ValueError(f"{len(text)} characters; at most {LONGEST} are read")
    if nested_deeper(text, DEEPEST):
        raise ValueError(f"nested deeper than {DEEPEST}")
    return _decoder.decode(whole_text(text))


def find(text: str) -> Any:
    """The JSON value in `text`: all of it, the only fenced block, or the first object or list amid prose. Raises
    ValueError when there is none, or when what stands there is broken."""
    try:
        return read(text)
    except ValueError as error:
        whole = error
    fenced = text.split("```")
    if len(fenced) == 3:
        return read(fenced[1].lstrip().removeprefix("json"))
    start = min((place for place in (text.find("{"), text.find("[")) if place >= 0), default=-1)
    if start < 0 or len(text) > LONGEST or nested_deeper(text[start:], DEEPEST):
        raise whole
    # Only from the first bracket: a valid piece of something broken is not what the model meant.
    value, _ = _decoder.raw_decode(whole_text(text[start:]))
    return value


def _no_nan(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _number(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"a number too large: {digits[:40]}")
    return value


class _Decoder(json.JSONDecoder):
    """Escaped lone surrogates come out of the scanner, so texts are mended after it."""

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        value, end = super().raw_decode(s, idx)
        return (_mended(value) if "\\u" in s else value), end


_decoder = _Decoder(
    parse_constant=_no_nan, parse_int=exact_integer, parse_float=_number, object_pairs_hook=object_of_pairs
)


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, dict):
        return {whole_text(key): _mended(item) for key, item in value.items()}
    return [_mended(item) for item in value] if isinstance(value, list) else value
