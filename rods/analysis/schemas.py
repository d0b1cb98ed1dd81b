"""JSON Schema: what a tool's schemas get wrong, whether they bound their values, whether a value
conforms. Desk and BFCL check arguments by code of their own: ten times as quick, and what it says
is what their policies are shown."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from jsonschema_rs import ValidationError, Validator, validator_for

from rods.canonical import JsonMapping, JsonObject, canonical
from rods.environments.base import Parameter, Tool
from rods.model_json import TYPES, read_exact

# What bounds the values of a type.
BOUNDS = {
    "string": ["maxLength"],
    "integer": ["minimum", "maximum"],
    "array": ["maxItems"],
    "object": ["maxProperties"],
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
        yield from ((parameter.name, *fault) for fault in _faults(limits(parameter)))
        if tool.bounded and (what := _unbounded(limits(parameter))):
            yield (
                parameter.name,
                what,
                "add the bound, or declare the tool bounded=False so that it runs in a worker",
            )
        default = parameter.default
        if not parameter.required and default is not None and not fits(parameter.schema, default):
            what = f"has the default {default!r}, which its schema does not allow"
            yield parameter.name, what, "correct one of the two"
    yield from (("result", *fault) for fault in _faults(tool.result or {}))


def limits(parameter: Parameter) -> JsonObject:
    """The parameter's schema with the bounds that are checked but not shown, and the values its
    description lists."""
    schema = {**parameter.schema, **parameter.bounds}
    listed: JsonObject = {"enum": [*parameter.options]} if parameter.options else {}
    if listed and schema["type"] == "array":
        listed = {"items": {**schema.get("items", {}), **listed}}
    return schema | listed


def options(schema: JsonMapping) -> Sequence[Any]:
    """The values that a schema lists, of the value itself or of its entries; empty where it lists
    none."""
    inner = schema.get("items")
    return schema.get("enum") or (inner.get("enum") if isinstance(inner, Mapping) else None) or ()


def _schema_faults(schema: JsonMapping) -> Iterator[tuple[str, str]]:
    kind = schema.get("type")
    for name in kind if isinstance(kind, list) else [kind]:
        if name is not None and not (isinstance(name, str) and name in TYPES):
            yield f"has the type {name!r}", f"JSON Schema knows {', '.join(TYPES)}"
    try:
        canonical(schema)
    except ValueError as error:
        yield f"has a schema that is {error}", "use plain JSON values"
    options = schema.get("enum")
    if options is not None and (not isinstance(options, (list, tuple)) or not options):
        yield "has an empty enum", "list the values"
    elif options is not None and not all(
        fits({"type": kind} if kind else {}, option) for option in options
    ):
        yield f"has an enum with values that are no {kind}", "correct them"
    for low, high in (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")):
        lowest = schema.get(low)
        highest = schema.get(high)
        if (
            isinstance(lowest, (int, float))
            and isinstance(highest, (int, float))
            and lowest > highest
        ):
            yield f"has {low} over {high}", "exchange them"
    properties = schema.get("properties")
    inner = [schema.get("items"), *(properties.values() if isinstance(properties, Mapping) else ())]
    for part in inner:
        if isinstance(part, Mapping):
            yield from _schema_faults(part)


def _faults(schema: JsonMapping) -> Iterator[tuple[str, str]]:
    """Everything wrong with a schema: what is often wrong with its remedy, else in the words of the
    library."""
    faults = list(_schema_faults(schema))
    yield from faults
    if not faults and (broken := Checker(schema).broken):
        yield f"has a schema that is none: {broken}", "correct it: JSON Schema, draft 2020-12"


def _unbounded(schema: JsonMapping) -> str:
    """What keeps the schema from bounding its values; empty when it does. Floats have a size of
    their own."""
    kind = schema.get("type")
    if (
        "enum" in schema
        or kind in ("boolean", "null", "number")
        or (kind == "object" and "properties" in schema)
    ):
        return ""
    if str(kind) not in BOUNDS:
        return "has no type, so nothing bounds it"
    if lacking := [bound for bound in BOUNDS[str(kind)] if bound not in schema]:
        return f"is of a bounded tool but has no {' and no '.join(lacking)}"
    return ""


class Checker:
    """Whether values conform to a JSON Schema of the draft that its `$schema` names (2020-12 where
    it names none), which is compiled once. `broken` says why it is no valid schema ("" for a valid
    one); such a schema binds nothing. Nothing is fetched for it."""

    def __init__(self, schema: JsonMapping) -> None:
        self.schema = dict(schema)
        self.broken = ""
        self._validator: Validator | None = None
        try:
            self._validator = validator_for(
                self.schema, keywords={"type": _Type}, retriever=_elsewhere
            )
        except ValueError as error:
            self.broken = error.message if isinstance(error, ValidationError) else str(error)

    def fits(self, value: Any) -> bool:
        """Whether `value` conforms. What is no JSON (a lone surrogate, a key that is no text) never
        does."""
        try:
            return self._validator is None or self._validator.is_valid(value)
        except ValueError:
            return False

    def errors(self, value: Any) -> list[ValidationError]:
        """What keeps a JSON value from conforming: outer errors before inner ones, a wrong type
        before its bounds."""
        with suppress(ValueError):
            if self._validator is not None:
                return sorted(self._validator.iter_errors(value), key=_rank)
        return []

    def fault(self, value: Any) -> str:
        """The first of `errors` as the rest of a sentence; empty when `value` conforms."""
        if self.fits(value):
            return ""
        return next((self._told(flaw, value) for flaw in self.errors(value)), "is no JSON")

    def mended(self, value: Any) -> Any:
        """`value` with texts in it that the schema refuses as it means them, as far as one reading
        of each conforms: JSON of another type that stands as text, a listed text in other letters.
        Texts that conform are left alone. Changes objects and lists in place."""
        whole = {"": value}
        for error in self.errors(value):
            *outer, last = ["", *error.instance_path]
            holder = _inside(whole, outer)
            last = str(last) if isinstance(holder, Mapping) else last
            holder[last] = _as_meant(holder[last], self.at(error))
        return whole[""]

    def at(self, error: ValidationError) -> Any:
        """The part of the schema that an error is about."""
        return _inside(self.schema, error.schema_path[:-1])

    def _told(self, error: ValidationError, whole: Any) -> str:
        kind: Any = error.kind
        if kind.name == "anyOf":  # as the first of the schemas would say it
            return self._told(min(kind.context[0], key=_rank), whole)
        place = "".join(
            f"at {part}: " if isinstance(part, int) else f"in {part}: "
            for part in error.instance_path
        )
        return place + self.said(error, whole)

    def said(self, error: ValidationError, whole: Any) -> str:
        """What one error says of the value that is at fault in `whole`, as the rest of a
        sentence."""
        kind: Any = error.kind  # its fields depend on the keyword
        keyword = kind.name
        schema = self.at(error)
        value = _inside(whole, error.instance_path)
        message = f"breaks its schema: {error.message}"
        if keyword == "const":
            message = f"must be {schema['const']!r}"
        elif keyword == "type":
            message = f"must be of type {schema['type']}"
        elif keyword == "enum":
            message = (
                f"must be one of {', '.join(map(str, schema['enum'][:40]))}, not "
                f"{str(value)[:80]!r}"
            )
        elif keyword in ("minimum", "maximum"):
            message = (
                f"must lie between {schema.get('minimum', value)} and "
                f"{schema.get('maximum', value)}"
            )
        elif keyword in ("minLength", "maxLength", "minItems", "maxItems"):
            size = len(value)
            what = keyword[3:]
            unit = "characters" if what == "Length" else "elements"
            message = (
                f"has {size} {unit}, allowed are {schema.get(f'min{what}', 0)} to "
                f"{schema.get(f'max{what}', size)}"
            )
        elif keyword == "required":
            message = f"lacks {kind.property!r}"
        elif keyword == "additionalProperties":
            message = f"has an unknown field {kind.unexpected[0][:80]!r}"
        return message


def _elsewhere(address: str) -> NoReturn:
    raise ValueError("a reference leads out of the schema")


def fits(schema: JsonMapping, value: Any) -> bool:
    """Whether `value` conforms to `schema`. For many values of one schema make a `Checker`."""
    return Checker(schema).fits(value)


def _inside(value: Any, path: Iterable[str | int]) -> Any:
    """What stands at `path`, in which the library has the key "3" as the index 3."""
    for part in path:
        value = value[str(part) if isinstance(value, Mapping) else part]
    return value


def _as_meant(value: Any, schema: JsonMapping) -> Any:
    """The one value that conforms to `schema` of those that `value` may mean, or `value`."""
    readings: list[Any] = []
    if forms := schema.get("anyOf") or schema.get("oneOf"):
        readings += (Checker(form).mended(copy.deepcopy(value)) for form in forms)
    elif isinstance(value, str):
        text = value.strip()
        options = schema.get("enum") or [schema.get("const")]
        readings += (option for option in options if str(option).casefold() == text.casefold())
        with suppress(ValueError):
            readings.append(read_exact(text.lower() if text.lower() in ("true", "false") else text))
    checker = Checker(schema)
    conforming = {canonical(reading): reading for reading in readings if checker.fits(reading)}
    return conforming.popitem()[1] if len(conforming) == 1 else value


def _rank(error: ValidationError) -> tuple[list[tuple[bool, str | int]], bool]:
    return [
        (isinstance(part, str), part) for part in error.instance_path
    ], error.kind.name != "type"


class _Type:
    """The keyword `type`, stricter than the standard in one point: 3.0 is no integer, since tools
    would get a float."""

    def __init__(self, parent: JsonMapping, value: Any, path: Sequence[str | int]) -> None:
        self.kinds = value if isinstance(value, list) else [value]
        self.types = tuple({each for kind in self.kinds for each in TYPES[kind]})

    def validate(self, value: Any) -> None:
        kind = type(value)  # an exact one is told more quickly
        if kind not in self.types and (kind is bool or not isinstance(value, self.types)):
            raise ValueError(f"is not of type {self.kinds}")
