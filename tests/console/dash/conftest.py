"""A real server of the page over real run folders."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def served(*arguments: str | Path) -> Iterator[str]:
    """`rods dash` in a process of its own; the address that it prints, without the slash at its end. Killed in
    the end, as it keeps nothing."""
    command = [sys.executable, "-m", "rods.console", "dash", *map(str, arguments), "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip().removesuffix("/")
        finally:
            child.kill()
