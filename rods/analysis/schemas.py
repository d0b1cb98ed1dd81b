"""What the schema of a parameter says: whether it is valid, whether it bounds its values, whether a value fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rods.canonical import canonical
from rods.environments.base import Parameter, Tool

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}


def tool_faults(name: str, tool: Tool) -> Iterator[tuple[str, str, str]]:
    """(field, what, remedy) for everything wrong with how a tool describes itself."""
    if tool.name != name:
        yield "name", f"is {tool.name!r}, but tools() lists it as {name!r}", "use one name"
    for field in ("group", "description"):
        if not getattr(tool, field):
            yield field, "is empty", "policies and profiles read it"
    names = tool.parameter_names
    for parameter in tool.parameters:
        if names.count(parameter.name) > 1:
            yield parameter.name, "is declared twice", "declare it once"
        for what, remedy in _parameter_faults(parameter, tool.bounded):
            yield parameter.name, what, remedy


def limits(parameter: Parameter) -> dict[str, Any]:
    """The parameter's schema with the bounds that are checked but not shown."""
    return {**parameter.schema, **parameter.bounds}


def _parameter_faults(parameter: Parameter, bounded: bool) -> Iterator[tuple[str, str]]:
    yield from _schema_faults(limits(parameter))
    if bounded and (what := _unbounded(limits(parameter))):
        yield what, "add the bound, or declare the tool bounded=False so that it runs in a worker"
    default = parameter.default
    if not parameter.required and default is not None and not fits(parameter.schema, default):
        yield f"has the default {default!r}, which its schema does not allow", "correct one of the two"


def _schema_faults(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    kind = schema.get("type")
    if kind is not None and kind not in TYPES:
        yield f"has the type {kind!r}", f"JSON Schema knows {', '.join(TYPES)}"
    try:
        canonical(schema)
    except ValueError as error:
        yield f"has a schema that is {error}", "use plain JSON values"
    options = schema.get("enum")
    if options is not None and (not isinstance(options, (list, tuple)) or not options):
        yield "has an empty enum", "list the values"
    elif options is not None and kind in TYPES and not all(isinstance(option, TYPES[kind]) for option in options):
        yield f"has an enum with values that are no {kind}", "correct them"
    for low, high in (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")):
        if low in schema and high in schema and schema[low] > schema[high]:
            yield f"has {low} over {high}", "exchange them"
    for inner in _inner(schema):
        yield from _schema_faults(inner)


def _unbounded(schema: Mapping[str, Any]) -> str:
    """What keeps the schema from bounding its values; empty when it does. Floats have a size of their own."""
    kind = schema.get("type")
    if "enum" in schema or kind in ("boolean", "null", "number"):
        return ""
    bounds = {
        "string": ("maxLength",),
        "integer": ("minimum", "maximum"),
        "array": ("maxItems",),
        "object": ("maxProperties",),
    }.get(str(kind))
    if bounds is None:
        return "has no type, so nothing bounds it"
    lacking = [bound for bound in bounds if bound not in schema]
    if lacking and not (kind == "object" and "properties" in schema):
        return f"is of a bounded tool but has no {' and no '.join(lacking)}"
    return ""


def _inner(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    inner = [schema["items"]] if isinstance(schema.get("items"), Mapping) else []
    properties = schema.get("properties")
    return inner + [each for each in (properties or {}).values() if isinstance(each, Mapping)]


def fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether `value` is of the schema's type and within its bounds. True is no number."""
    kind = schema.get("type")
    if kind in TYPES and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, str):
        return bool(schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    if isinstance(value, (list, tuple)):
        sized = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        return bool(sized) and ("items" not in schema or all(fits(schema["items"], item) for item in value))
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        return all(fits(properties[key], item) for key, item in value.items() if key in properties)
    return True
