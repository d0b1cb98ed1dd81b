"""What both processes have said (logs/*.jsonl), for `rods status --follow` and the page: how the
files end, then what is new. Of the closed files the last is read, too."""

import os
from collections.abc import Iterator
from pathlib import Path

import orjson

from rods.buffers.run.runfolder import LOGS
from rods.canonical import JsonObject
from rods.errors import UserError
from rods.files import DOCUMENT, open_regular

PROCESSES = ("trainer", "daemon")
GRAVE = ("warning", "error", "critical")  # levels
HEAD = ("timestamp", "process", "level", "event", "run")
TAIL = 1 << 18  # bytes of a file that are read from its end
Event = JsonObject


class Events:
    """Follows both files of a run; each `poll` gives what was added, in order of time. The first
    gives what their last `TAIL` bytes hold. Nothing is kept open."""

    def __init__(self, run: Path) -> None:
        names = (f"{process}{part}.jsonl" for process in PROCESSES for part in (".1", ""))
        self._files = [run / LOGS / name for name in names]
        self._read: dict[int, int] = {}  # bytes of each file, which may be called otherwise by now

    def poll(self) -> list[Event]:
        """Lines that are no object are left out, and one that is not whole yet waits. A file that
        has become shorter is another one."""
        events = [event for file in self._files for event in self._new(file)]
        return sorted(events, key=lambda event: str(event.get("timestamp", "")))

    def _new(self, path: Path) -> Iterator[Event]:
        try:
            with open_regular(path) as file:
                inode = os.fstat(file.fileno()).st_ino
                size = file.seek(0, 2)
                begin = self._read.get(inode, -1)
                start = begin if max(0, size - DOCUMENT) <= begin <= size else max(0, size - TAIL)
                file.seek(start)
                data = file.read(size - start)
        except (OSError, UserError):
            return
        end = data.rfind(b"\n") + 1
        self._read[inode] = start + end
        lines = data[:end].split(b"\n")
        for line in lines[begin < 0 < start :]:
            try:
                event = orjson.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


def event_line(event: Event) -> str:
    """For people: when, who, how grave, what, and its facts."""
    facts = " ".join(
        f"{name}={orjson.dumps(value).decode()}"
        for name, value in event.items()
        if name not in HEAD
    )
    when, who, grave = (str(event.get(name, "")) for name in HEAD[:3])
    return f"{when[:19]}  {who:<7}  {grave:<8}  {event.get('event', '')}  {facts}".rstrip()
