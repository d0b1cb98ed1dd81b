"""References in the schemas of tools from outside are written out, whatever their form."""

from typing import Any

import pytest

from rods.worlds.pinned import tool_of

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
