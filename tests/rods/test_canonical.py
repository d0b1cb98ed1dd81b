"""Canonical bytes say a value exactly, or are refused."""

from typing import Any

import pytest

from rods import canonical as canonical_module
from rods.canonical import canonical


@pytest.mark.parametrize(
    "value", [float("nan"), {"a": [float("inf")]}, ({"b": None, "c": (float("-inf"),)},)]
)
def test_numbers_that_json_cannot_say_are_refused_wherever_they_stand(value: Any):
    with pytest.raises(ValueError, match="JSON cannot say it"):
        canonical(value)


def test_a_value_without_a_null_is_not_walked_through(monkeypatch: pytest.MonkeyPatch):
    walked: list[Any] = []
    monkeypatch.setattr(canonical_module, "refuse_nan", walked.append)
    assert canonical({"b": [1.5], "a": "x"}) == b'{"a":"x","b":[1.5]}'
    assert not walked
    assert canonical({"a": None}) == b'{"a":null}' and walked == [{"a": None}]
