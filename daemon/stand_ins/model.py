"""A stand-in for a language model that plays every role of the table.

It is no model. A request is read back into its template and fields, answered by its role, and the
answer's fields are written in the way that the request wants. Chance hangs on the request alone, so
the same question has the same answer. So the path from prompt to variant can be tried without a
model; what comes of it is evidence for nothing.

The table of roles is joined from the author's and those of the extensions that are there, each in
its module `stand_in`."""

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from random import Random
from string import Formatter
from types import ModuleType

from rods.analysis.sampling import Sampler
from rods.canonical import JsonMapping, JsonObject
from rods.daemon.stand_ins import author
from rods.daemon.stand_ins.roles import Answer, Asked, Role
from rods.extension import Door
from rods.prompts import FOLDER, Template, load


def read(request: JsonMapping) -> Asked | None:
    """The body of a chat request. None for one that comes from no template of the project."""
    messages = request.get("messages", [])
    if len(messages) < 2 or messages[0]["role"] != "system":
        return None
    schema = schema_of(request)
    way = "tagged" if schema is None else "constrained"
    question = messages[1]["content"]
    for name, system, patterns in _known():
        if system == messages[0]["content"] and (match := patterns[way].fullmatch(question)):
            fields = match.groupdict("")
            again = len(messages) > 2
            return Asked(name, fields, question, schema, chance_of(request), again)
    return None


def written(fields: Answer, *, constrained: bool) -> str:
    """`fields` as one JSON object, or each between tags of its name, a list element by element."""
    reasoned = {"reason": "It follows from what is shown.", **fields}
    if constrained:
        return json.dumps(reasoned)
    listed = (
        (name, value if isinstance(value, list) else [value]) for name, value in reasoned.items()
    )
    texts = (
        (name, item if isinstance(item, str) else json.dumps(item))
        for name, items in listed
        for item in items
    )
    return "\n".join(f"<{name}>{text}</{name}>" for name, text in texts)


def schema_of(request: JsonMapping) -> JsonObject | None:
    """The JSON Schema that an answer is held to."""
    wanted = request.get("response_format") or {}
    return wanted["json_schema"]["schema"] if wanted.get("type") == "json_schema" else None


def chance_of(request: JsonMapping) -> Random:
    """The chance that hangs on a request: the same question has the same answer."""
    return Random(json.dumps(request, sort_keys=True))


# modules of features with the roles of models that they ask (`ROLES`), as those of feedback (000)
STAND_INS: Door[str] = Door("stand_ins")


@cache
def _known() -> list[tuple[str, str, dict[str, re.Pattern[str]]]]:
    """Every template for agents: name, system message, and what its question looks like in each way
    of answering."""
    templates = []
    for file in sorted(FOLDER.glob("*.txt")):
        template = load(file.stem)
        if {"system", "user", "constrained", "tagged"} <= set(template.sections):
            ways = {way: _pattern(template, way) for way in ("constrained", "tagged")}
            templates.append((template.name, template.sections["system"].format(), ways))
    return templates


def _pattern(template: Template, way: str) -> re.Pattern[str]:
    """The question as a pattern: the sections that may be left out stand between `user` and the way
    of answering."""
    seen: set[str] = set()
    text = _section(template.sections["user"], seen)
    for name, section in template.sections.items():
        if name not in ("system", "user", "tagged", "constrained"):
            text += f"(?:\n\n{_section(section, seen)})?"
    return re.compile(f"{text}\n\n{_section(template.sections[way], seen)}", re.DOTALL)


def _section(text: str, seen: set[str]) -> str:
    parts = []
    for plain, name, *_ in Formatter().parse(text):
        parts.append(re.escape(plain))
        if name is not None:
            parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>.*?)")
            seen.add(name)
    return "".join(parts)


def parts() -> list[ModuleType]:
    """The modules with roles (rods.daemon.stand_ins.roles)."""
    return [author, *map(import_module, STAND_INS)]


def roles() -> dict[str, Role]:
    """A new table, which may be changed."""
    return {template: role for part in parts() for template, role in part.ROLES.items()}


class StandIn:
    """Answers by the table of roles; `played`: roles in place of those of the table."""

    def __init__(self, played: Mapping[str, Role] | None = None) -> None:
        self.roles = {**roles(), **(played or {})}

    def answer(self, request: JsonMapping) -> str:
        """The text of the answer to a chat request. Raises KeyError for a template that has no role
        here."""
        asked = read(request)
        if asked is not None:
            return written(self.roles[asked.template](asked), constrained=asked.schema is not None)
        schema = schema_of(request)  # a check of the endpoint, for instance
        if schema is None:
            return "This is no language model: it answers what the daemon asks, by rule."
        return json.dumps(Sampler(chance_of(request)).value("", schema))
