"""Runs tests side by side, and what failed once more, alone: `make test`. Its arguments are
pytest's.

Many tests watch real processes against real clocks, so a busy machine may fail them. What passes
only when run again is counted and named, and more than `MOST` such tests fail the run: then it is
no longer the machine. Several runs count together where RODS_RERUN names a file for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

MOST = 2  # tests that may pass only when run again
TOGETHER = "RODS_RERUN"  # a file with a line for each such test of the runs before
CACHE = Path(".pytest_cache/v/cache/lastfailed")  # pytest's record of failed tests, by node id
AGAIN = ("--last-failed", "--last-failed-no-failures", "none")


def run(folder: Path, side_by_side: Sequence[str]) -> int:
    """Both passes over the tests of `folder`, the first with the further arguments. Returns
    pytest's exit code, or 1 where too many tests needed the second pass, here or here and in the
    runs before."""
    code = _pytest(folder, "--cache-clear", *side_by_side)
    if code != pytest.ExitCode.TESTS_FAILED:
        return code
    first = _failed(folder)
    code = _pytest(folder, *AGAIN)
    saved = sorted(first - _failed(folder))
    if saved:
        print(f"{len(saved)} passed only when run again:", *saved, sep="\n  ")
    if code == pytest.ExitCode.OK and _counted(saved) > MOST:
        print(f"more than {MOST}: these tests depend on chance or on each other")
        return int(pytest.ExitCode.TESTS_FAILED)
    return code


def _counted(saved: Sequence[str]) -> int:
    """How many there are with those of the runs before."""
    if not (file := os.environ.get(TOGETHER)):
        return len(saved)
    with Path(file).open("a+", encoding="utf-8") as together:
        together.writelines(f"{test}\n" for test in saved)
        together.seek(0)
        return len(together.readlines())


def _pytest(folder: Path, *arguments: str) -> int:
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], cwd=folder, check=False
    ).returncode


def _failed(folder: Path) -> set[str]:
    file = folder / CACHE
    return set(json.loads(file.read_bytes())) if file.exists() else set()


if __name__ == "__main__":
    workers = len(os.sched_getaffinity(0)) + 1  # many tests wait for a process or a clock
    # Each begins with a share of the list, so that a module's fixtures are made once, and then
    # takes from the others.
    sys.exit(run(Path.cwd(), ["-n", str(workers), "--dist", "worksteal", *sys.argv[1:]]))
