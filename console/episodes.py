"""The episodes that were kept of a run (traces/), for `rods inspect` and the page."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from buffers.run.runfolder import TRACES

MOST_EPISODES = 16  # of a task in a step
Trace = dict[str, Any]


def kept_steps(run: Path, live: Callable[[int, int], bool]) -> dict[int, Path]:
    """The files of the steps that have any, in order of steps; `live` says whether an attempt's step counts."""
    files: dict[int, Path] = {}
    for file in sorted((run / TRACES).glob("step_*.jsonl.gz")):
        name, _, attempt = file.name.removesuffix(".jsonl.gz").removeprefix("step_").partition(".a")
        if name.isdecimal() and attempt.isdecimal() and live(int(attempt), int(name)):
            files[int(name)] = file
    return files


def kept_episodes(file: Path, task_id: str) -> list[Trace]:
    """Those of a task in a step's file, in order; of a file that was cut short, or deleted meanwhile, what is left."""
    found: list[Trace] = []
    for line in _lines(file):
        if task_id.encode() in line and (trace := orjson.loads(line)).get("task") == task_id:
            found.append(trace)
            if len(found) == MOST_EPISODES:
                break
    return found


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with gzip.open(file) as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield line
    except (OSError, EOFError, zlib.error):  # nobody syncs traces: they are for people, and oldest ones are deleted
        return
