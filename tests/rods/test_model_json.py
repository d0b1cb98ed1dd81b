"""A model's JSON is read as it stands or not at all: nothing is dropped or rounded."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rods.model_json import find, read_exact


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2.5, "x"]}',
        ' {"a": [1, 2.5, "x"]}\n',
        '```json\n{"a": [1, 2.5, "x"]}\n```',
        'So: {"a": [1, 2.5, "x"]}!',
        'With {name}, {a, b}, [see 1], [1, 2) and {"a": <list>}: {"a": [1, 2.5, "x"]}',
        '```json\n{"a": [1, 2.5, "x"]}\n```\nonce more\n```\n{"a": [1, 2.5, "x",],}\n```',
    ],
)
def test_json_is_found_amid_a_model_s_prose(text: str) -> None:
    assert find(text) == {"a": [1, 2.5, "x"]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "is not JSON"),
        ('{"a": 1e999}', "too large"),
        ('{"a": 123456789012345678901234567890}', "over 64 bits"),
        ('{"a": 18446744073709551616}', "over 64 bits"),
        ('{"a": 1, "a": 2}', "names a key twice"),
        ("[" * 100 + "]" * 100, "nested deeper"),
        ('{"a": "' + ")]}" * 5000 + '", "b": ' + "[" * 5000 + "]" * 5000 + "}", "nested deeper"),
        (
            'Say "]]: {"a": "' + "]" * 5000 + '", "b": ' + "[" * 5000 + "]" * 5000 + "}",
            "nested deeper",
        ),
        ('{"a": ' + '"x' * 10, "cut off"),
        ('Broken: {"a": {"b": 1} "c": 2}', "delimiter"),
        ('Both: {"a": 1} or {"a": 2}', "2 different"),
        ('{"a": 1} and then {"a": [', "cut off"),
        ("no JSON at all", "Expecting value"),
        ("", "Expecting value"),
    ],
)
def test_what_a_model_wrote_is_refused_rather_than_rounded(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        find(text)


def test_brackets_in_a_text_are_no_nesting() -> None:
    assert find('{"a": "\\"' + "[" * 5000 + '"}') == {"a": '"' + "[" * 5000}


def test_what_is_read_can_always_be_written_again() -> None:
    value = find(
        '{"a\\ud800": ["\\ud83d\\ude00", "\\udc00", -9223372036854775808, 18446744073709551615]}'
    )
    assert value == {"a�": ["😀", "�", -(2**63), 2**64 - 1]}
    assert orjson.loads(orjson.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, -9223372036854775808, 18446744073709551615]", [1, -(2**63), 2**64 - 1]),
        ('{"a": "\\u0022", "b": 1e3}', {"a": '"', "b": 1000.0}),
        ("1234567890123456789.5", 1234567890123456789.5),
    ],
)
def test_what_orjson_reads_exactly_is_read(text: str, value: Any) -> None:
    assert read_exact(text) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "names a key twice"),
        ('{"a": 1, "\\u0061": 2}', "names a key twice"),
        ("[18446744073709551616]", "over 64 bits"),
        ("[" * 41 + "]" * 41, "nested deeper than 40"),
        ('Here: {"a": 1}', "unexpected character"),
        ("NaN", "unexpected character|invalid literal"),
        ('{"a": 1e999}', "infinity"),
    ],
)
def test_what_orjson_would_read_otherwise_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_exact(text)


def test_the_key_that_comes_twice_is_named_among_many() -> None:
    text = "{" + "".join(f'"{key}": 1,' for key in range(50_000)) + '"last": 1, "last": 2}'
    with pytest.raises(ValueError, match="names a key twice: 'last'"):
        find(text)
