"""The table of the slowest tests has them in order, with the names that pytest reports."""

from __future__ import annotations

from pathlib import Path

from tests.slowest import measured, table

REPORT = """<testsuites><testsuite>
<testcase classname="tests.trainer.test_ranks" name="test_a[0|1]" time="2.6" />
<testcase classname="tests.trainer.test_conformance.TestAStreamItself" name="test_b" time="7.2" />
</testsuite></testsuites>"""


def test_the_longest_stands_first_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "measured.xml"
    file.write_text(REPORT)
    assert table(measured([file])).splitlines()[2:] == [
        "| 7 | test_conformance | `test_b` |",
        "| 3 | test_ranks | `test_a[0\\|1]` |",
    ]
