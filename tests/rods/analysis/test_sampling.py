"""Sampled calls try every type that a parameter may have."""

import random
import re
from collections import Counter
from typing import Any

import pytest

from rods.analysis.sampling import Sampler
from rods.environments.base import Parameter, Tool

LETTERS = {"type": "string", "enum": ["a", "b"]}
UNIONS = [
    ({"anyOf": [{"type": "integer"}, LETTERS]}, {"int", "str"}),
    ({"oneOf": [LETTERS, {"type": "boolean"}], "description": "either"}, {"bool", "str"}),
    ({"type": ["integer", "boolean"]}, {"int", "bool"}),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"int", "NoneType"}),
    ({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"const": 7}]}, {"list", "int"}),
]


@pytest.mark.parametrize(("schema", "kinds"), UNIONS)
def test_each_type_of_a_union_is_tried_and_listed_values_are_kept_to(
    schema: dict[str, Any], kinds: set[str]
) -> None:
    tool = Tool("think", "Thinking", "Thinks.", (Parameter("number", schema),))
    sampler = Sampler(random.Random(3))
    sampler.learn("number", ["amber", 12, "cedar"])
    values = [sampler.call(tool).arguments["number"] for _ in range(10)]
    assert {type(value).__name__ for value in values} == kinds
    assert all(value in ("a", "b") for value in values if isinstance(value, str))


def test_listed_values_come_first_and_null_seldom() -> None:
    schema = {"anyOf": [{"type": "null"}, {"type": "integer"}, LETTERS]}
    tool = Tool("think", "Thinking", "Thinks.", (Parameter("number", schema),))
    sampler = Sampler(random.Random(3))
    values = [sampler.call(tool).arguments["number"] for _ in range(14)]
    assert values[0] in ("a", "b")
    assert Counter(type(value).__name__ for value in values) == {"str": 6, "int": 6, "NoneType": 2}


@pytest.mark.parametrize(
    ("name", "schema", "form"),
    [
        ("due_date", {}, r"\d{4}-\d\d-\d\d"),
        ("date_from", {}, r"\d{4}-\d\d-\d\d"),
        ("until", {"description": "Target date YYYY-MM-DD"}, r"\d{4}-\d\d-\d\d"),
        ("month", {"description": "YYYY-MM (this one if left out)"}, r"\d{4}-\d\d"),
        ("when", {"description": "as YYYY-MM-DD HH:MM"}, r"\d{4}-\d\d-\d\d \d\d:\d\d"),
        ("start", {"format": "date-time"}, r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
        ("candidate", {}, r"[a-z]+"),
        ("update", {"description": "says what"}, r"[a-z]+"),
    ],
)
def test_a_date_is_written_as_the_description_or_the_name_says(
    name: str, schema: dict[str, Any], form: str
) -> None:
    """Inside of an object, and in a type that may be null, too."""
    union = {"anyOf": [{"type": "string"}, {"type": "null"}], **schema}
    whole = {"type": "object", "properties": {name: {"type": "string", **schema}}}
    sampler = Sampler(random.Random(3))
    sampler.learn("params", ["amber"])  # which is none, though a text
    drawn = [sampler.value(name, union), sampler.value("params", whole)[name]]
    assert all(re.fullmatch(form, text) for text in drawn), drawn
