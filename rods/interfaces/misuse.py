"""What a tool's document asks of arguments that it did not get: names, types, allowed values, ranges (000 Appendix C:
`parameter_constraint`, `format_mismatch`). Needs nothing but the documents, so it serves every environment.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from rods.analysis.schemas import Checker, limits
from rods.analysis.words import stems
from rods.environments.base import Parameter, Tool

MOST = 3  # names in one hint
LISTED = 12  # allowed values that are still listed
LONGEST = 60  # characters of a name that a policy made up
_UNITS = {"imum": "", "Length": " characters", "Items": " entries", "Properties": " entries"}


def misuse(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """A sentence for each argument that breaks the document of `tool`; none where all of them keep to it."""
    found: list[str] = []
    known = {parameter.name: parameter for parameter in tool.parameters}
    for unknown in arguments.keys() - known.keys():
        name = unknown[:LONGEST]
        close = named(alike(name, [free for free in known if free not in arguments]))
        takes = f"it takes {named(known)}" if known else "it takes none"
        found.append(f"`{tool.name}` has no argument `{name}`; " + (f"did you mean {close}?" if close else f"{takes}."))
    for name, parameter in known.items():
        if name not in arguments:
            if parameter.required:
                found.append(f"`{name}` is missing{_about(parameter)}.")
        elif wrong := _wrong(arguments[name], parameter):
            found.append(f"`{name}` must be {wrong}{_about(parameter)}.")
    return sorted(found)


def alike(name: str, others: Iterable[str]) -> list[str]:
    """At most `MOST` of `others` that are spelled like `name` or share a word with it, the likest first."""
    known = list(others)
    close = difflib.get_close_matches(name[:LONGEST], known, MOST)
    words = set(stems(name[:LONGEST]))
    shared = {other: len(words.intersection(stems(other))) for other in known if other not in close}
    akin = sorted((other for other, count in shared.items() if count), key=lambda other: (-shared[other], other))
    return (close + akin)[:MOST]


def named(names: Iterable[str]) -> str:
    """The names in backticks: `a`, `b` or `c`."""
    *first, last = [f"`{name}`" for name in names] or [""]
    return f"{', '.join(first)} or {last}" if first else last


def _about(parameter: Parameter) -> str:
    """What its document says of it."""
    about = parameter.description.partition("\n")[0].strip().rstrip(".")
    return f" ({about})" if about and about != parameter.name else ""


def _wrong(value: Any, parameter: Parameter) -> str:
    """What the value should have been; empty where it conforms, or where that takes too long to say."""
    checker = Checker(limits(parameter))
    for error in checker.errors(value):
        keyword, deep, schema = error.kind.name, len(error.instance_path), checker.at(error)
        if keyword == "type" and not deep:
            kind = schema["type"]
            return f"{'an' if kind[0] in 'aio' else 'a'} {kind}"
        if keyword == "enum" and deep < 2 and len(schema["enum"]) <= LISTED:
            return f"one of {', '.join(map(str, schema['enum']))}"
        if not deep and keyword[:3] in ("min", "max"):
            low, high = schema.get(f"min{keyword[3:]}"), schema.get(f"max{keyword[3:]}")
            unit = _UNITS[keyword[3:]]
            if low is not None and high is not None:
                return f"between {low} and {high}{unit}"
            return f"at most {high}{unit}" if low is None else f"at least {low}{unit}"
    return ""
