"""`rods env check` of servers that nobody here can mend."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rods.console.main import run
from rods.environments.loading import Environments
from rods.worlds.checking import CheckReport
from rods.worlds.checking.environments import check_environment

pytest.importorskip("mcp")
pytestmark = pytest.mark.needs("mcp")
HERE = str(Path(__file__).parents[3])
TROUBLE = ("nap", "doze", "die", "leave", "open_basket")


def checked(folder: Path, *kept: str, **fields: object) -> CheckReport:
    """What is found of the rough server, without those of its tools that give trouble but for the `kept` ones."""
    name = folder / "rough.json"
    options = [each for tool in TROUBLE if tool not in kept for each in ("--without", tool)]
    command = [sys.executable, "-m", "tests.worlds.mcp.rough"]
    assert run(["env", "add", str(name), "--warm", "0", "--env", f"PYTHONPATH={HERE}", *options, "--", *command]) == 0
    name.write_text(json.dumps(json.loads(name.read_text()) | fields))
    with Environments() as environments:
        return check_environment(str(name), environments)


@pytest.mark.slow
def test_a_check_that_takes_too_long_ends_with_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.worlds.checking.environments.FOREIGN", 9.0)
    (fault,) = checked(tmp_path, "doze").faults
    assert "not everything was tried in 9 s" in fault.what and "doze took" in fault.what


@pytest.mark.slow
@pytest.mark.parametrize("blanks", ["", r"\s*"])
def test_a_pattern_that_finds_nothing_in_json_with_blanks_is_noted(tmp_path: Path, blanks: str) -> None:
    report = checked(tmp_path, "open_basket", minted={"basket": f'"id":{blanks}"(b[0-9a-f]{{12}})"'})
    assert report.ok, report.lines()
    told = [note for note in report.notes if "minted" in note]
    assert not told if blanks else "'basket'" in told[0] and "open_basket" in told[0] and r"`\s*`" in told[0]


@pytest.mark.slow
def test_what_is_advised_can_be_done_to_a_foreign_server(tmp_path: Path) -> None:
    report = checked(tmp_path, "open_basket", frozen="")
    (fault,) = report.faults
    assert fault.where == "open_basket" and "for the same history" in fault.what
    assert "--minted" in fault.remedy and "remove chance" not in fault.remedy
