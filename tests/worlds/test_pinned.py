"""References in the schemas of tools from outside are written out, whatever their form."""

from typing import Any

import pytest

from rods.analysis.schemas import Checker
from rods.canonical import canonical
from rods.errors import UserError
from rods.worlds.pinned import Pinned, closed, tool_of

DAY = {"type": "string", "enum": ["mon", "tue"]}
FORMS = [
    ("#/$defs/Day", {"$defs": {"Day": DAY}}),
    ("#/definitions/Day", {"definitions": {"Day": DAY}}),
    ("#/properties/first", {}),
    ("#/$defs/a~1b%20c", {"$defs": {"a/b c": DAY}}),
    ("#/$defs/Days/anyOf/1", {"$defs": {"Days": {"anyOf": [{"type": "null"}, DAY]}}}),
    ("#day", {"$defs": {"Day": {"$anchor": "day", **DAY}}}),
    ("#/$defs/Alias", {"$defs": {"Alias": {"$ref": "#/$defs/Day"}, "Day": DAY}}),
    ("#/allOf/0/properties/day", {"allOf": [{"properties": {"day": DAY}}]}),
]


def schema_of(reference: Any, more: dict[str, Any]) -> dict[str, Any]:
    properties = {"first": DAY, "second": {"$ref": reference, "description": "Which day."}}
    record = {"name": "plan", "inputSchema": {"type": "object", "properties": properties, **more}}
    parameter = tool_of(record, "days").parameters[1]
    assert parameter.description == "Which day."
    return dict(parameter.schema)


@pytest.mark.parametrize(("reference", "more"), FORMS)
def test_a_reference_is_written_out(reference: str, more: dict[str, Any]) -> None:
    assert DAY.items() <= schema_of(reference, more).items()


@pytest.mark.parametrize("reference", ["#/$defs/None", "#/properties/first/enum/9", "#none",
                                       "https://example.com/day.json"])  # fmt: skip
def test_a_reference_to_nothing_says_nothing(reference: str) -> None:
    assert schema_of(reference, {}) == {}


def test_what_goes_round_in_a_circle_ends_and_keys_keep_their_order() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "a": {}}}
    schema = schema_of("#/$defs/Node", {"$defs": {"Node": node}})
    assert list(schema) == ["type", "properties"] and list(schema["properties"]) == ["next", "a"]
    assert "$ref" not in str(schema)


ODD: list[dict[str, Any]] = [
    {"properties": {"k": True, "n": False}},
    {"properties": {"k": {"type": "integer", "default": 2**80}}},
    {"properties": {"k": {"description": {"en": "No text."}}}},
    {"properties": 5, "required": "k", "allOf": {}, "anyOf": [3], "oneOf": None, "then": []},
    {"properties": {"$ref": {"type": "string"}, "$schema": {"type": "string"}}},
    {"dependencies": [], "dependentSchemas": {"k": 1}, "if": "x"},
]


@pytest.mark.parametrize("schema", ODD)
def test_what_is_no_schema_is_shown_as_far_as_it_is_one(schema: dict[str, Any]) -> None:
    tool = tool_of({"name": "plan", "inputSchema": schema}, "days")
    named = schema.get("properties")
    assert list(tool.parameter_names) == list(named if isinstance(named, dict) else [])
    assert all(isinstance(parameter.description, str) for parameter in tool.parameters)
    assert closed(schema).keys() >= schema.keys()


def test_references_that_fan_out_are_written_out_as_far_as_there_is_room() -> None:
    width = 40
    names = [f"L{place}" for place in range(7)]
    levels = {}
    for name, after in zip(names, [*names[1:], names[-1]], strict=True):
        fields = {f"p{place}": {"$ref": f"#/$defs/{after}"} for place in range(width)}
        levels[name] = {"type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/L0"}}, "$defs": levels}
    shown = tool_of({"name": "plan", "inputSchema": schema}, "days").schema()
    assert len(canonical(shown)) < 2_000_000
    assert Checker(closed(schema)).fits({"a": {"p1": {"p2": {"p3": {}}}}})


def test_nothing_is_fetched_for_a_schema(tmp_path: Any) -> None:
    (tmp_path / "day.json").write_text('{"type": "integer"}')
    address = (tmp_path / "day.json").as_uri()
    assert "out of the schema" in Checker({"properties": {"a": {"$ref": address}}}).broken


@pytest.mark.parametrize(("schema", "legal"), [(True, {}), (False, {"not": {}})])
def test_a_schema_may_be_a_flag(schema: bool, legal: dict[str, Any]) -> None:
    listed = {"type": "object", "properties": {"k": schema, "r": {"$ref": "#/$defs/a"}}}
    record = {"name": "plan", "inputSchema": {**listed, "$defs": {"a": schema}}}
    first, second = tool_of(record, "days").parameters
    assert (first.schema, second.schema) == (legal, {})


@pytest.mark.parametrize("number", [1 << 64, 1 << 80, -(1 << 63) - 1, 10**400])
@pytest.mark.parametrize("place", ["default", "maximum", "enum"])
def test_numbers_that_no_record_can_hold_are_refused(number: int, place: str) -> None:
    value = [number] if place == "enum" else number
    schema = {"type": "object", "properties": {"k": {"type": "integer", place: value}}}
    with pytest.raises(UserError, match="tools: no JSON that every reader takes"):
        Pinned.of("plan", {"tools": [{"name": "plan", "inputSchema": schema}]})
