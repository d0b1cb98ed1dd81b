"""How desk's tools are declared: a function over the plain state, its schema, and a checker made from that schema.

A tool is `function(state, **arguments) -> dict`: it changes the state in place, returns a small JSON object, and raises
`Refused` with a short message when a precondition fails, before it has changed anything. Its bounds keep every legal
call fast and small, so all tools run in-process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rods.environments.base import Parameter, Tool

State = dict[str, Any]
ToolFunction = Callable[..., dict[str, Any]]
Declared = tuple[str, dict[str, Any], bool]  # a parameter's description, its schema, whether it is required
MAX_ENTRIES = 200  # of a kind (files, events, mails, …): keeps results and snapshots small whatever a policy does


class Refused(Exception):
    """A tool's precondition does not hold. The message is what the policy reads."""


@dataclass(frozen=True, slots=True)
class Check:
    """One parameter's schema, unpacked for speed."""

    kind: type
    low: float
    high: float  # of an integer's value, or of a text's length
    allowed: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Registered:
    """A tool with what runs it."""

    tool: Tool
    function: Callable[..., Any]
    checks: Mapping[str, Check]
    required: tuple[str, ...]


REGISTRY: dict[str, Registered] = {}
CHECKS: dict[str, Registered] = {}  # functions that answer true or false of the state, for goals; no policy sees one


def text(description: str, *, longest: int = 40) -> Declared:
    return description, {"type": "string", "minLength": 1, "maxLength": longest}, True


def one_of(description: str, values: tuple[str, ...], *, required: bool = True) -> Declared:
    return description, {"type": "string", "enum": list(values)}, required


def whole(description: str, low: int, high: int) -> Declared:
    return description, {"type": "integer", "minimum": low, "maximum": high}, True


def tool(group: str, description: str, **parameters: Declared) -> Callable[[ToolFunction], ToolFunction]:
    """Registers the decorated function as a tool of the API class `group`."""

    def register(function: ToolFunction) -> ToolFunction:
        name = function.__name__
        REGISTRY[name] = registered(name, group, description, function, parameters)
        return function

    return register


def registered(
    name: str, group: str, description: str, function: Callable[..., Any], parameters: Mapping[str, Declared]
) -> Registered:
    declared = tuple(Parameter(name, schema, about, required) for name, (about, schema, required) in parameters.items())
    checks = {name: _check(schema) for name, (_, schema, _) in parameters.items()}
    required = tuple(parameter.name for parameter in declared if parameter.required)
    return Registered(Tool(name, group, description, declared), function, checks, required)


def fault(registered: Registered, arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    """(error kind, message) of the first argument that breaks the schema, or None. Kinds as in `Result.error`."""
    checks = registered.checks
    for name, value in arguments.items():
        check = checks.get(name)
        if check is None:
            return "bad_arguments", "unknown argument"
        kind = type(value)
        if kind is not check.kind:
            return "bad_arguments", f"wrong type of {name}"
        if check.allowed is not None:
            if value not in check.allowed:
                return "bounds", f"bad {name}"
        elif kind is int:
            if not check.low <= value <= check.high:
                return "bounds", f"bad {name}"
        elif not (check.low <= len(value) <= check.high and value.isprintable()):
            return "bounds", f"bad {name}"
    if len(arguments) < len(checks):
        for name in registered.required:
            if name not in arguments:
                return "bad_arguments", f"missing {name}"
    return None


def _check(schema: Mapping[str, Any]) -> Check:
    if schema["type"] == "integer":
        return Check(int, schema["minimum"], schema["maximum"], None)
    allowed = frozenset(schema["enum"]) if "enum" in schema else None
    return Check(str, schema.get("minLength", 0), schema.get("maxLength", 0), allowed)
