"""Runs all tests side by side, and what failed once more, alone: `make test`.

Many tests watch real processes against real clocks, so a busy machine may fail them. What passes only when run again is
counted and named, and more than `MOST` such tests fail the run: then it is no longer the machine.
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
CACHE = Path(".pytest_cache/v/cache/lastfailed")  # pytest's record of failed tests, by node id
AGAIN = ("--last-failed", "--last-failed-no-failures", "none")


def run(folder: Path, side_by_side: Sequence[str]) -> int:
    """Both passes over the tests of `folder`, the first with the further arguments. Returns pytest's exit code, or 1
    where too many tests needed the second pass."""
    code = _pytest(folder, "--cache-clear", *side_by_side)
    if code != pytest.ExitCode.TESTS_FAILED:
        return code
    first = _failed(folder)
    code = _pytest(folder, *AGAIN)
    saved = sorted(first - _failed(folder))
    if saved:
        print(f"{len(saved)} passed only when run again:", *saved, sep="\n  ")
    if code == pytest.ExitCode.OK and len(saved) > MOST:
        print(f"more than {MOST}: these tests depend on chance or on each other")
        return int(pytest.ExitCode.TESTS_FAILED)
    return code


def _pytest(folder: Path, *arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=folder, check=False).returncode


def _failed(folder: Path) -> set[str]:
    file = folder / CACHE
    return set(json.loads(file.read_bytes())) if file.exists() else set()


if __name__ == "__main__":
    workers = len(os.sched_getaffinity(0)) + 1  # many tests wait for a process or a clock
    sys.exit(run(Path.cwd(), ["-n", str(workers), *sys.argv[1:]]))
