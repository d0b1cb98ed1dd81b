"""Golden files: tasks, variants, the pool of a lockstep run and BFCL verdicts come out as they did.

Where a change of behaviour is intended, `python -m tests.golden` writes the files anew.
"""

from __future__ import annotations

import os
from itertools import zip_longest
from pathlib import Path

import pytest

from rods.errors import UserError
from rods.worlds.bfcl import wheel
from tests.conftest import WHOLE
from tests.golden.pins import PINS, golden, variants, written

SHOWN = 5  # differing lines
QUICK = ("verdicts_bfcl", "variants_bfcl_base", "tasks_bfcl")
# variants of each file that are always written anew; the others with `make test-all WHOLE=1`
FIRST = 5


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PINS]
)
def test_what_is_made_is_what_was_pinned(tmp_path: Path, name: str) -> None:
    if "bfcl" in name:
        try:
            wheel.path()
        except UserError:
            pytest.skip("no BFCL data here: `rods data bfcl` fetches them")
    pinned = golden(name).read_text(encoding="utf-8")
    if name.startswith("variants") and not os.environ.get(WHOLE):
        _, world, kind = name.split("_", 2)
        first = variants(world, kind, tmp_path, FIRST)
        pinned = written(pinned.splitlines()[: len(first)])
        found = written(first)
        assert sum(line.split()[2] != "-" for line in first) == FIRST
    else:
        found = written(PINS[name](tmp_path))
    if found != pinned:
        pytest.fail(f"{name}.txt: {difference(pinned, found)}", pytrace=False)


def difference(pinned: str, found: str) -> str:
    """How many lines differ, and the first of them."""
    lines = enumerate(
        zip_longest(pinned.splitlines(), found.splitlines(), fillvalue="(no line)"), 1
    )
    differing = [(number, one, two) for number, (one, two) in lines if one != two]
    shown = [
        f"line {number}:\n  pinned {one}\n  found  {two}" for number, one, two in differing[:SHOWN]
    ]
    return "\n".join([f"{len(differing)} of {len(found.splitlines())} lines differ", *shown])


def test_a_difference_is_told_by_its_first_lines() -> None:
    assert difference("a\nb\nc\n", "a\nx\n") == (
        "2 of 2 lines differ\nline 2:\n  pinned b\n  found  x\nline 3:\n  pinned c\n  found  (no "
        "line)"
    )
