"""How desk's tools are declared (tools.toml): a schema, what runs it, and a checker made from that
schema.

The bounds of a tool keep every legal call fast and small, so all tools run in-process.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rods.canonical import JsonMapping, JsonObject, frozen
from rods.environments.base import Parameter, Tool
from rods.worlds.desk import pools, tools

# what the names of tools that change nothing begin with
READING = ("find_", "list_", "read_", "search_", "get_")


@frozen
class Check:
    """One parameter's schema, unpacked for speed."""

    kind: type
    low: float
    high: float  # of an integer's value, or of a text's length
    allowed: frozenset[str] | None


@frozen
class Registered:
    """A tool with what runs it."""

    tool: Tool
    function: Callable[..., Any]
    checks: Mapping[str, Check]
    required: tuple[str, ...]


def registered(
    name: str,
    group: str,
    about: str,
    function: Callable[..., Any],
    takes: Iterable[str],
    values: JsonMapping,
) -> Registered:
    """The tool called `name`; `values`, of those arguments that are not as under [values] in
    tools.toml."""
    parameters = []
    for argument in takes:
        value = values.get(argument, VALUES[argument])
        required = value.get("required", True)
        parameters.append(Parameter(argument, _schema(value), value["about"], required))
    checks = {parameter.name: _check(parameter.schema) for parameter in parameters}
    required = tuple(parameter.name for parameter in parameters if parameter.required)
    tool = Tool(name, group, about, tuple(parameters), reads=name.startswith(READING) or None)
    return Registered(tool, function, checks, required)


def _schema(value: JsonMapping) -> JsonObject:
    pool = getattr(pools, value.get("pool", ""), None)
    if pool and isinstance(pool[0], str):
        return {"type": "string", "enum": list(pool)}
    if pool:
        return {"type": "integer", "minimum": pool[0], "maximum": pool[-1]}
    if "most" in value:
        return {
            "type": "integer",
            "minimum": value.get("least", 1),
            "maximum": getattr(pools, value["most"]),
        }
    return {"type": "string", "minLength": 1, "maxLength": value.get("longest", 40)}


def _check(schema: JsonMapping) -> Check:
    if schema["type"] == "integer":
        return Check(int, schema["minimum"], schema["maximum"], None)
    allowed = frozenset(schema["enum"]) if "enum" in schema else None
    return Check(str, schema.get("minLength", 0), schema.get("maxLength", 0), allowed)


def fault(registered: Registered, arguments: JsonMapping) -> tuple[str, str] | None:
    """(error kind, message) of the first argument that breaks the schema, or None. Kinds as in
    `Result.error`."""
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


_DECLARED = tomllib.loads(Path(tools.__file__).with_suffix(".toml").read_text())
VALUES = _DECLARED.pop("values")
RULES = _DECLARED.pop("rules")
REGISTRY = {
    name: registered(
        name,
        group,
        declared["about"],
        tools.on_entry(declared["of"], declared["does"], unlocked=declared.get("unlocked", False))
        if "does" in declared
        else getattr(tools, name),
        declared["takes"],
        declared.get("values", {}),
    )
    for group, members in _DECLARED.items()
    for name, declared in members.items()
}
