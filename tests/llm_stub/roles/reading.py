"""A request read back into its template and fields, and an answer in the form that was asked for."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from prompts import FOLDER, Template, load

FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Asked:
    """`template` by name, its `fields` as texts, the `schema` of a constrained answer, or None for tags. `again` counts
    the earlier tries that this question shows."""

    template: str
    fields: dict[str, str]
    schema: dict[str, Any] | None
    again: int


def read(request: dict[str, Any]) -> Asked | None:
    """None for a request that comes from no template of the project."""
    messages = request.get("messages", [])
    if len(messages) < 2 or messages[0]["role"] != "system":
        return None
    wanted = request.get("response_format")
    schema = wanted["json_schema"]["schema"] if wanted else None
    way = "tagged" if schema is None else "constrained"
    for name, system, patterns in _known():
        if system == messages[0]["content"] and (match := patterns[way].fullmatch(messages[1]["content"])):
            return Asked(name, match.groupdict(""), schema, (len(messages) - 2) // 2)
    return None


def written(fields: dict[str, Any], *, constrained: bool) -> str:
    """`fields` as one JSON object, or each between tags of its name, a list element by element."""
    reason = {"reason": "It follows from what is shown."}
    if constrained:
        return json.dumps({**reason, **fields})
    lines = [f"<reason>{reason['reason']}</reason>"]
    for name, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            lines.append(f"<{name}>{item if isinstance(item, str) else json.dumps(item)}</{name}>")
    return "\n".join(lines)


@cache
def _known() -> list[tuple[str, str, dict[str, re.Pattern[str]]]]:
    """Every template for agents: name, system message, and what its question looks like in each way of answering."""
    found = []
    for file in sorted(FOLDER.glob("*.txt")):
        template = load(file.stem)
        if {"system", "user", "constrained", "tagged"} <= set(template.sections):
            ways = {way: _pattern(template, way) for way in ("constrained", "tagged")}
            found.append((template.name, _plain(template.sections["system"]), ways))
    return found


def _pattern(template: Template, way: str) -> re.Pattern[str]:
    """The question as a pattern: the sections that may be left out stand between `user` and the way of answering."""
    seen: set[str] = set()
    text = _section(template.sections["user"], seen)
    for name, section in template.sections.items():
        if name not in ("system", "user", "tagged", "constrained"):
            text += f"(?:\n\n{_section(section, seen)})?"
    return re.compile(f"{text}\n\n{_section(template.sections[way], seen)}", re.DOTALL)


def _section(text: str, seen: set[str]) -> str:
    parts = []
    for index, part in enumerate(FIELD.split(text)):
        if index % 2 == 0:
            parts.append(re.escape(_plain(part)))
        else:
            parts.append(f"(?P={part})" if part in seen else f"(?P<{part}>.*?)")
            seen.add(part)
    return "".join(parts)


def _plain(text: str) -> str:
    return text.replace("{{", "{").replace("}}", "}")
