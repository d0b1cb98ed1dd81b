"""operation.<process>.jsonl: every start of a process, with what may change from start to start (DESIGN §4)."""

from __future__ import annotations

import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import rods
from buffers.log.writer import LogWriter, record
from buffers.run.heartbeat import Place
from buffers.run.run import Run
from rods.runfolder import operation


def log_start(run: Run, process: str, **facts: Any) -> None:
    """Appends a `start` record of `process`: where it runs, its operation half, versions, and `facts`. The caller owns
    the process's other logs, so this one has no other writer. Never pass a secret."""
    writer = LogWriter(run.path / operation(process), part_bytes=run.config.operation.log_part_bytes)
    try:
        writer.append(
            [
                record(
                    "started",
                    process=process,
                    time=round(time.time(), 6),  # tells two starts of one process apart
                    **asdict(Place.here()),
                    command=sys.argv,
                    folder=str(Path.cwd()),
                    versions={"rods": rods.__version__, "python": platform.python_version()},
                    operation=run.config.operation.model_dump(mode="json"),
                    **facts,
                )
            ]
        )
    finally:
        writer.close()
