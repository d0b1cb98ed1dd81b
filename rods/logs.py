"""structlog for both processes: JSON lines in `logs/<process>.jsonl`, and on standard error in
console form on a terminal or as the same JSON lines elsewhere. Bind `run`, `step`, `seed`,
`variant`, `stage` where they are known.

What endpoints, worlds and task files say may stand in an event: control characters are replaced and
texts are cut."""

import contextlib
import logging
import os
import sys
from pathlib import Path
from typing import Any, TextIO

import orjson

from rods.errors import MOST_SAID, mute_stderr, plain
from rods.files import descriptor_of
from rods.known_keys import remember_environment, without_keys

# levels of an event's values, and entries of each
DEEPEST = 4
MOST_ITEMS = 100
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure(process: str, level: str = "info", *, folder: Path | None = None) -> None:
    """Sends events of this process to `folder/<process>.jsonl` (when given) and to standard
    error."""
    import structlog  # late, as in Logger

    remember_environment()
    file: TextIO | None = None
    if folder is not None:
        folder.mkdir(exist_ok=True)
        descriptor = descriptor_of(
            folder / f"{process}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND
        )
        file = os.fdopen(descriptor, "a", encoding="utf-8", buffering=1)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _harmless,
            _Sinks(process, file),
        ],
        logger_factory=lambda *_: _StandardError(),
        cache_logger_on_first_use=False,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
    )


def offer(process: str, level: str) -> None:
    """As `configure` without a file, unless the program has configured structlog: what a library
    says does not belong on the standard output of who uses it."""
    import structlog

    if not structlog.is_configured():
        configure(process, level)


class Logger:
    """structlog's logger, imported with the first event: it brings a terminal's formatting along
    (0.2 s)."""

    def __getattr__(self, name: str) -> Any:
        import structlog

        return getattr(structlog.get_logger(), name)


log = Logger()  # of every module


def _harmless(logger: Any, name: str, event: Any) -> Any:
    """A processor: the event without what could steer a terminal or fill a disk. Of a traceback the
    end stays."""
    if "exception" in event:
        event["exception"] = without_keys(event["exception"])[-MOST_SAID:]
    return _short(event, DEEPEST)


def _short(value: Any, deep: int) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if deep and isinstance(value, dict):
        return {
            _short(key, 0): _short(item, deep - 1) for key, item in list(value.items())[:MOST_ITEMS]
        }
    if deep and isinstance(value, (list, tuple)):
        return [_short(item, deep - 1) for item in value[:MOST_ITEMS]]
    text = without_keys(str(value))  # whole: of one that is cut no part may stay
    return plain(text[:MOST_SAID]) + ("…" if len(text) > MOST_SAID else "")


class _StandardError:
    """Prints events. One that cannot be written (a full disk behind standard error) never ends the
    process: what the disk owes the run's logs is said by those."""

    def msg(self, text: str) -> None:
        try:
            print(text, file=sys.stderr, flush=True)
        except OSError:
            mute_stderr()

    debug = info = warning = error = critical = exception = msg


class _Sinks:
    """The last processor: writes the JSON line to the file and returns the text for standard
    error."""

    def __init__(self, process: str, file: TextIO | None) -> None:
        import structlog

        self.process = process
        self.file = file
        self.console = structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else None

    def __call__(self, logger: Any, name: str, event: Any) -> str:
        line = orjson.dumps({"process": self.process, **event}, default=str).decode()
        if self.file is not None:
            # a full disk stops the run's logs, which say so; this one stops
            with contextlib.suppress(OSError):
                self.file.write(line + "\n")
        return str(self.console(logger, name, event)) if self.console else line
