"""References in the schemas of tools from outside are written out, whatever their form."""

from typing import Any

import pytest

from rods.errors import UserError
from rods.worlds.pinned import Pinned, tool_of

DAY = {"type": "string", "enum": ["mon", "tue"]}
FORMS = [
    ("#/$defs/Day", {"$defs": {"Day": DAY}}),
    ("#/definitions/Day", {"definitions": {"Day": DAY}}),
    ("#/properties/first", {}),
    ("#/$defs/a~1b%20c", {"$defs": {"a/b c": DAY}}),
    ("#/$defs/Days/anyOf/1", {"$defs": {"Days": {"anyOf": [{"type": "null"}, DAY]}}}),
    ("#day", {"$defs": {"Day": {"$anchor": "day", **DAY}}}),
    ("#/$defs/Alias", {"$defs": {"Alias": {"$ref": "#/$defs/Day"}, "Day": DAY}}),
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
