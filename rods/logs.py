"""structlog for both processes: JSON lines in `logs/<process>.jsonl`, and on standard error in
console form on a terminal or as the same JSON lines elsewhere. Bind `run`, `step`, `seed`,
`variant`, `stage` where they are known. The file is closed when it holds its share of what a
process may say, and is called `<process>.1.jsonl` then; older ones move up, and the oldest goes.

What endpoints, worlds and task files say may stand in an event: control characters are replaced and
texts are cut."""

import contextlib
import itertools
import logging
import os
import sys
from pathlib import Path
from typing import Any

import orjson

from rods.errors import MOST_SAID, mute_stderr, plain
from rods.files import descriptor_of
from rods.known_keys import remember_environment, without_keys

# levels of an event's values, and entries of each
DEEPEST = 4
MOST_ITEMS = 100
FILES = 4  # of a process's events
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure(
    process: str, level: str = "info", *, folder: Path | None = None, most: int = 0
) -> None:
    """Sends events of this process to `folder/<process>.jsonl` (when given) and to standard error.
    `most`: bytes that are kept of them (0: all)."""
    import structlog  # late, as in Logger

    remember_environment()
    files = None
    if folder is not None:
        folder.mkdir(exist_ok=True)
        files = _EventFiles(folder, process, most)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _harmless,
            _Sinks(process, files),
        ],
        logger_factory=lambda *_: _StandardError(),
        cache_logger_on_first_use=False,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
    )


def offer(level: str) -> None:
    """As `configure` of a trainer without a file, unless the program has configured structlog: what
    a library says does not belong on the standard output of who uses it."""
    import structlog

    if not structlog.is_configured():
        configure("trainer", level)


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


class _EventFiles:
    """The file that grows, which other processes of that name may write, too, and closed ones. It
    is opened for each event: whoever closes it tells nobody."""

    def __init__(self, folder: Path, process: str, most: int) -> None:
        self._paths = [folder / f"{process}{part}.jsonl" for part in ("", ".1", ".2", ".3")]
        self._most = most
        self.write("")

    def write(self, text: str) -> None:
        descriptor = descriptor_of(self._paths[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(text)
        if 0 < self._most < FILES * self._paths[0].stat().st_size:
            for path, older in reversed([*itertools.pairwise(self._paths)]):
                with contextlib.suppress(FileNotFoundError):
                    path.replace(older)


class _Sinks:
    """The last processor: writes the JSON line to the file and returns the text for standard
    error."""

    def __init__(self, process: str, files: _EventFiles | None) -> None:
        import structlog

        self.process = process
        self.files = files
        self.console = structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else None

    def __call__(self, logger: Any, name: str, event: Any) -> str:
        line = orjson.dumps({"process": self.process, **event}, default=str).decode()
        if self.files is not None:
            # a full disk stops the run's logs, which say so; this one stops
            with contextlib.suppress(OSError):
                self.files.write(line + "\n")
        return str(self.console(logger, name, event)) if self.console else line
