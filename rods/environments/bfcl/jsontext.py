"""The text of a tool's answer: what `json.dumps` gives, at less cost.

`json.dumps` builds an encoder for every call, and long_context pads answers with constants of thousands of numbers.
Here one encoder serves all calls, and the constants are written once.
"""

from __future__ import annotations

import json
import json.encoder
import math
from collections.abc import Callable, Iterable
from typing import Any

from rods.environments.bfcl.copies import ATOMS


class JsonWriter:
    """Writes dicts as `json.dumps` does. `constants` are objects that never change and whose text is kept."""

    def __init__(self, constants: Iterable[Any] = ()) -> None:
        self._encode = _encoder()
        self._constants = list(constants)  # keeps them alive: they are known by identity
        self._texts = {id(constant): self._encode(constant) for constant in self._constants}

    def write(self, value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The text, and an independent copy of `value` as JSON. Raises TypeError or ValueError as `json.dumps`."""
        text = self._encode(value)
        return text, {key: item if type(item) in ATOMS else plain(item) for key, item in value.items()}

    def write_padded(self, value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The same for a dict that may hold constants."""
        texts = self._texts
        if not any(id(item) in texts for item in value.values()):
            return self.write(value)
        parts = (f"{self._encode(key)}: {texts.get(id(item)) or self._encode(item)}" for key, item in value.items())
        return f"{{{', '.join(parts)}}}", plain(value)


def plain(value: Any) -> Any:
    """`value` as JSON would read it back, sharing nothing with it; what JSON cannot say becomes text."""
    kind = type(value)
    if kind is dict:
        return {
            key if type(key) is str else _key(key): item if type(item) in ATOMS else plain(item)
            for key, item in value.items()
        }
    if kind is list:
        if ATOMS.issuperset(map(type, value)):
            return value.copy()
        return [item if type(item) in ATOMS else plain(item) for item in value]
    if kind is tuple:
        return [plain(item) for item in value]
    return value if kind in ATOMS else str(value)


def finite(value: Any) -> bool:
    """Whether every number in a JSON value is one that JSON can say."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(finite(item) for item in value.values())
    return all(finite(item) for item in value) if isinstance(value, list) else True


def _key(key: Any) -> str:
    return json.dumps(key) if isinstance(key, (bool, type(None))) else str(key)


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
