"""Running `rods-eval` as people do: a process, its exit code, and what it printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "evaluation", *map(str, arguments)]


def evaluate(*arguments: object, code: int = 0) -> Any:
    """Runs it with --json; returns what it printed (None when nothing), or standard error for codes 2 and 3."""
    done = subprocess.run(
        command(*arguments, "--json"), cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stderr if code in (2, 3) else json.loads(done.stdout)
