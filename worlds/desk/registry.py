"""How desk's tools are declared: a function over the plain state, its schema, and a checker made from that schema.

A tool is `function(state, **arguments) -> dict`: it changes the state in place, returns a small JSON object, and raises
`Refused` with a short message when a precondition fails, before it has changed anything. Its bounds keep every legal
call fast and small, so all tools run in-process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rods.environments.base import Parameter, Tool

State = dict[str, Any]
ToolFunction = Callable[..., dict[str, Any]]
CheckFunction = Callable[..., bool]
F = TypeVar("F", bound=Callable[..., Any])
MAX_ENTRIES = 200  # of a kind (files, events, mails, …): keeps results and snapshots small whatever a policy does


REFUSALS = (
    "no such contact",
    "contact exists",
    "too many contacts",
    "no such mail",
    "too many mails",
    "no such event",
    "hour taken",
    "too many events",
    "too many guests",
    "no such file",
    "file exists",
    "file locked",
    "file not locked",
    "too many files",
    "no such account",
    "same account",
    "not enough money",
    "too much money",
    "no such bill",
    "bill paid",
    "too many bills",
    "no change",
)


class Refused(Exception):
    """A tool's precondition does not hold. The message, one of `REFUSALS`, is what the policy reads."""


@dataclass(frozen=True, slots=True)
class Check:
    """One parameter's schema, unpacked for speed."""

    kind: type
    low: float
    high: float  # of an integer's value, or of a text's length
    allowed: frozenset[str] | None
    required: bool


@dataclass(frozen=True, slots=True)
class Registered:
    """A tool with what runs it."""

    tool: Tool
    function: ToolFunction | CheckFunction
    checks: Mapping[str, Check]
    required: tuple[str, ...]


REGISTRY: dict[str, Registered] = {}
CHECKS: dict[str, Registered] = {}  # functions that answer true or false of the state, for goals; no policy sees one


def text(description: str, *, longest: int = 40, required: bool = True) -> tuple[str, dict[str, Any], bool]:
    return description, {"type": "string", "minLength": 1, "maxLength": longest}, required


def one_of(description: str, values: tuple[str, ...], *, required: bool = True) -> tuple[str, dict[str, Any], bool]:
    return description, {"type": "string", "enum": list(values)}, required


def whole(description: str, low: int, high: int) -> tuple[str, dict[str, Any], bool]:
    return description, {"type": "integer", "minimum": low, "maximum": high}, True


def tool(
    group: str, description: str, **parameters: tuple[str, dict[str, Any], bool]
) -> Callable[[ToolFunction], ToolFunction]:
    """Registers the decorated function as a tool of the API class `group`."""
    return _registering(REGISTRY, group, description, parameters)


def goal_check(
    description: str, **parameters: tuple[str, dict[str, Any], bool]
) -> Callable[[CheckFunction], CheckFunction]:
    """Registers the decorated function as a check. Checks are not part of desk's hash, whose tasks need none: one that
    is to answer otherwise gets another name."""
    return _registering(CHECKS, "checks", description, parameters)


def _registering(
    registry: dict[str, Registered],
    group: str,
    description: str,
    parameters: Mapping[str, tuple[str, dict[str, Any], bool]],
) -> Callable[[F], F]:
    def register(function: F) -> F:
        made = Tool(
            function.__name__,
            group,
            description,
            tuple(Parameter(name, schema, about, required) for name, (about, schema, required) in parameters.items()),
        )
        checks = {name: _check(schema, required) for name, (_, schema, required) in parameters.items()}
        required = tuple(name for name, check in checks.items() if check.required)
        registry[made.name] = Registered(made, function, checks, required)
        return function

    return register


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


def _check(schema: Mapping[str, Any], required: bool) -> Check:
    if schema["type"] == "integer":
        return Check(int, schema["minimum"], schema["maximum"], None, required)
    allowed = frozenset(schema["enum"]) if "enum" in schema else None
    return Check(str, schema.get("minLength", 0), schema.get("maxLength", 40), allowed, required)
