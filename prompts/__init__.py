"""What is said to policies and agents: one template a file, text with named fields `{field}`, and this loader.

Braces that are not fields are doubled, as in `str.format`. A template's hash is recorded with what it produced.
"""

from __future__ import annotations

import hashlib
import string
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Template:
    """A text with named fields. `hash`: the first 12 hex digits of SHA-256 of the file's bytes."""

    name: str
    text: str
    fields: frozenset[str]
    hash: str

    def render(self, **values: str) -> str:
        """Fills every field. Raises ValueError for a missing or an unknown field."""
        if set(values) != self.fields:
            raise ValueError(f"template {self.name} has the fields {sorted(self.fields)}, got {sorted(values)}")
        return self.text.format(**values)


@cache
def load(name: str) -> Template:
    """The template in `prompts/<name>.txt`. Raises FileNotFoundError."""
    data = (FOLDER / f"{name}.txt").read_bytes()
    text = data.decode("utf-8").strip("\n")
    fields = frozenset(field for _, field, _, _ in string.Formatter().parse(text) if field)
    return Template(name, text, fields, hashlib.sha256(data).hexdigest()[:12])
