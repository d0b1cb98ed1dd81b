"""Running `rods-eval`: in this process, or as a process of its own where one is to be killed."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

from rods.family.benchmarks.main import run

ROOT = Path(__file__).parents[4]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "rods.family.benchmarks", *map(str, arguments)]


def evaluate(*arguments: object, code: int = 0) -> Any:
    """Runs it with --json; returns what it printed, or standard error for codes 2 and 3."""
    out = io.StringIO()
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        found = run([*map(str, arguments), "--json"])
    assert found == code, (found, out.getvalue(), err.getvalue())
    return err.getvalue() if code in (2, 3) else json.loads(out.getvalue())
