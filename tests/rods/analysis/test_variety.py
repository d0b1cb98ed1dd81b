"""Variety: what is counted of variants, and when it is said that they are alike."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rods.analysis.variety import variety
from rods.calls import Call
from rods.environments.base import reference
from rods.tasks import Task
from tests.rods.toy_environment import environment

TOY = reference(environment())


def variant(text: str, *names: str) -> Task:
    calls = tuple(Call(name, {}) for name in names)
    return Task(
        TOY,
        state={},
        tools=("read", "titles", "write"),
        type="base",
        script=(text,),
        calls=(calls,),
    )


def test_patterns_openings_words_and_unused_functions_are_counted_by_generation() -> None:
    first = [
        variant("Please read the rent note.", "titles", "read"),
        variant("Please read the milk note.", "titles", "read"),
        variant("Which notes are there?", "titles"),
    ]
    second = [variant("Please read the rent note again.", "titles", "read")]
    found = variety({2: second, 1: first}, ["read", "titles", "write", "read"])
    assert list(found["generations"]) == ["1", "2"]
    row = found["generations"]["1"]
    assert (row["variants"], row["patterns"], row["openings"]) == (3, 2, 2)
    # of 5 words each the first has all in the one of the second generation, which has 6
    assert found["generations"]["2"]["alike"] == pytest.approx(5 / 6)
    assert row["alike"] == pytest.approx((5 / 6 + 4 / 6 + 0) / 3)
    assert found["unused"] == ["write"] and found["advice"] == []


@pytest.mark.parametrize(
    ("names", "texts", "said"),
    [
        ([["read"]] * 12, [f"Opening {number}" for number in range(12)], "1 patterns in 12"),
        ([["read"] * n for n in range(1, 13)], ["Please read it."] * 12, "1 openings in 12"),
        ([["read"]] * 9, ["Please read it."] * 9, ""),  # too few to say so
        ([["read"] * n for n in range(1, 13)], [f"Opening {n}" for n in range(12)], ""),
    ],
)
def test_variants_that_are_alike_are_told_with_what_to_do(
    names: Sequence[Sequence[str]], texts: Sequence[str], said: str
) -> None:
    made = [variant(text, *calls) for text, calls in zip(texts, names, strict=True)]
    advice = variety({1: made}, ())["advice"]
    assert len(advice) == bool(said) and all(said in line and "→" in line for line in advice)


def test_no_variants_are_no_fault() -> None:
    assert variety({}, ["read"]) == {"generations": {}, "unused": ["read"], "advice": []}
