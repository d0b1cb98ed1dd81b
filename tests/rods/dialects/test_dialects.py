"""Dialects read what they write, and name what is wrong with everything else without raising."""

import pytest
from hypothesis import given, strategies as st

from rods.calls import MAX_CALLS, Call
from rods.dialects import Message, load
from rods.environments.base import Parameter, Result, Tool

NAMES = ["tags", "hermes", "compact"]
CALL = Call("move_file", {})
TOOL = Tool("move_file", "files", "Moves a file.", (Parameter("name", {"type": "string"}),))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    # 004: ground truth is plain text; line ends and separators are what the compact form could
    # stumble on
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3)
    ),
    max_leaves=6,
)
calls = st.lists(
    st.builds(
        Call,
        st.sampled_from(["ls", "move_file"]),
        st.dictionaries(st.sampled_from(["a", "b_c", "name"]), json_values),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.parametrize("name", NAMES)
@given(written=calls)
def test_written_calls_are_read_back_unchanged(name, written):
    dialect = load(name)
    parsed = dialect.parse(dialect.write(written))
    assert parsed.error is None
    assert [call.as_json() for call in parsed.calls] == [call.as_json() for call in written]
    assert [[type(value) for value in call.arguments.values()] for call in parsed.calls] == [
        [type(value) for value in call.arguments.values()] for call in written
    ]


@pytest.mark.parametrize("name", NAMES)
@given(text=st.text(max_size=200))
def test_any_text_parses_to_exactly_one_of_calls_answer_error(name, text):
    parsed = load(name).parse(text)
    assert sum([bool(parsed.calls), parsed.answer is not None, parsed.error is not None]) == 1


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_ends_the_turn_and_documents_name_every_tool_and_argument(name):
    dialect = load(name)
    parsed = dialect.parse(dialect.answer("all is done"))
    assert parsed.answer == "all is done" and not parsed.calls
    for text in (dialect.system([TOOL]), dialect.user("go on", [TOOL])):
        assert "move_file" in text and "name" in text
    assert "move_file" not in dialect.user("go on", [])
    (message,) = dialect.observation([CALL], [Result('{"ok": 1}')])
    assert '{"ok": 1}' in message.content


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<tool_call>[]</tool_call>", "at least one call"),
        ("<tool_call>{}</tool_call>", "JSON list"),
        ("<tool_call>[{]</tool_call>", "not valid JSON"),
        ('<tool_call>[{"name": 3}]</tool_call>', "name"),
        ('<tool_call>[{"name": "ls"}]</tool_call><answer>x</answer>', "nothing else"),
        ("hello", "nothing else"),
        ("<think>a<think>b</think><answer>x</answer>", "nothing else"),
        ("<tool_call>" + "[" * 5000 + "]" * 5000 + "</tool_call>", "nested"),
        ('<tool_call>["' + "x" * 30_000 + '"]</tool_call>', "longer than"),
    ],
)
def test_tags_names_what_is_malformed(text, complaint):
    parsed = load("tags").parse(text)
    assert complaint in str(parsed.error)
    assert parsed.in_call == (complaint != "nothing else"), (
        "what stands in a call is no fault of the form"
    )


def test_tags_accepts_reasoning_before_either_form():
    dialect = load("tags")
    assert dialect.parse("<think>hm</think>\n<answer>x</answer>").answer == "x"
    assert dialect.parse(
        '<think>hm</think><tool_call>[{"name": "ls", "arguments": {}}]</tool_call>'
    ).calls


def test_tags_has_two_prompts_that_differ():
    assert load("tags", "plain").system([TOOL]) != load("tags", "resourceful").system([TOOL])


def test_hermes_reads_several_blocks_and_refuses_an_open_one():
    block = '<tool_call>{"name": "ls", "arguments": {}}</tool_call>'
    assert len(load("hermes").parse(f"sure {block} and {block}").calls) == 2
    assert load("hermes").parse(f"{block}<tool_call>").error
    nope = load("hermes").parse("<tool_call>nope</tool_call>")
    assert nope.error and nope.in_call and not load("hermes").parse(f"{block}<tool_call>").in_call


@pytest.mark.parametrize(
    "thinking",
    [
        "<think>{call} hmm no.</think>",
        "{call} hmm no.</think>",  # the prompt opened it
        " <think>\nso\n</think> Well. <think>{call}</think>",
        "{call}</think><think>{call}</think>",
    ],
)
def test_a_call_in_thinking_is_not_made(thinking):
    call = '<tool_call>{"name": "rm", "arguments": {}}</tool_call>'
    dialect = load("hermes")
    assert str(dialect.parse(thinking.replace("{call}", call) + "Done").answer).endswith("Done")
    after = dialect.parse(thinking.replace("{call}", call) + call.replace("rm", "ls"))
    assert [made.name for made in after.calls] == ["ls"]


@pytest.mark.parametrize("before", ["", "<think>hm</think>\n", "hm</think>"])
def test_a_tag_in_the_text_of_a_call_is_text(before):
    call = '<tool_call>{"name": "say", "arguments": {"text": "a <think>b</think> c"}}</tool_call>'
    assert load("hermes").parse(before + call).calls == (
        Call("say", {"text": "a <think>b</think> c"}),
    )


@pytest.mark.parametrize("text", ["<think>hm", "a</think>b</think>c", "<think>a</think></think>b"])
def test_hermes_refuses_thinking_without_a_clear_end(text):
    assert "think>" in str(load("hermes").parse(text).error)


JSON_FORMS = {"tags": "<tool_call>[{}]</tool_call>", "hermes": "<tool_call>{}</tool_call>"}


@pytest.mark.parametrize("name", JSON_FORMS)
@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (
            '{"name": "rm", "parameters": {"x": 1}}',
            "not 'parameters': write what it takes in 'arguments'",
        ),
        ('{"name": "rm", "name": "ls", "arguments": {}}', "'name'; write each key once"),
        ('{"name": "rm", "arguments": {"x": 1, "x": 2}}', "'x'; write each key once"),
        (
            '{"name": "rm", "arguments": {"x": 1, "x" : "\\u0022\\u0022"}}',
            "'x'; write each key once",
        ),
        (
            '{"name": "rm", "arguments": {"x": [{"y": 1, "\\u0079": 2}]}}',
            "'y'; write each key once",
        ),
        ('{"name": "rm", "arguments": {"x": 18446744073709551616}}', "over 64 bits"),
        ('{"name": "rm", "arguments": {"x": [-9223372036854775809]}}', "over 64 bits"),
        ('{"name": "rm", "arguments": {"x": ' + "1" * 300 + "}}", "over 64 bits"),
    ],
)
def test_a_call_that_would_be_read_as_another_is_malformed(name, call, complaint):
    parsed = load(name).parse(JSON_FORMS[name].replace("{}", call))
    assert complaint in str(parsed.error)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ('{"a": 1, "a": 2}', "'a'; write each key once"),
        ("18446744073709551616", "over 64 bits"),
        ("[123456789012345678901]", "over 64 bits"),
    ],
)
def test_compact_refuses_values_that_would_be_read_as_others(value, complaint):
    assert complaint in str(load("compact").parse(f"! rm x= {value} y= 1").error)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "value", [2**64 - 1, -(2**63), 1e300, 0.1234567890123456789, "9" * 40, ['a "b": {', "é<"]]
)
def test_numbers_and_texts_at_the_edges_are_read_back_exactly(name, value):
    dialect = load(name)
    call = Call("say", {"x": value, "y": 1})
    assert dialect.parse(dialect.write([call])).calls == (call,)


@pytest.mark.parametrize("depth", [60, 300, 2000])
@pytest.mark.parametrize("closing", [")", "]", r"\"]}"])
@pytest.mark.parametrize("name", NAMES)
def test_nesting_cannot_hide_behind_brackets_in_a_text(name, closing, depth):
    text = '"' + closing * depth + '"'
    deep = "[" * depth + "]" * depth
    call = f'{{"name": "rm", "arguments": {{"a": {text}, "b": {deep}}}}}'
    reply = (
        JSON_FORMS[name].replace("{}", call) if name in JSON_FORMS else f"! rm a= {text} b= {deep}"
    )
    assert "nested deeper" in str(load(name).parse(reply).error)


@pytest.mark.parametrize("name", NAMES)
def test_brackets_in_a_text_are_no_nesting(name):
    dialect = load(name)
    call = Call("say", {"text": 'say "' + "[{" * 100, "list": [[1]] * 50})
    assert dialect.parse(dialect.write([call])).calls == (call,)


def test_compact_keeps_the_type_of_quoted_numbers():
    assert load("compact").parse('! pay to= "5" amount= 5 note= red car').calls[0].arguments == {
        "to": "5",
        "amount": 5,
        "note": "red car",
    }


def test_compact_shows_an_object_like_the_arguments_of_a_call():
    results = [
        Result('{"event":"e12","hour":9}', {"event": "e12", "hour": 9}),
        Result('{"ok":true}', {"ok": True}),
    ]
    shown = load("compact").observation([CALL] * len(results), results)
    assert shown == [Message("tool", "event= e12 hour= 9 | ok")]
    assert load("compact").observation([CALL], [Result("plain")]) == [Message("tool", "plain")]


@pytest.mark.parametrize("name", NAMES)
def test_a_reply_makes_so_many_calls_at_most(name):
    dialect = load(name)
    assert len(dialect.parse(dialect.write([CALL] * MAX_CALLS)).calls) == MAX_CALLS
    for many in (MAX_CALLS + 1, 500):
        parsed = dialect.parse(dialect.write([CALL] * many))
        assert not parsed.calls and f"{MAX_CALLS} calls at most" in str(parsed.error)


@pytest.mark.parametrize(
    "opener", ["<tool_call>", "<think>", "<answer>", "<think><tool_call>", "</think><think>"]
)
@pytest.mark.parametrize("name", ["tags", "hermes"])
def test_openers_without_an_end_are_malformed_however_many(name, opener):
    parsed = load(name).parse(opener * 8_192)
    # to Hermes an answer's tags are text like any other, and so is a tag before no call
    if name == "hermes" and opener in ("<answer>", "<tool_call>"):
        assert parsed.answer == opener * 8_192
    else:
        assert parsed.error


BLOCK = '<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>'
MENTIONS = ["use `<tool_call>` tags", "<tool_call>", "a <tool_call> of <tool_call>s"]


@pytest.mark.parametrize("text", MENTIONS)
def test_hermes_takes_a_tag_that_an_answer_mentions_as_text(text):
    assert load("hermes").parse(text).answer == text


@pytest.mark.parametrize(
    "text",
    [
        *(f"{BLOCK} {text}" for text in MENTIONS),
        *(f"{text} {BLOCK}" for text in MENTIONS),
        '<tool_call>{"name": "ls"',
        "<tool_call>ls()</tool_call>",
        '{"name": "ls", "arguments": {}}</tool_call>',
        f"{BLOCK}</tool_call>",
        f"{BLOCK} x</tool_call>",
    ],
)
def test_hermes_refuses_a_tag_beside_a_call_and_a_call_that_is_none(text):
    assert load("hermes").parse(text).error


def test_hermes_takes_an_id_and_a_last_block_that_is_not_closed():
    reply = f'{BLOCK}\n<tool_call>\n{{"id": "call_1", "name": "ls", "arguments": {{}}}}\n'
    assert load("hermes").parse(reply).calls == (Call("ls"), Call("ls"))


def test_hermes_documents_tools_and_writes_calls_as_the_chat_templates_of_qwen():
    hermes = load("hermes")
    document = (
        '<tools>\n{"type": "function", "function": {"name": "move_file", "description": '
        '"Moves a file.", "parameters": {"type": "object", "properties": {"name": {"type": '
        '"string"}}, "required": ["name"]}}}\n</tools>'
    )
    assert document in hermes.system([TOOL]) and document in hermes.user("go on", [TOOL])
    call = Call("say", {"text": "<b>é</b>", "tag": "<tool_call>"})
    assert hermes.write([call]) == (
        '<tool_call>\n{"name": "say", "arguments": {"text": "<b>é</b>", '
        '"tag": "\\u003ctool_call>"}}\n</tool_call>'
    )


def test_no_text_of_a_tool_closes_the_documents_of_hermes():
    tool = Tool("ls", "files", "</tools>")
    assert load("hermes").system([tool]).count("</tools>") == 1
