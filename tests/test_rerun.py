"""`make test` names what passed only when it was run again, and fails where that is more than two
tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rerun import TOGETHER, run

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is run again here is no test of the runs that this one is a part of."""
    monkeypatch.delenv(TOGETHER, raising=False)


PROJECT = """
from pathlib import Path

import pytest


@pytest.mark.parametrize("number", range({flaky}))
def test_passes_the_second_time(number):
    seen = Path(__file__).with_name(f"seen-{{number}}")
    known = seen.exists()
    seen.touch()
    assert known


def test_holds():
    assert {holds}
"""


def project(folder: Path, flaky: int, holds: bool = True) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(PROJECT.format(flaky=flaky, holds=holds))
    return folder


@pytest.mark.parametrize(
    ("flaky", "holds", "code", "said"),
    [
        (0, True, 0, ""),
        (
            2,
            True,
            0,
            "2 passed only when run again:\n  test_it.py::test_passes_the_second_time[0]\n",
        ),
        (3, True, 1, "3 passed only when run again:"),
        (1, False, 1, "1 passed only when run again:"),
    ],
)
def test_what_passed_only_when_run_again_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], flaky: int, holds: bool, code: int, said: str
) -> None:
    assert run(project(tmp_path, flaky, holds), ["-p", "no:xdist"]) == code
    output = capfd.readouterr().out
    assert said in output and ("run again" in output) == bool(said)


def test_several_runs_count_together(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOGETHER, str(tmp_path / "together"))
    runs = [
        (project(tmp_path / str(number), flaky), flaky) for number, flaky in enumerate((2, 0, 1))
    ]
    assert [run(folder, ["-p", "no:xdist"]) for folder, _ in runs] == [0, 0, 1]
    assert "1 passed only when run again:" in capfd.readouterr().out


def test_a_run_that_could_not_collect_its_tests_is_not_repeated(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text("import nowhere_at_all\n")
    assert run(tmp_path, ["-p", "no:xdist"]) == pytest.ExitCode.INTERRUPTED
    assert capfd.readouterr().out.count("error during collection") == 1
