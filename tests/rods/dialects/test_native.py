"""Replies in the native forms of model families: what they say, and that what is written is read
back."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rods.calls import MAX_CALLS, Call
from rods.dialects import Dialect, families as families_module, load
from rods.dialects.families import families, family_of, named, read_family
from rods.dialects.native import Native
from rods.environments.base import Parameter, Tool
from rods.errors import UserError

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


LS = Call("ls")
FOLDER = Path(families_module.__file__).parent


@pytest.mark.parametrize("name", families())
@pytest.mark.parametrize("before", ["", "Let me see.\n\n"])
@pytest.mark.parametrize("after", ["", "\n\nThat is all."])
def test_text_around_calls_is_kept_out(name, before, after):
    family = named(name)
    if before and not family.open:
        pytest.skip("a call without a marker begins its reply")
    if family.prefix and before:
        before = f"<|channel|>commentary<|message|>{before}<|end|><|start|>assistant"
    reply = before + native(name).write([LS, Call("send", {"text": "x"})]) + after
    assert native(name).parse(reply, TOOLS).calls == (LS, Call("send", {"text": "x"}))


@pytest.mark.parametrize("name", [name for name in families() if families()[name].think])
def test_a_call_in_thinking_is_no_call_and_thinking_without_an_end_is_malformed(name):
    dialect = native(name)
    opened, closed = named(name).think or ("", "")
    call = dialect.write([LS])
    start = "<|start|>assistant" if named(name).prefix else ""
    thought = f"{opened}maybe {call}{closed}{start}"
    assert dialect.parse(thought + dialect.answer("Done."), TOOLS).answer == "Done."
    assert dialect.parse(thought + call, TOOLS).calls == (LS,)
    assert dialect.parse(f"{opened}maybe {call}", TOOLS).error
    assert dialect.parse(f"{opened}maybe", TOOLS).error


@pytest.mark.parametrize("name", families())
@pytest.mark.parametrize("cut", [1, 2, 3, 5, 8])
def test_a_call_that_is_cut_is_malformed_and_so_is_the_whole_reply(name, cut):
    dialect = native(name)
    cut += named(name).unclosed and named(name).close.startswith("\n")
    call = dialect.write([Call("send", {"text": "x", "count": 3})])
    end = len(call) - (len(named(name).section[1]) + len(named(name).close.strip()))
    broken = call[: end - cut]
    parsed = dialect.parse(broken, TOOLS)
    assert (parsed.error and not parsed.in_call) or not named(name).close
    if not named(name).prefix:
        assert (
            dialect.parse(f"{dialect.write([LS])}\n{broken}", TOOLS).error or not named(name).open
        )


def test_a_broken_call_in_a_sound_frame_is_told_from_a_broken_frame():
    qwen = native("qwen")
    block = '<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>'
    for inside in (
        '{"name": "ls", "": {}}',
        '{"name": "ls"',
        "[]",
        '{"arguments": {}}',
        '{"name": "ls", "arguments": 3}',
    ):
        parsed = qwen.parse(f"{block}\n<tool_call>{inside}</tool_call>", TOOLS)
        assert parsed.error and parsed.in_call and not parsed.calls
    for reply in (f"{block}</tool_call>", "<tool_call>", f"{block} </think>"):
        parsed = qwen.parse(reply, TOOLS)
        assert parsed.error and not parsed.in_call


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("text", "75001", "75001"),
        ("text", "null", "null"),
        ("text", "\n x \n", "\n x \n"),
        ("count", "3", 3),
        ("count", "3.0", 3),
        ("count", "3.5", "3.5"),
        ("count", "true", "true"),
        ("share", "3", 3),
        ("share", "3.0", 3.0),
        ("sure", "True", True),
        ("sure", "false", False),
        ("sure", "1", "1"),
        ("items", "['a', True]", ["a", True]),
        ("items", '["a", true]', ["a", True]),
        ("details", "{'a': None}", {"a": None}),
        ("details", "__import__('os')", "__import__('os')"),
        ("nothing", "None", None),
        ("nothing", "null", None),
        ("either", "5", 5),
        ("either", "five", "five"),
        ("maybe", "null", None),
        ("maybe", "0.5", 0.5),
        ("choice", "1", "1"),
        ("any", "5", 5),
        ("any", "None", "None"),
        ("unknown", '{"a": 1}', {"a": 1}),
        ("unknown", "plain", "plain"),
    ],
)
def test_bare_text_is_typed_by_the_schema_of_its_parameter(key, text, value):
    reply = f"<tool_call>\n<function=send>\n<parameter={key}>\n{text}\n</parameter>\n</function>\n"
    (call,) = native("qwen3_5").parse(f"{reply}</tool_call>", TOOLS).calls
    assert call.arguments == {key: value} and type(call.arguments[key]) is type(value)


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("qwen", '<tool_call>{"name": "ls"}</tool_call>'),
        ("qwen", '<tool_call>{"name": "ls", "arguments": {}}'),
        ("qwen", 'a<tool_call>{"name": "ls", "arguments": {}, "id": "1"}</tool_call>b'),
        ("glm4", "<tool_call>ls</tool_call>"),
        ("qwen3_5", "<tool_call><function=ls></function></tool_call>"),
        ("llama3", '{"name": "ls", "parameters": {}}'),
        ("llama3", '\n{"name": "ls", "arguments": {}} and so on'),
        ("llama3", '<|python_tag|>{"name": "ls", "parameters": {}}'),
        ("lfm2", '<|tool_call_start|>[{"name": "ls", "arguments": {}}]<|tool_call_end|>'),
        ("mistral", '[TOOL_CALLS] [{"name": "ls", "arguments": {}, "id": "abcdefghi"}]'),
        ("mistral_v11", "[TOOL_CALLS]ls[CALL_ID]abcdefghi[ARGS]{}"),
        (
            "kimi_k2",
            "<|tool_call_begin|>functions.ls:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
        ),
        ("gptoss", " to=functions.ls<|channel|>commentary json<|message|>{}"),
        ("gptoss", "<|channel|>commentary to=functions.ls <|constrain|>json<|message|>{}"),
        ("gptoss", "<|channel|>commentary to=functions.ls<|message|>{}<|call|>"),
        (
            "gptoss",
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary"
            "<|message|>I look.<|end|><|start|>assistant to=functions.ls<|channel|>commentary json"
            "<|message|>{}",
        ),
        ("phi4_mini", 'functools[{"name": "ls", "arguments": {}}]'),
        ("granite3", '<tool_call>[{"name": "ls", "arguments": {}}]'),
    ],
)
def test_forms_that_models_write_beside_their_templates_are_calls(name, reply):
    assert native(name).parse(reply, TOOLS).calls == (LS,)


def test_calls_of_llama_are_separated_by_semicolons_or_lines():
    call = '{"name": "ls", "parameters": {}}'
    for between in ("; ", ";", "\n", ", ", ""):
        assert native("llama3").parse(call + between + call, TOOLS).calls == (LS, LS)
    assert native("llama3").parse(f'{call}; {{"name"', TOOLS).error


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lfm2", "Well, ping() is a tool, and [ping()] is a list."),
        ("llama3", 'Write {"name": "ls", "parameters": {}} to list.'),
        ("llama3", '{"a": 1}'),
        ("xlam", "[1, 2]"),
        ("xlam", '[{"name": "Ann", "note": ""}]'),
        ("qwen", "A tool_call is <b>bold</b>."),
        ("mistral", "[INST] no call"),
    ],
)
def test_prose_about_calls_is_an_answer(name, text):
    assert native(name).parse(text, TOOLS).answer == text


@pytest.mark.parametrize(
    "reply",
    [
        "<|channel|>commentary to=functions<|message|>",
        "<|channel|>commentary to=functions.ls json",
        "<|channel|>other<|message|>x",
        "<|message|>x",
        "<|channel|>analysis<|message|>x",
        "<|channel|>final",
    ],
)
def test_a_message_of_gpt_oss_without_a_sound_header_is_malformed(reply):
    assert native("gptoss").parse(reply, TOOLS).error


def test_the_final_channel_of_gpt_oss_is_the_answer():
    reply = "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>y"
    assert native("gptoss").parse(reply, TOOLS).answer == "y"


@pytest.mark.parametrize("name", families())
def test_a_reply_makes_so_many_calls_at_most(name):
    dialect = native(name)
    assert len(dialect.parse(dialect.write([LS] * MAX_CALLS), TOOLS).calls) == MAX_CALLS
    parsed = dialect.parse(dialect.write([LS] * (MAX_CALLS + 1)), TOOLS)
    assert not parsed.calls and f"{MAX_CALLS} calls at most" in str(parsed.error)


@pytest.mark.parametrize("name", families())
def test_a_text_that_holds_markers_is_written_so_that_it_is_read_back(name):
    dialect = native(name)
    if named(name).grammar in ("pairs", "braced"):
        pytest.skip("bare text cannot be escaped")
    call = Call("send", {"text": " ".join(dialect._marks), "items": [*dialect._marks]})
    written = dialect.write([call])
    assert dialect.parse(written, TOOLS).calls == (call,)
    frame = dialect.write([Call("send", {"text": "", "items": []})])
    assert all(written.count(mark) == frame.count(mark) for mark in dialect._marks)


@pytest.mark.parametrize("name", families())
def test_deep_nesting_large_numbers_and_doubled_keys_are_refused(name):
    dialect = native(name)
    form = named(name).form
    if named(name).grammar == "pairs":
        pytest.skip("what is no value there is text")
    deep: list[object] = []
    for _ in range(60):
        deep = [deep]
    for value in (deep, 2**64, -(2**63) - 1):
        assert dialect.parse(dialect.write([Call("send", {"any": value})]), TOOLS).error
    twice = dialect.write([Call("send", {"a": 1, "b": 2})])
    key = {"pythonic": "b=", "braced": "b:"}.get(named(name).grammar, '"b":')
    assert form and dialect.parse(twice.replace(key, key.replace("b", "a")), TOOLS).error


def test_no_name_of_a_family_stands_outside_of_its_table():
    for path in (*FOLDER.glob("*.py"), *FOLDER.parent.glob("*.py")):
        strings = set(re.findall(r'"([^"\n]*)"', path.read_text(encoding="utf-8")))
        assert not strings & families().keys(), path


def test_a_family_is_gone_with_its_file(tmp_path, monkeypatch):
    for path in FOLDER.glob("*.toml"):
        if path.stem != "qwen":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(families_module, "__file__", str(tmp_path / "__init__.py"))
    families.cache_clear()
    try:
        assert family_of('<tool_call>\\n{"name": "') is None
        with pytest.raises(UserError, match="qwen3_5"):
            named("qwen")
    finally:
        families.cache_clear()


def test_every_file_is_a_family_and_marks_tell_them_apart():
    assert len(families()) >= 17
    for family in families().values():
        assert set(family.openers) <= set(family.ends) and family.ends
        marks = " ".join(family.holds)
        assert family_of(marks) is not None


def test_an_unknown_family_is_refused_with_the_known_names():
    with pytest.raises(UserError, match="qwen3_5"):
        named("qwen17")
    assert family_of("{{ messages }}") is None


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ('title = "X"', "holds"),
        ('title = "X"\nholds = []\ngrammar = "json"', "holds is empty"),
        ('title = "X"\nholds = ["x"]\ngrammar = "jsn"', "grammar"),
        ('title = "X"\nholds = ["x"]\ngrammar = "json"\nopn = "y"', "opn"),
        ('title = "X"\nholds = ["x"]\ngrammar = "json"\n[form]\nargs = "y"', "form.args"),
    ],
)
def test_a_table_that_is_none_is_refused_by_file_and_key(tmp_path, table, complaint):
    path = tmp_path / "x.toml"
    path.write_text(table)
    with pytest.raises(UserError, match=complaint) as refused:
        read_family(path)
    assert str(path) in str(refused.value)


def test_no_family_is_named_outside_its_table() -> None:
    """`gptoss` in code would be a special case that its table cannot say."""
    root = FOLDER.parents[2]
    words = {stem for name in families() for stem in (name, name.split("_")[0])}
    words |= {"glm", "gemma", "qwen", "nemotron", "gpt-oss", "harmony"}
    found = []
    assert (root / "trainer" / "chat.py").exists()
    for file in [*root.glob("rods/dialects/**/*.py"), *root.glob("trainer/**/*.py")]:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in texts:
            spoken = str(node.value).lower() if id(node) not in docstrings else ""
            found += [(file.name, word) for word in words if word in spoken]
    assert found == []


WAY_OUT = re.compile(r"\b(write|make|put|close|begin|leave|think|needs|must)\b")


@pytest.mark.parametrize("name", [*families(), "hermes", "tags"])
def test_every_complaint_names_a_way_out(name: str) -> None:
    """Whatever is cut out of a reply, said twice in it, or put into it."""
    ours: dict[str, Dialect] = {"hermes": load("hermes"), "tags": load("tags")}
    dialect = ours.get(name) or Native(families()[name])
    reply = dialect.write([Call("send", {"text": 'a "b"', "details": {"a": [1]}})])
    broken = set()
    for at in range(0, len(reply), 2):
        for length in (1, 7):
            rest = reply[at + length :]
            inside = (f"{mark}{rest}" for mark in ("", "</tool_call>", '"', "}", "x", "\n<"))
            broken |= {reply[:at] + end for end in (*inside, reply[at - length :], "")}
    complaints = {dialect.parse(text, TOOLS).error for text in broken} - {None}
    assert complaints
    for complaint in complaints:
        assert complaint and WAY_OUT.search(complaint), complaint


def test_a_tag_in_a_text_is_refused_with_how_it_is_written() -> None:
    tags = load("tags")
    call = '[{"name": "send", "arguments": {"text": "a </tool_call>"}}]'
    error = tags.parse(f"<tool_call>{call}</tool_call>").error
    assert error is not None and "< as \\u003c" in error
    escaped = call.replace("<", "\\u003c")
    (read,) = tags.parse(f"<tool_call>{escaped}</tool_call>").calls
    assert read.arguments == {"text": "a </tool_call>"}
