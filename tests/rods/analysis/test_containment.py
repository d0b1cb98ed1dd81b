"""What a text says: a table of tricky texts, and properties that hold for all."""

from __future__ import annotations

import string
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from rods.analysis.containment import Text, stem, stems, things

# the numbers that a text says, and the things that it asks about
TRICKY: dict[str, tuple[set[float], list[Any]]] = {
    "Keep 5-7 pm free": ({5, 7, 19}, [5.0, 19.0]),
    "between 5–7": ({5, 7}, [5.0, 7.0]),
    "Install 1.2.3": (set(), ["1.2.3"]),
    "rows 4,5 and 6": ({4, 5, 6}, [4.0, 5.0, 6.0]),
    "Pay 1,000,000": ({1_000_000}, [1_000_000.0]),
    "Pay $1,000.50.": ({1000.5}, [1000.5]),
    "Pay $5k": ({5000}, [5000.0]),
    "20% off": ({20}, [20.0]),
    "a 5km run": ({5}, [5.0]),
    "at 3pm on the 2nd": ({3, 15, 2}, [2.0, 15.0]),
    "a 3-day trip": ({3}, [3.0]),
    "It is -5 outside": ({-5}, [-5.0]),
    "take .5 of it": ({0.5}, [0.5]),
    "on 2024-05-04 at 10:30": ({2024, 5, 4, 10, 30}, [2024.0, 5.0, 4.0, 10.0, 30.0]),
    "from 16:00 to 5:30 p.m.": ({16, 0, 5, 30}, [16.0, 17.0, 30.0]),
    "at noon, or two in the afternoon": ({12, 2, 14}, [12.0, 14.0]),
    "by midnight or 9 in the morning": ({0, 9}, [9.0]),
    "half a dozen eggs, two dozen cards, a couple of bags": ({6, 24, 2}, []),
    "ticket #12": ({12}, [12.0]),
    "file_4 and v2": (set(), ["file_4", "v2"]),
    "5.txt": (set(), ["5.txt"]),
    "a priority-2 ticket": ({2}, []),
    "twenty-five, two hundred and five, two thousand twenty four": ({25, 205, 2024}, []),
    "five and six": ({5, 6}, []),
    "the one in drafts": (set(), []),
    "e.g. the U.S. and/or docs/notes": (set(), ["docs/notes"]),
    "Sell 'all of it' and AAPL": (set(), ["all of it", "AAPL"]),
}


@pytest.mark.parametrize("text", TRICKY)
def test_the_numbers_and_things_of_a_text(text: str) -> None:
    numbers, asked = TRICKY[text]
    assert Text.of(text).numbers == numbers
    assert things(text) == asked


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("Reply ALL approved, please.", "all approved", True),
        ("Open report_final.", "report", False),
        ("Open report.txt.", "report", True),
        ("box12", "box1", False),
        ("Move 400 to cash.", 40, False),
        ("Move 40 to cash.", 40.0, True),
        ("the notes 101 and 102", [101, 102], True),
        ("the notes 101 and 102", [101, 103], False),
        ("All *.txt files", "*.txt", True),
        ("That is true.", True, True),
        ("None of it.", None, False),
        ("anything", "", False),
        ("anything", [], False),
        ("1" * 400, 10**399, False),
    ],
)
def test_a_text_says_a_value_as_a_whole(text: str, value: Any, said: bool) -> None:
    assert Text.of(text).contains_exact(value) is said


@pytest.mark.parametrize(
    ("text", "value", "told"),
    [
        ("on May 4th, 2024", "2024-05-04", True),
        ("on 05/04/24", "2024-05-04", True),
        ("on May 5th, 2024", "2024-05-04", False),
        ("on the fourth of May 2024", "2024-05-04", True),
        ("on the twenty-first of May 2024", "2024-05-21", True),
        ("at 2:30 pm", "14:30", True),
        ("at 2:30 pm", "02:30", False),
        ("at three in the afternoon", "15:00", True),
        ("the rear left door", "rear_left", True),
        ("the rear left door", "rearLeft", True),
        ("the last line", 1, True),
        ("the last line", True, False),
        ("the front door of 2024-05-04", {"door": ["front"], "day": "2024-05-04"}, True),
    ],
)
def test_a_text_tells_other_forms_of_a_value(text: str, value: Any, told: bool) -> None:
    assert Text.of(text).contains_any_form(value) is told


@pytest.mark.parametrize(
    ("text", "value", "converted"),
    [
        ("for three weeks", 21, True),
        ("two more weeks", 14, True),
        ("a fortnight", 14, True),
        ("half an hour", 30, True),
        ("1.5 hours", 90, True),
        ("a year", 12, True),
        ("for three weeks", 20, False),
        ("for three weeks", "21", False),
    ],
)
def test_a_measure_may_be_counted_in_a_smaller_unit(text: str, value: Any, converted: bool) -> None:
    assert Text.of(text).converts(value) is converted


def test_a_result_says_the_leaves_and_keys_of_its_json() -> None:
    shown = Text.shown('{"ids":[100,200],"open":true,"notes":{"140":"the rent"}}')
    assert all(map(shown.contains_exact, (100, 200, 140, True, "rent", "notes")))
    assert not shown.contains_exact(100_200) and not shown.contains_exact(False)
    assert Text.shown("no JSON: 7").contains_exact(7)


SCALARS = st.one_of(
    st.integers(-(10**12), 10**12),
    st.floats(-1e6, 1e6).map(lambda number: round(number, 2)),
    st.text(string.ascii_letters + string.digits + "_-. ", min_size=1).filter(
        lambda text: text.strip() and text[0] > " "
    ),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.text(), inner, min_size=1, max_size=3)
    ),
)


@given(st.integers(0, 10**12))
def test_a_number_is_said_however_it_is_written(number: int) -> None:
    for text in (
        f"take {number}.",
        f"${number:,}",
        f"({number}%)",
        f"from {number}-{number + 1}",
        f"{number}km away",
    ):
        assert Text.of(text).contains_exact(number) and Text.of(text).contains_exact(
            float(number)
        ), text
        assert not Text.of(text).contains_exact(number + 7), text


@given(st.integers(0, 999), st.integers(0, 999))
def test_a_spelled_number_is_one_number(thousands: int, rest: int) -> None:
    ones = (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen " + "sixteen seventeen eighteen nineteen"
    ).split()
    tens = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

    def below(number: int) -> str:
        hundreds = [f"{ones[number // 100]} hundred"] if number >= 100 else []
        left = number % 100
        if left >= 20:
            hundreds.append(tens[left // 10 - 2] + (f"-{ones[left % 10]}" if left % 10 else ""))
        elif left:
            hundreds.append(ones[left])
        return " ".join(hundreds)

    number = thousands * 1000 + rest
    text = " ".join(
        part for part in (f"{below(thousands)} thousand" if thousands else "", below(rest)) if part
    )
    if number > 1:
        assert Text.of(f"take {text} of them").numbers == {number}, text


@pytest.mark.slow
@given(JSON)
def test_a_result_says_every_value_that_it_holds(value: Any) -> None:
    assert Text.shown(orjson.dumps(value).decode()).contains_exact(value)


@pytest.mark.slow
@given(st.text(), JSON)
def test_what_is_said_is_told_too_and_nothing_raises(text: str, value: Any) -> None:
    found = Text.of(text)
    assert not found.contains_exact(value) or found.contains_any_form(value)
    assert all(isinstance(thing, (str, float)) for thing in things(text))


def test_words_of_one_stem_are_one() -> None:
    for words in (
        ("order", "orders", "ordered", "ordering"),
        ("reservation", "reservations"),
        ("plan", "planned"),
    ):
        assert len({stem(word) for word in words}) == 1, words
    assert list(stems("Please get my orderHistory_items")) == [
        stem("order"),
        stem("history"),
        stem("items"),
    ]


def test_threads_that_stem_side_by_side_do_not_disturb_each_other() -> None:
    words = [
        f"{start}{end}"
        for start in ("order", "relation", "general")
        for end in ("", "s", "ed", "ing", "ization")
    ]
    alone = [stem.__wrapped__(word) for word in words]

    def often(number: int) -> bool:
        return all([stem.__wrapped__(word) for word in words] == alone for _ in range(100))

    switched = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(often, range(4)))
    finally:
        sys.setswitchinterval(switched)


def test_a_number_in_words_that_nobody_can_mean_is_none_that_a_text_says() -> None:
    said = Text.of("there are twelve of " + "hundred and " * 500 + "one")
    assert said.contains_exact(12) and not said.contains_exact(10**308)


def test_identifiers_and_quotations_are_found_among_openers_without_an_end() -> None:
    assert things("a.b/c #tag “one” “two and “three”") == ["one", "three", "a.b/c", "#tag"]
    assert things("x" * 50_000 + " a.b") == ["a.b"]


def test_a_unit_is_said_in_words() -> None:
    said = Text.of("How much is 12 feet in meters?")
    assert said.says_unit("ft") and said.says_unit("m")
    assert not said.says_unit("km") and not said.says_unit(12) and not said.contains_any_form("ft")
