"""Replies in the native forms of model families: what they say, and that what is written is read
back."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rods.calls import Call
from rods.dialects.families import families, named
from rods.dialects.native import Native
from rods.environments.base import Parameter, Tool

TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "count": {"type": "integer"},
    "share": {"type": "number"},
    "sure": {"type": "boolean"},
    "items": {"type": "array"},
    "details": {"type": "object"},
    "nothing": {"type": "null"},
    "either": {"type": ["integer", "string"]},
    "maybe": {"anyOf": [{"type": "null"}, {"type": "number"}]},
    "choice": {"enum": ["1", "2"]},
    "any": {},
}
TOOL = Tool(
    "send", "mail", "Sends.", tuple(Parameter(key, schema) for key, schema in TYPES.items())
)
TOOLS = {"send": TOOL, "ls": Tool("ls", "files", "Lists.")}

HARD = """75001|null|true|a 'b' "c"|x

y| padded |<b>bold</b>|\\n|é 漢字 🙂|</tool_call>|<tool_call>|<think>|</think>|[TOOL_CALLS]|{|```"""
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    HARD.split("|")
)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
keys = st.text("abc", min_size=1, max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "text": texts,
        "count": st.integers(-(2**53), 2**53),
        "share": st.floats(allow_nan=False, allow_infinity=False),
        "sure": st.booleans(),
        "items": st.lists(json_values, max_size=3),
        "details": st.dictionaries(keys, json_values, max_size=3),
        "nothing": st.none(),
        "choice": st.sampled_from("12"),
    },
)
calls = st.lists(
    st.builds(Call, st.just("send"), arguments) | st.just(Call("ls")), min_size=1, max_size=3
)
#: what a form cannot carry in a text: its own closing marker
CLOSING = {
    "qwen3_5": "</parameter>",
    "nemotron3": "</parameter>",
    "minimax_m2": "</parameter>",
    "glm4": "</arg_value>",
    "gemma4": '<|"|>',
    "functiongemma": "<escape>",
}


def native(name):
    return Native(named(name))


@pytest.mark.parametrize("name", families())
@given(written=calls)
def test_what_a_family_writes_it_reads_back(name, written):
    text = native(name).write(written)
    parsed = native(name).parse(text, TOOLS)
    assert parsed.error is None, text
    assert [call.as_json() for call in parsed.calls] == [call.as_json() for call in written]
    read = json.dumps([dict(call.arguments) for call in parsed.calls], sort_keys=True)
    assert read == json.dumps([dict(call.arguments) for call in written], sort_keys=True), text


@pytest.mark.parametrize("name", families())
@given(text=st.text(max_size=60), data=st.data())
def test_any_text_is_exactly_one_of_calls_answer_error(name, text, data):
    dialect = native(name)
    marks = st.sampled_from([*dialect._marks, '{"name": "ls"', "{", "}", "ls", "<|message|>"])
    pieces = data.draw(st.lists(marks | st.just(text), max_size=8))
    parsed = dialect.parse("".join(pieces), TOOLS)
    assert sum([bool(parsed.calls), parsed.answer is not None, parsed.error is not None]) == 1


@pytest.mark.parametrize("name", families())
def test_an_answer_is_read_without_markers_and_thinking(name):
    dialect = native(name)
    think = named(name).think
    thinking = f"{think[0]}so{think[1]}" if think else ""
    for before in {"", thinking}:
        parsed = dialect.parse(before + dialect.answer("all is done"), TOOLS)
        assert parsed.answer == "all is done"
