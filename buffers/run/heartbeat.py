"""Heartbeat files: a counter that a living process moves, and how a reader judges it.

The writer's thread replaces `heartbeat.<process>.json` about once a second, so the counter tells a
dead process. What the process itself says (`beat`) tells a stuck one: the file holds how long ago
it last said something (`quiet`) and last got on (`still`), in seconds by the writer's own clock. A
reader compares counters at two moments of *its* clock. Clocks of two machines are never compared,
and no process id of another machine is looked up.
"""

import os
import socket
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import orjson

from rods.buffers.log.shapes import fault_of
from rods.canonical import JsonObject, frozen
from rods.deadlines import BEATS_SEEN, SILENCE, STUCK
from rods.errors import UserError
from rods.files import read_regular

EVERY = 1.0  # seconds between beats
# a process may be stuck after STUCK seconds without progress, and this many times its longest pause
# so far
USUAL = 5.0
WAITING = ("waiting for the daemon", "budget spent", "no endpoint answers")
RESTING = frozenset(
    ("idle", "no seeds", "staging full", "run finished", *WAITING)
)  # states in which nothing need get on
# What readers reckon with, where it is there.
NUMBERS = ("counter", "time", "uptime", "quiet", "still", "patience", "pid")
TEXTS = ("process", "host", "boot_id", "job", "state")
FAULT = fault_of({f"{key}?": "number" for key in NUMBERS} | {f"{key}?": "text" for key in TEXTS})

Life = Literal["never started", "no heartbeat", "running", "idle", "stuck", "stopped", "dead"]


@frozen
class ProcessLocation:
    """Where a process runs."""

    host: str
    pid: int
    boot_id: str
    job: str  # Slurm job id, or empty

    @staticmethod
    def here() -> "ProcessLocation":
        return ProcessLocation(
            socket.gethostname(), os.getpid(), _boot_id(), os.environ.get("SLURM_JOB_ID", "")
        )

    @property
    def this_machine(self) -> bool:
        """Whether it is the machine that asks, since its last boot: then locks and process ids mean
        something."""
        mine = ProcessLocation.here()
        return bool(self.boot_id) and (self.host, self.boot_id) == (mine.host, mine.boot_id)


class Heartbeat:
    """The writing side. `beat` only notes what the process does, so that no loop waits for a slow
    disk."""

    def __init__(self, folder: Path, process: str, every: float = EVERY) -> None:
        self.path = heartbeat_path(folder, process)
        self.place = ProcessLocation.here()
        self._facts = {"process": process, **asdict(self.place), "since": round(time.time(), 3)}
        self._every = every
        self._counter = 0
        self._fields: JsonObject = {"state": "starting"}
        self._progress: object = None
        self._work: object = None
        self._said = self._moved = time.monotonic()
        self._longest = 0.0  # seconds between two moves of the progress
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> "Heartbeat":
        """The first beat, then one every second from a thread."""
        self._write()
        self._thread.start()
        return self

    def beat(self, progress: object = None, **fields: Any) -> None:
        """Notes what the process is doing. `progress` is anything that changes when it gets on
        (default: the fields); in a resting state (RESTING) nothing need."""
        now = time.monotonic()
        with self._lock:
            self._fields |= fields
            self._said = now
            mark = tuple(self._fields.items()) if progress is None else progress
            if mark != self._progress or self._fields["state"] in RESTING:
                self._longest = max(self._longest, now - self._moved)
                self._progress = mark
                self._moved = now

    def note(self, work: object, **facts: Any) -> None:
        """Notes facts about what works beside the process's own loop, from any thread; `work`
        changes when that gets on."""
        now = time.monotonic()
        with self._lock:
            self._facts |= facts
            if work != self._work:
                self._longest = max(self._longest, now - self._moved)
                self._work = work
                self._moved = now

    def stop(self) -> None:
        """Ends the thread and says in the file that the process has left."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            self._fields["state"] = "stopped"
        self._write()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            self._write()

    def _write(self) -> None:
        now = time.monotonic()
        with self._lock:
            self._counter += 1
            content = {
                "counter": self._counter,
                "time": round(time.time(), 3),
                "uptime": round(now, 1),  # by a clock that all processes of this machine share
                **self._facts,
                "quiet": round(now - self._said, 1),
                "still": round(now - self._moved, 1),
                "patience": round(max(STUCK, USUAL * self._longest), 1),
                **self._fields,
            }
        fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        # closed before the rename: so a network file system shows it to others; no fsync, it means
        # nothing later
        try:
            fresh.write_bytes(orjson.dumps(content, default=str) + b"\n")
            fresh.replace(self.path)
        except OSError:
            # a full disk stops the logs, which say so; a heartbeat only falls silent
            fresh.unlink(missing_ok=True)


def local_time(seconds: object) -> str:
    """A time stamp (seconds since 1970) for people; as it stands where no calendar has it."""
    try:
        if seconds is None:
            return "never"
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return f"no date ({seconds!r})"


def heartbeat_path(folder: Path, process: str) -> Path:
    return folder / f"heartbeat.{process}.json"


def read_heartbeat(folder: Path, process: str) -> JsonObject:
    """What the file holds; nothing when it cannot be read or is no heartbeat."""
    try:
        beat = orjson.loads(read_regular(heartbeat_path(folder, process)))
    except (OSError, ValueError, UserError):
        return {}
    return {} if FAULT(beat) else beat


def moves(folder: Path, process: str, place: ProcessLocation, seconds: float = BEATS_SEEN) -> bool:
    """Whether the process at `place` is alive: watches its counter for at most `seconds` of this
    reader's clock."""
    deadline = time.monotonic() + seconds
    first: int | None = None
    while True:
        beat = read_heartbeat(folder, process)
        if all(beat.get(key) == value for key, value in asdict(place).items()):
            if beat.get("state") == "stopped":
                return False
            if first is not None and beat.get("counter") != first:
                return True
            first = beat.get("counter")
        if time.monotonic() > deadline:
            return False
        time.sleep(min(0.1, seconds / 5))


def judge(beat: JsonObject, alive: bool) -> Life:
    """What a process is up to, from its last heartbeat and whether it is `alive`."""
    if not alive:
        if not beat:
            return "never started"
        return "stopped" if beat.get("state") == "stopped" else "dead"
    patience = beat.get("patience", STUCK)
    # Its last beat can be old only where its clock is the reader's own (a process that was halted,
    # a dead disk).
    here = ProcessLocation(beat.get("host", ""), 0, beat.get("boot_id", ""), "").this_machine
    silent = here and "uptime" in beat and time.monotonic() - beat["uptime"] > SILENCE
    if silent or beat.get("quiet", 0.0) > patience or beat.get("still", 0.0) > patience:
        return "stuck"
    return "idle" if beat.get("state") in RESTING else "running"


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
