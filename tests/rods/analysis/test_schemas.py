"""What a schema gets wrong, and whether a value conforms to it."""

from __future__ import annotations

from typing import Any

import pytest

from rods.analysis.schemas import Checker, fits, tool_faults
from rods.environments.base import Parameter, Tool

ROOM = {
    "type": "object",
    "properties": {"seats": {"type": "integer", "minimum": 1}},
    "required": ["seats"],
}


@pytest.mark.parametrize(
    ("schema", "value", "conforms"),
    [
        ({"type": "integer"}, 3, True),
        ({"type": "integer"}, 3.0, False),
        ({"type": "integer"}, True, False),
        ({"type": "number"}, 3, True),
        ({"type": "integer", "maximum": 10**30}, 10**29, True),
        ({"type": ["string", "null"]}, None, True),
        ({"type": ["string", "null"]}, 1, False),
        ({"enum": [1, 2]}, True, False),
        ({"enum": [5]}, 5.0, True),
        ({"const": "x"}, "y", False),
        ({"type": "string", "pattern": "^[A-Z]{3}$"}, "LAX", True),
        ({"type": "string", "pattern": "^[A-Z]{3}$"}, "lax", False),
        ({"type": "string", "maxLength": 2}, "äö", True),
        ({"type": "string"}, "\ud800", False),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 2}, (1, 2), True),
        ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, 3, False),
        (ROOM, {"seats": 2, "more": 1}, True),
        ({**ROOM, "additionalProperties": False}, {"seats": 2, "more": 1}, False),
        (
            {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"maxLength": 1}}},
            {"a": "xx"},
            False,
        ),
        ({"type": "float"}, "anything", True),  # no valid schema: it binds nothing
    ],
)
def test_a_value_conforms_or_not(schema: dict[str, Any], value: Any, conforms: bool) -> None:
    assert fits(schema, value) is conforms
    assert (Checker(schema).fault(value) == "") is conforms


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"const": "x"}, "y", "must be 'x'"),
        ({"type": "integer"}, "y", "must be of type integer"),
        ({"type": "integer", "minimum": 2}, 1, "must lie between 2 and 1"),
        ({"enum": ["a", "b"]}, "c", "must be one of a, b, not 'c'"),
        ({"type": "string", "maxLength": 2}, "abc", "has 3 characters, allowed are 0 to 2"),
        ({"type": "array", "minItems": 2}, [1], "has 1 elements, allowed are 2 to 1"),
        (
            {"type": "array", "items": {"type": "string"}},
            ["a", 1, 2],
            "at 1: must be of type string",
        ),
        (ROOM, {}, "lacks 'seats'"),
        (ROOM, {"seats": 0}, "in seats: must lie between 1 and 0"),
        (
            {**ROOM, "additionalProperties": False},
            {"seats": 1, "more": 1},
            "has an unknown field 'more'",
        ),
        (
            {"items": {"anyOf": [ROOM, {"type": "null"}]}},
            [{"seats": "x"}],
            "at 0: in seats: must be of type integer",
        ),
        ({"type": "string", "pattern": "^a"}, "b", 'breaks its schema: "b" does not match "^a"'),
        ({"type": "string"}, "\ud800", "is no JSON"),
        (
            {"additionalProperties": {"maximum": 3}},
            {"4": 5, "a": 6},
            "at 4: must lie between 5 and 3",
        ),
        (
            {"properties": {"3": {"enum": ["a"]}}},
            {"3": {"b": 1, "a": [2]}},
            "at 3: must be one of a, not \"{'b': 1, 'a': [2]}\"",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    schema: dict[str, Any], value: Any, told: str
) -> None:
    assert Checker(schema).fault(value) == told


def test_what_a_tool_s_schemas_get_wrong_is_told_with_a_remedy() -> None:
    def faults(schema: dict[str, Any], **more: Any) -> list[tuple[str, str, str]]:
        tool = Tool(
            "pour", "Kitchen", "Pours.", (Parameter("amount", schema),), bounded=False, **more
        )
        return list(tool_faults("pour", tool))

    assert faults({"type": ["integer", "null"]}) == []
    assert faults({"type": "float"})[0][1] == "has the type 'float'"
    assert (
        faults({"type": "integer", "enum": [1, "a"]})[0][1]
        == "has an enum with values that are no integer"
    )
    assert (
        faults({"type": "integer", "minimum": 3, "maximum": 2})[0][1] == "has minimum over maximum"
    )
    ((field, what, remedy),) = faults({"type": "string", "pattern": "("})
    assert (
        field == "amount"
        and what.startswith("has a schema that is none: ")
        and "JSON Schema" in remedy
    )
    assert faults({"type": "integer"}, result={"type": "dict"})[0][:2] == (
        "result",
        "has the type 'dict'",
    )
