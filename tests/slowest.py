"""The table of the slowest tests in docs/decisions/suite.md, from what pytest has measured:

    make test TESTS='-m "not sweep" --junitxml=measured.xml'
    python -m tests.slowest measured.xml

A test's seconds are those of its set-up, call and tear-down, on the wall: on a machine that does
nothing else they say what it costs beside two others."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from tests.parts import ROOT

PAGE = ROOT / "docs" / "decisions" / "suite.md"
HEADING = "## The slowest hundred after"
COUNT = 100
WIDTH = 40  # of what tells the cases of a test apart


def measured(files: Sequence[Path]) -> list[tuple[float, str, str]]:
    """The slowest tests of these reports: seconds, the name of the file, the test."""
    found: list[tuple[float, str, str]] = []
    for file in files:
        for case in ElementTree.parse(file).getroot().iter("testcase"):
            parts = case.get("classname", "").split(".")
            name = next((part for part in reversed(parts) if part.startswith("test_")), parts[-1])
            test, bracket, words = case.get("name", "").partition("[")
            words = f"{words[:WIDTH]}…]" if len(words) > WIDTH else words
            found.append((float(case.get("time", "0")), name, test + bracket + words))
    return sorted(found, reverse=True)[:COUNT]


def table(rows: Sequence[tuple[float, str, str]]) -> str:
    lines = ["| seconds | file | test |", "|---|---|---|"]
    for seconds, file, test in rows:
        escaped = test.replace("|", "\\|").replace("`", "'").replace("\n", " ")
        lines.append(f"| {seconds:.0f} | {file} | `{escaped}` |")
    return "\n".join(lines)


def main(files: Sequence[Path]) -> None:
    before, heading, _ = PAGE.read_text(encoding="utf-8").partition(HEADING)
    assert heading, f"{PAGE} has no {HEADING!r}"
    PAGE.write_text(f"{before}{heading}\n\n{table(measured(files))}\n", encoding="utf-8")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
