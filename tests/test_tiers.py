"""The marks of tiers: which cases of a test stand for the others, and what that makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import chosen

CASES = ("kills-daemon", "kills-trainer", "full_disk-daemon", "power-daemon", "power-trainer")


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ((1,), {0}),
        ((2,), {0, 2}),
        ((9,), {0, 1, 2, 3, 4}),
        (("kills",), {0, 1}),
        (("power-trainer", "full"), {2, 4}),
        (("gone",), set()),
    ],
)
def test_words_or_a_number_choose_cases(wanted: tuple[int | str, ...], places: set[int]) -> None:
    assert chosen(CASES, wanted) == places


class Case:
    """What a test's item has that the marks are read from."""

    def __init__(self, name: str, mark: pytest.Mark | None = None) -> None:
        self.nodeid = f"test_it.py::{name}"
        self.mark = mark
        self.added: list[str] = []

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.mark if name == "few" else None

    def add_marker(self, name: str) -> None:
        self.added.append(name)


def marked(others: dict[str, str], *names: str) -> list[list[str]]:
    from tests.conftest import pytest_collection_modifyitems

    mark = pytest.mark.few("one", **others).mark
    items = [Case(f"test_a[{name}]", mark) for name in names]
    plain = Case("test_b")
    pytest_collection_modifyitems([*items, plain])  # type: ignore[list-item]
    assert plain.added == []
    return [item.added for item in items]


def test_the_others_are_sweeps_or_slow() -> None:
    assert marked({}, "one", "two") == [[], ["sweep"]]
    assert marked({"others": "slow"}, "one", "two") == [[], ["slow"]]


def test_a_case_that_is_asked_for_alone_stands_for_itself() -> None:
    assert marked({}, "two") == [[]]


def test_the_tiers_of_the_makefile_are_all_tests() -> None:
    makefile = (Path(__file__).parent.parent / "Makefile").read_text(encoding="utf-8")
    for tier, marks in {
        "test": "not slow and not sweep",
        "test-slow": "slow and not sweep",
    }.items():
        assert f'{tier}: TESTS := -m "{marks}"\n' in makefile


def test_ci_leaves_out_sweeps_alone() -> None:
    script = (Path(__file__).parent.parent / ".ci" / "run").read_text(encoding="utf-8")
    assert "make test TESTS='-m \"not sweep\"'\n" in script
