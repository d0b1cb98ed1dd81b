"""Who owns which file, who is alive, and the lock around merges (DESIGN §4).

Correctness rests on none of these: logs have one writer, groups have closing records, merges are idempotent. They keep
a second trainer or daemon from starting by mistake, and tell people who is there.

- `Ownership`: one process writes a log. Held by flock, which the system gives back when the process dies.
- `Heartbeat`: a counter that a living process moves. A reader judges by its own clock whether it has stopped.
- `buffer_lock`: a file lock around merges and recovery, a second guard; the daemon never takes it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson
from filelock import FileLock, Timeout

from buffers.log import disk_error
from rods.errors import RefusedError
from rods.runfolder import LOCKS

PATIENCE = 1.0  # seconds that a start waits for a lock that a look at the owner may hold for a moment


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a file: what a second one is told."""

    process: str
    host: str
    pid: int
    boot_id: str
    job: str  # Slurm job id, or empty
    since: float  # seconds since 1970, by the holder's clock

    @staticmethod
    def this(process: str) -> Owner:
        return Owner(
            process, socket.gethostname(), os.getpid(), _boot_id(), os.environ.get("SLURM_JOB_ID", ""), time.time()
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "process": self.process,
            "host": self.host,
            "pid": self.pid,
            "boot_id": self.boot_id,
            "job": self.job,
            "since": self.since,
        }

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        job = f", job {self.job}" if self.job else ""
        return f"{self.process} (pid {self.pid} on {self.host}{job}) since {since}"


class Ownership:
    """The right to write `name` in the run folder `folder`, until `release` or the process's death.

    Raises RefusedError naming the present owner.
    """

    def __init__(self, folder: Path, name: str, process: str) -> None:
        self.path = _owner_path(folder, name)
        try:
            self.path.parent.mkdir(exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise disk_error(error, self.path) from error
        deadline = time.monotonic() + PATIENCE
        while not _lock(self._descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                present = _read_owner(self._descriptor)
                os.close(self._descriptor)
                raise RefusedError(
                    f"{name} is being written by {present or 'another process'}",
                    where=str(folder),
                    remedy="a run has one trainer and one daemon; stop that one first",
                )
            time.sleep(0.02)
        try:
            text = orjson.dumps(Owner.this(process).as_json())
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, text, 0)
        except OSError as error:
            os.close(self._descriptor)
            raise disk_error(error, self.path) from error

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)  # closing gives the lock back
            self._descriptor = -1

    def __enter__(self) -> Ownership:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def owner(folder: Path, name: str) -> Owner | None:
    """The living owner of `name`, as far as this host's locks can tell; None when nobody holds it."""
    try:
        descriptor = os.open(_owner_path(folder, name), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if _lock(descriptor, fcntl.LOCK_SH) else _read_owner(descriptor)
    finally:
        os.close(descriptor)


def buffer_lock(folder: Path, timeout: float = 60.0) -> FileLock:
    """The lock around merges and recovery, to be used with `with`. Raises RefusedError after `timeout` seconds."""
    (folder / LOCKS).mkdir(exist_ok=True)
    return _BufferLock(folder / LOCKS / "buffer.lock", timeout=timeout, fallback_to_soft=False)


class _BufferLock(FileLock):
    def acquire(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().acquire(*arguments, **options)
        except Timeout as error:
            raise RefusedError(
                "another process has been merging or recovering for too long",
                where=self.lock_file,
                remedy="see `rods status`; when nothing runs, start the command again",
            ) from error
        except OSError as error:
            raise disk_error(error, Path(self.lock_file)) from error


class Heartbeat:
    """`heartbeat.<process>.json`: who runs, and a counter that moves while it does.

    `beat` replaces the file (no fsync: it means nothing after a power cut) at most once a second; `start` does so from
    a thread, so that the counter tells a dead process, and the fields that `beat` was last given tell a stuck one.
    """

    def __init__(self, folder: Path, process: str, every: float = 1.0) -> None:
        self.path = heartbeat_path(folder, process)
        self._every = every
        self._facts = Owner.this(process).as_json()
        self._counter = 0
        self._written = -every
        self._fields: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> Heartbeat:
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()
        return self

    def beat(self, **fields: Any) -> None:
        """Notes `fields` (what the process is doing) and moves the counter when it is time."""
        with self._lock:
            self._fields |= fields
            if time.monotonic() - self._written >= self._every:
                self._write()

    def stop(self) -> None:
        """Ends the thread and says in the file that the process has left."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._fields["state"] = "stopped"
            self._write()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            with self._lock:
                self._write()

    def _write(self) -> None:
        self._counter += 1
        self._written = time.monotonic()
        content = {"counter": self._counter, "time": round(time.time(), 3), **self._facts, **self._fields}
        fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        try:
            fresh.write_bytes(orjson.dumps(content) + b"\n")
            fresh.replace(self.path)
        except OSError:
            fresh.unlink(missing_ok=True)  # a full disk stops the logs, which say so; a heartbeat only falls silent


def heartbeat_path(folder: Path, process: str) -> Path:
    return folder / f"heartbeat.{process}.json"


def _owner_path(folder: Path, name: str) -> Path:
    return folder / LOCKS / f"{name}.owner"


def _lock(descriptor: int, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_owner(descriptor: int) -> Owner | None:
    try:
        return Owner(**orjson.loads(os.pread(descriptor, 4096, 0)))
    except (OSError, ValueError, TypeError):
        return None


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
