"""Who owns which file (`Ownership`).

Correctness does not rest on it: logs have one writer, groups have closing records, merges are
idempotent. It keeps a second trainer or daemon from starting by mistake, and tells people who is
there. On the machine itself flock decides, which the system gives back when a process dies. What
another machine has recorded holds for as long as its heartbeat's counter moves by our own clock,
since locks need not reach us from there. Without flock the counter decides alone.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

import orjson

from rods.buffers.log.disk import refusals
from rods.buffers.run.heartbeat import Heartbeat, ProcessLocation, local_time, moves
from rods.buffers.run.runfolder import LOCKS
from rods.canonical import JsonObject, frozen
from rods.deadlines import OWNER_LOOK
from rods.errors import RefusedError, RodsError, UserError
from rods.files import descriptor_of, open_regular

# seconds after which, without flock, two that took a file at once have seen each other
SETTLE = 0.3


@frozen
class Owner:
    """Who holds a file: what a second one is told."""

    process: str
    place: ProcessLocation
    since: float  # seconds since 1970, by the holder's clock
    released: bool = False  # left it cleanly

    def as_json(self) -> JsonObject:
        return {
            "process": self.process,
            **asdict(self.place),
            "since": self.since,
            "released": self.released,
        }

    @staticmethod
    def from_json(value: JsonObject) -> "Owner":
        """Raises KeyError, TypeError or ValueError for what is none."""
        place = ProcessLocation(
            str(value["host"]), int(value["pid"]), str(value["boot_id"]), str(value["job"])
        )
        return Owner(str(value["process"]), place, float(value["since"]), bool(value["released"]))

    def __str__(self) -> str:
        job = f", job {self.place.job}" if self.place.job else ""
        return (
            f"{self.process} (pid {self.place.pid} on {self.place.host}{job}) since "
            f"{local_time(self.since)}"
        )


class Ownership(AbstractContextManager["Ownership"]):
    """The right to write `name` in the run folder `folder`, until `release` or the process's death.

    The holder beats (`heartbeat`) from the first moment, with a heartbeat of its own unless one is
    handed in. Raises RefusedError naming the present owner.
    """

    def __init__(
        self, folder: Path, name: str, process: str, heartbeat: Heartbeat | None = None
    ) -> None:
        self.path = _owner_path(folder, name)
        with refusals(self.path):
            self.path.parent.mkdir(exist_ok=True)
            self._descriptor = descriptor_of(self.path, os.O_RDWR | os.O_CREAT)
        try:
            self._take(folder, name, process)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._own = heartbeat is None
        self.heartbeat = heartbeat or Heartbeat(folder, process).start()

    def _take(self, folder: Path, name: str, process: str) -> None:
        deadline = time.monotonic() + OWNER_LOOK
        while (locked := _lock(self._descriptor, fcntl.LOCK_EX)) is False:
            if time.monotonic() > deadline:
                raise _refused(folder, name, _read_owner(self._descriptor))
            time.sleep(0.02)
        present = _read_owner(self._descriptor)
        doubtful = (
            present is not None
            and not present.released
            and not (locked and present.place.this_machine)
        )
        if present is not None and doubtful and moves(folder, present.process, present.place):
            raise _refused(folder, name, present)
        self._record = Owner(process, ProcessLocation.here(), time.time())
        self._write()
        if locked is None:
            time.sleep(SETTLE)
            if (winner := _read_owner(self._descriptor)) != self._record:
                raise _refused(folder, name, winner)

    def _write(self) -> None:
        with refusals(self.path):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, orjson.dumps(self._record.as_json()), 0)
            os.fsync(self._descriptor)  # a network file system shows it to other machines no sooner

    def check(self) -> None:
        """Raises UserError when the run folder is not where it was any more, RefusedError when
        another process has recorded itself as the owner (a machine that slept longer than its
        heartbeat is believed)."""
        try:
            with open_regular(self.path) as file:
                present = _read_owner(file.fileno())
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UserError(
                "the run folder was moved or removed, or its locks were, while this process was at "
                "work",
                where=self.path.parent.parent,
                remedy="start the same command again, with the folder's present name",
            ) from error
        except OSError:
            return  # a disk that fails now and then: the logs will say so
        if present != self._record:
            raise _refused(self.path.parent.parent, self.path.name.removesuffix(".owner"), present)

    @contextmanager
    def held(self) -> Iterator[None]:
        """For work on the run folder: `check` before it, and where it fails, since that may be
        why."""
        self.check()
        try:
            yield
        except (RodsError, OSError):
            self.check()
            raise

    def release(self) -> None:
        if self._descriptor < 0:
            return
        if self._own:
            self.heartbeat.stop()
        self._record = replace(self._record, released=True)
        # a full disk: the free lock, or the silent heartbeat, says it too
        with suppress(RodsError):
            self._write()
        os.close(self._descriptor)  # closing gives the lock back
        self._descriptor = -1

    def __exit__(self, *_: object) -> None:
        self.release()


def owner(folder: Path, name: str) -> Owner | None:
    """The living owner of `name`; None when nobody holds it. Locks of this machine are known at
    once; another machine's holder is watched for a moment (`BEATS_SEEN`)."""
    try:
        present, free = _held(_owner_path(folder, name))
    except OSError:
        return None
    if present is None or (free is None and not moves(folder, present.process, present.place)):
        return None
    return None if free else present


def stale_owners(folder: Path) -> list[tuple[Path, Owner]]:
    """Locks that keep out or slow down whoever comes next, though their holders' heartbeats have
    stopped: files and holders. What a dead process of this machine held is free by itself."""
    stale = []
    for path in sorted((folder / LOCKS).glob("*.owner")):
        present, free = _held(path)
        if (
            present is not None
            and free is None
            and not moves(folder, present.process, present.place)
        ):
            stale.append((path, present))
    return stale


def _refused(folder: Path, name: str, present: Owner | None) -> RefusedError:
    what = f"{name} is being written by {present or 'another process'}"
    remedy = "a run has one trainer and one daemon; stop that one first"
    if (
        present is not None
        and not present.place.this_machine
        and not moves(folder, present.process, present.place)
    ):
        what += ", whose heartbeat has stopped"
        remedy = f"if that machine is gone, `rods recover {folder}` sets its lock aside"
    return RefusedError(what, where=folder, remedy=remedy)


def _owner_path(folder: Path, name: str) -> Path:
    return folder / LOCKS / f"{name}.owner"


def _lock(descriptor: int, mode: int) -> bool | None:
    """Whether the lock was got; None where the file system has none (then only the heartbeat
    tells)."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _held(path: Path) -> tuple[Owner | None, bool | None]:
    """Who has recorded itself as the owner and not left, and whether the lock is free; None: no
    lock tells of it."""
    with open_regular(path) as file:
        free = _lock(file.fileno(), fcntl.LOCK_SH)
        present = _read_owner(file.fileno())
    if present is None or present.released:
        return None, free
    return present, free if present.place.this_machine else None


def _read_owner(descriptor: int) -> Owner | None:
    try:
        return Owner.from_json(orjson.loads(os.pread(descriptor, 4096, 0)))
    except (OSError, ValueError, TypeError, KeyError):
        return None
