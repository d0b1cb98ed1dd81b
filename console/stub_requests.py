"""What a stand-in for a language model is asked: a request is read back into its template and fields, and an answer's
fields are written in the way that it wants (console/stub_model.py)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from prompts import FOLDER, Template, load

FIELD = re.compile(r"\{(\w+)\}")

Answer = dict[str, Any]  # an answer's fields


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: `template` by name, its `fields` as texts, the whole `question`, the `schema` of a constrained answer
    or None for tags, the chance that hangs on it, and whether it is put `again` after an answer that was refused."""

    template: str
    fields: dict[str, str]
    question: str
    schema: dict[str, Any] | None
    chance: random.Random
    again: bool = False


def read(request: Mapping[str, Any]) -> Asked | None:
    """The body of a chat request. None for one that comes from no template of the project."""
    messages = request.get("messages", [])
    if len(messages) < 2 or messages[0]["role"] != "system":
        return None
    schema = schema_of(request)
    way = "tagged" if schema is None else "constrained"
    question = messages[1]["content"]
    for name, system, patterns in _known():
        if system == messages[0]["content"] and (match := patterns[way].fullmatch(question)):
            return Asked(name, match.groupdict(""), question, schema, chance_of(request), len(messages) > 2)
    return None


def written(fields: Answer, *, constrained: bool) -> str:
    """`fields` as one JSON object, or each between tags of its name, a list element by element."""
    reasoned = {"reason": "It follows from what is shown.", **fields}
    if constrained:
        return json.dumps(reasoned)
    return "\n".join(
        f"<{name}>{item if isinstance(item, str) else json.dumps(item)}</{name}>"
        for name, value in reasoned.items()
        for item in (value if isinstance(value, list) else [value])
    )


def schema_of(request: Mapping[str, Any]) -> dict[str, Any] | None:
    """The JSON Schema that an answer is held to."""
    wanted = request.get("response_format") or {}
    return wanted["json_schema"]["schema"] if wanted.get("type") == "json_schema" else None


def chance_of(request: Mapping[str, Any]) -> random.Random:
    """The chance that hangs on a request: the same question has the same answer."""
    return random.Random(json.dumps(request, sort_keys=True))


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
