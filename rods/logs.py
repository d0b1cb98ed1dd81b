"""structlog for both processes: JSON lines in `logs/<process>.jsonl`, and on standard error in console form on a
terminal or as the same JSON lines elsewhere. Bind `run`, `step`, `seed`, `variant`, `stage` where they are known."""

from __future__ import annotations

import contextlib
import logging
import sys
from pathlib import Path
from typing import Any, TextIO

import orjson
import structlog

from rods.errors import mute_stderr

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(process: str, level: str = "info", *, folder: Path | None = None) -> None:
    """Sends events of this process to `folder/<process>.jsonl` (when given) and to standard error."""
    file: TextIO | None = None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f"{process}.jsonl").open("a", encoding="utf-8", buffering=1)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _Sinks(process, file),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *_: _StandardError(),
        cache_logger_on_first_use=False,
    )


class _StandardError:
    """Prints events. One that cannot be written (a full disk behind standard error) never ends the process: what the
    disk owes the run's logs is said by those."""

    def msg(self, text: str) -> None:
        try:
            print(text, file=sys.stderr, flush=True)
        except OSError:
            mute_stderr()

    debug = info = warning = error = critical = exception = msg


class _Sinks:
    """The last processor: writes the JSON line to the file and returns the text for standard error."""

    def __init__(self, process: str, file: TextIO | None) -> None:
        self.process, self.file = process, file
        self.console = structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else None

    def __call__(self, logger: Any, name: str, event: Any) -> str:
        line = orjson.dumps({"process": self.process, **event}, default=str).decode()
        if self.file is not None:
            with contextlib.suppress(OSError):  # a full disk stops the run's logs, which say so; this one stops
                self.file.write(line + "\n")
        return str(self.console(logger, name, event)) if self.console else line
