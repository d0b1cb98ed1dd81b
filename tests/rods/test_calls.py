"""What a call says, in Python's spelling: literals of a bounded depth."""

import random

import pytest

from rods import calls
from rods.calls import Call, parse_python_call
from rods.model_json import MAX_DEPTH

NAMES = ("a", "b1", "_x", "lend", "if", "True", "é", "1")
VALUES = [
    "True",
    "None",
    "a",
    "0",
    "-0",
    "-1",
    "007",
    "1.5",
    "-0.25",
    "1e5",
    "1.",
    "10**2",
    "9" * 18,
    "9" * 19,
]
VALUES += ["'x'", "'it)'", "'a=1,b'", '"y\'"', "'\\n'", "'a b'", "'é'", "'\0'", "'\n'", "'\ud800'"]
VALUES += ["[]", "[1,'a']", "[[1]]", "(1,)", "[1, None]"]


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


def test_the_plain_form_is_read_as_pythons_parser_reads_it(monkeypatch):
    rng = random.Random(1)
    read = 0
    for _ in range(20_000):
        separator = rng.choice((", ", ",", " ,"))
        arguments = separator.join(
            f"{rng.choice(NAMES)}={rng.choice(VALUES)}" for _ in range(rng.randrange(4))
        )
        text = f"{rng.choice(NAMES)}({arguments})"
        if (plain := calls._plain_call(text)) is None:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(calls, "_plain_call", lambda text: None)
            assert repr(parse_python_call(text, {})) == repr(plain), text
        read += 1
    assert read > 1_000


@pytest.mark.parametrize(
    "text", ["ls()", "cd(folder='a, b=(')", "order(n=-0.5, tags=['x', \"y\", None], on=True)"]
)
def test_the_plain_form_needs_no_parser(text, monkeypatch):
    monkeypatch.setattr("ast.parse", None)
    assert str(parse_python_call(text, {})) == text.replace('"', "'")
