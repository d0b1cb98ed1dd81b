"""Snapshots of a fold at the end of a log's closed parts, so that a run of months opens fast.

A snapshot only saves time: it may be deleted, and is never believed unless the closed parts that it
stands for are there as they were (names, sizes, SHA-256; a part whose time of change is the
recorded one is not hashed again). It never stands for the live part. Each is one file, replaced
whole; the last two are kept, since a rewind may drop steps that the newest one holds. `rods verify`
reads the logs from their beginning and uses none.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from rods.buffers.log.disk import replace
from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import Tail
from rods.buffers.run.runfolder import SNAPSHOTS
from rods.errors import RodsError, UserError
from rods.files import BULK, TASKS, read_regular, sha256_of

VERSION = 10  # of what the folds keep: another version is read anew
KEPT = 2


# a seq, the names of the parts that end there, the fold of these as JSON
Snapshot = tuple[int, frozenset[str], Any]


class Snapshots:
    """Those of one log. `key` names what else the fold depends on (configuration)."""

    def __init__(self, log: Path, key: Any) -> None:
        self.log = log
        self._key = key
        self._folder = log.parent / SNAPSHOTS
        self._stem = log.name.removesuffix(".jsonl")
        self._hashed: dict[str, Record] = {}  # part → what is known of it

    def newest(self) -> Iterator[Snapshot]:
        """Those that can be believed, newest first."""
        for path in reversed(self._files()):
            if (snapshot := self._read(path)) is not None:
                yield snapshot

    def write(self, seq: int, state: Any) -> None:
        """Keeps `state`, the fold of all records up to `seq`, where the parts before the live one
        end. A disk that refuses it is not this file's concern: the log will say so."""
        with suppress(RodsError, OSError):
            parts = [self._part(path) for path in segments(self.log) if path != self.log]
            body = orjson.dumps(state)
            head = {"version": VERSION, "key": self._key, "seq": seq, "parts": parts}
            head["sha256"] = hashlib.sha256(body).hexdigest()
            self._folder.mkdir(exist_ok=True)
            replace(
                self._folder / f"{self._stem}.{seq:012d}.json",
                orjson.dumps(head) + b"\n" + body + b"\n",
            )
            for old in self._files()[:-KEPT]:
                old.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"{self._stem}.{'[0-9]' * 12}.json"))

    def _read(self, path: Path) -> Snapshot | None:
        try:
            data = read_regular(path, BULK)
            end = data.index(b"\n")
            head = orjson.loads(data[:end])
            body = memoryview(data)[end + 1 : -1]  # tens of megabytes, not to be copied
            if (head["version"], head["key"]) != (VERSION, self._key):
                return None
            if head["sha256"] != hashlib.sha256(body).hexdigest() or not all(
                map(self._unchanged, head["parts"])
            ):
                return None
            return (
                head["seq"],
                frozenset(part["name"] for part in head["parts"]),
                orjson.loads(body),
            )
        except (OSError, ValueError, KeyError, TypeError, UserError):
            return None

    def _unchanged(self, recorded: Record) -> bool:
        self._hashed.setdefault(recorded["name"], recorded)
        return bool(
            self._part(self.log.with_name(recorded["name"]))["sha256"] == recorded["sha256"]
        )

    def _part(self, path: Path) -> Record:
        status = path.stat()
        part = self._hashed.get(path.name)
        if part is None or (part["size"], part["mtime_ns"]) != (status.st_size, status.st_mtime_ns):
            part = {
                "name": path.name,
                "size": status.st_size,
                "mtime_ns": status.st_mtime_ns,
                "sha256": sha256_of(path, TASKS),
            }
            self._hashed[path.name] = part
        return part


class KeptTail(Tail):
    """Follows a log of whose fold snapshots are kept: begins behind the newest one that is
    restored, and for the owner of the log writes another whenever a part was closed."""

    def __init__(
        self,
        snapshots: Snapshots,
        restore: Callable[[Any, frozenset[str]], bool] | None,
        snapshot: Callable[[], Any] | None,
        *,
        strict: bool = False,
    ) -> None:
        """`restore` takes a snapshot, and the names of the parts that it stands for, into an empty
        fold; False: not this one; None: the log is read from its beginning. `snapshot` gives the
        fold of all that was yielded before; None: none are written."""
        super().__init__(snapshots.log, strict=strict)
        self._snapshots = snapshots
        self._snapshot = snapshot
        self.snapshot = 0  # the seq up to which closed parts need not be read again
        if restore is None:
            return
        for seq, parts, kept in snapshots.newest():
            if restore(kept, parts):
                self.begin_behind(seq, parts)
                self.snapshot = seq
                break

    def groups(self) -> Iterator[tuple[Record, list[Record]]]:
        for group in super().groups():
            if self.closed > self.snapshot:  # up to there, all was yielded
                self.snapshot = self.closed
                if self._snapshot is not None:
                    self._snapshots.write(self.snapshot, self._snapshot())
            yield group
