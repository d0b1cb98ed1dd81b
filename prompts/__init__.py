"""What is said to policies and agents: one template a file, text with named fields `{field}`
(braces that are not fields are doubled), and this loader. A template's hash is recorded with what
it produced.

A template for an agent has sections, each after a line `--- <section>`: `system`, `user`, and two
ways to ask for the answer, `constrained` (one JSON object, held to a schema) and `tagged` (text in
tags). What stands before the first is not sent: it says what the template is for and, in its last
line, `fields: a, b`, which the loader compares with the fields in use.
"""

import hashlib
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

if __name__ != "rods.prompts":
    raise ImportError(f"{__name__} is rods.prompts: import it and its modules by that name")

FOLDER = Path(__file__).parent
SECTION = re.compile(r"^--- (\w+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Template:
    """A text with named fields. `hash`: 12 hex digits of SHA-256 of the file. With `sections`,
    `text` is what stands before the first."""

    name: str
    text: str
    fields: frozenset[str]
    hash: str
    sections: Mapping[str, str] = field(default_factory=dict)

    def render(self, **values: str) -> str:
        """Fills every field. Raises ValueError for a missing or an unknown field."""
        self._check(values)
        return self.text.format(**values)

    def render_sections(self, **values: str) -> dict[str, str]:
        """Every section, filled. Raises ValueError for a missing or an unknown field."""
        self._check(values)
        return {name: text.format(**values) for name, text in self.sections.items()}

    def _check(self, values: Mapping[str, str]) -> None:
        if set(values) != self.fields:
            raise ValueError(
                f"template {self.name} has the fields {sorted(self.fields)}, got {sorted(values)}"
            )


@cache
def load(name: str) -> Template:
    """The template in `prompts/<name>.txt`. Raises FileNotFoundError, and ValueError when one with
    sections uses other fields than it declares."""
    data = (FOLDER / f"{name}.txt").read_bytes()
    digest = hashlib.sha256(data).hexdigest()[:12]
    text, *rest = SECTION.split(data.decode("utf-8").strip("\n") + "\n")
    sections = {rest[index]: rest[index + 1].strip("\n") for index in range(0, len(rest), 2)}
    fields = _fields("".join(sections.values()) if sections else text)
    if sections:
        declared = text.strip().rpartition("fields:")[2]
        if fields != {field.strip() for field in declared.split(",") if field.strip()}:
            raise ValueError(
                f"prompts/{name}.txt declares {declared.strip()!r} and uses {sorted(fields)}"
            )
    return Template(name, text.strip("\n"), fields, digest, sections)


def _fields(text: str) -> frozenset[str]:
    return frozenset(field for _, field, _, _ in string.Formatter().parse(text) if field)
