"""What a call says, in Python's spelling: literals of a bounded depth."""

import pytest

from rods.calls import Call, parse_python_call
from rods.model_json import MAX_DEPTH


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100, 190])
def test_nesting_cannot_hide_behind_brackets_in_a_text(depth):
    with pytest.raises(ValueError, match="nested deeper"):
        parse_python_call(f"rm(a='{')' * depth}', b={'[' * depth}{']' * depth}, c=(1,))", {})


def test_what_is_nested_within_the_bound_is_read():
    deep = "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)
    assert str(parse_python_call(f"rm(a='\\n', b={deep})", {}).arguments["b"]) == deep


def test_a_call_has_a_name_and_arguments_and_nothing_else():
    with pytest.raises(ValueError, match="not 'parameters'"):
        Call.from_json({"name": "rm", "parameters": {"x": 1}})
