"""What is no schema, or one that nobody can fill, costs its tool and raises nothing raw: a world
outside may say of its tools what it likes."""

import random
from pathlib import Path

import orjson
import pytest

from rods.analysis.sampling import MOST, Sampler, illegal
from rods.analysis.schemas import tool_faults
from rods.environments.base import Tool
from rods.errors import UserError
from rods.worlds.pinned import Pinned, tool_of

ODD = [
    True,
    False,
    {"type": "object", "properties": {"a": False, "b": True}},
    {"type": "array", "items": True},
    {"type": "array", "items": {"type": "string"}, "minItems": 10**9},
    {"type": "array", "items": [{"type": "string"}]},
    {"type": "string", "minLength": 10**12},
    {"type": "string", "maxLength": 10**12},
    {"type": "string", "minLength": "x"},
    {"type": "integer", "minimum": "x"},
    {"type": "integer", "minimum": 5, "maximum": 1},
    {"type": "integer", "multipleOf": 0},
    {"type": "number", "maximum": 1.7e308},
    {"type": []},
    {"type": "nothing"},
    {"type": 5},
    {"enum": []},
    {"enum": {"a": 1}},
    {"enum": 5},
    {"anyOf": 5},
    {"anyOf": [5, True]},
    {"oneOf": []},
    {"const": {"a": [1]}},
    {"examples": 5},
    {"properties": 5, "type": "object"},
    {"pattern": "(", "type": "string"},
    {"pattern": 5, "type": "string"},
    {"$ref": "#"},
    {"$ref": "#/definitions/nowhere"},
    {"$ref": 5},
    {"description": 5, "default": [None], "title": {}},
]


@pytest.mark.parametrize("schema", ODD, ids=str)
def test_a_tool_is_shown_and_tried_whatever_its_argument_is_said_to_be(schema: object) -> None:
    listed = {"type": "object", "properties": {"k": schema}, "required": ["k"]}
    (record,) = Pinned.of("odd", {"tools": [{"name": "a", "inputSchema": listed}]}).tools
    tool = tool_of(record, "odd")
    assert isinstance(tool, Tool) and orjson.dumps(tool.schema())
    assert all(fault for fault in tool_faults("a", tool))
    sampler = Sampler(random.Random(0))
    for _ in range(20):
        drawn = sampler.call(tool)
        assert len(str(drawn)) < 20 * MOST
        assert all(len(str(call)) < 20 * MOST for *_, call in illegal(tool, sampler))


@pytest.mark.parametrize(
    ("tools", "what"),
    [
        ([{"name": "a", "inputSchema": {}}, {"name": "a", "inputSchema": {}}], "name of its own"),
        ([{"name": "a", "inputSchema": True}], "'a' has no inputSchema"),
        ([{"name": "a"}], "'a' has no inputSchema"),
        ([{"name": 5, "inputSchema": {}}], "name of its own"),
        ([{"inputSchema": {}}], "name of its own"),
        ([{"name": "a", "inputSchema": {"default": 2**80}}], "no JSON that every reader takes"),
    ],
)
def test_a_list_of_tools_that_is_none_is_refused_with_a_word(
    tools: list[object], what: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=what):
        Pinned.of(str(tmp_path / "odd.json"), {"tools": tools})
