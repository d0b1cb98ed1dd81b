"""The text of a tool's answer: what `json.dumps` gives, at less cost; and back.

`json.dumps` builds an encoder for every call, and long_context pads answers with constants of thousands of numbers.
Here one encoder serves all calls, and the constants are written once.
"""

from __future__ import annotations

import ast
import json
import json.encoder
from collections.abc import Callable, Iterable
from typing import Any


class JsonWriter:
    """Writes dicts as `json.dumps` does, and raises as it does. `constants` are objects that never change and whose
    text is kept; only `write_padded` looks for them."""

    def __init__(self, constants: Iterable[Any] = ()) -> None:
        self.write = _encoder()
        self._constants = list(constants)  # keeps them alive: they are known by identity
        self._texts = {id(constant): self.write(constant) for constant in self._constants}

    def write_padded(self, value: dict[str, Any]) -> str:
        texts, write = self._texts, self.write
        for item in value.values():
            if id(item) in texts:
                break
        else:
            return write(value)
        parts = (f"{write(key)}: {texts.get(id(item)) or write(item)}" for key, item in value.items())
        return f"{{{', '.join(parts)}}}"


def value_of(text: str) -> Any:
    """The JSON value that a result's text says: JSON for a dict, Python's writing for anything else. What has no JSON
    value (decimal numbers, infinities, `...`) stays text."""
    try:
        if text.startswith("{"):
            return json.loads(text, parse_constant=_refuse)
        return json.loads(json.dumps(ast.literal_eval(text), allow_nan=False))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return text


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _encoder() -> Callable[[Any], str]:
    """One call of CPython's C encoder with the settings of `json.dumps`; the standard encoder elsewhere."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    escape: Any = getattr(json.encoder, "c_encode_basestring_ascii", None)
    if make is None or escape is None:
        return json.JSONEncoder().encode

    def refuse(value: Any) -> Any:
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")

    chunks = make(None, refuse, escape, None, ": ", ", ", False, False, True)
    return lambda value: "".join(chunks(value, 0))
