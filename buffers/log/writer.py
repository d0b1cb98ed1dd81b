"""Appends records to a log, durably (docs/protocol.md).

A log has one writer. Promises of `LogWriter`:

- when `append` or `append_group` returns, the records are on the disk (fdatasync);
- a whole line is never taken back or changed, whatever fails: what a reader has read stays;
- a line cut short (kill, power cut) is moved aside when the log is next opened for append; a bad
  line anywhere else is `CorruptLogError`, never skipped;
- after a failed write only the incomplete line is truncated; after a failed fsync the file is
  reopened, compared and rewritten in place, and the failed descriptor is never synced again.

Records that belong together are closed by a record that carries `first`, the seq of the group's
first record. Readers see nothing of a group before it is closed, and never see records that no
closing record covers.

`GroupCommit` is for many producers of one event loop: one write and one fdatasync serve all who
wait at that moment.
"""

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from rods.buffers.log.disk import open_file, refusals, sync_folder, write
from rods.buffers.log.parts import first_seq, last_of, last_record
from rods.buffers.log.record_bytes import (
    Damage,
    Record,
    checked,
    closed,
    line,
    newline_altered,
    quarantine,
)
from rods.errors import InfrastructureError, RefusedError, disk_error


class LogWriter:
    """The one writer of a log. `path` names the live part, `run/observations.jsonl` for instance.

    Ownership is not decided here (rods.buffers.run.locks); that another process has written
    nevertheless is noticed by the file's size and refused.
    """

    def __init__(self, path: Path, *, log: Path | None = None, part_bytes: int = 0) -> None:
        """Opens for append and moves a torn tail aside. `log` names the whole log when `path` is
        one part of it (a name with a star). A live part of `part_bytes` or more is closed before
        the next record (0: never)."""
        self.path = path
        self._part_bytes = part_bytes
        new = not path.exists()
        before = last_of(log or path, but=path)
        self.seq = 0 if before is None else int(before["seq"])
        self._descriptor = -1
        self._broken = False
        self.size = self._open_live()
        self.durable = 0  # bytes of the live part that an fdatasync covers
        self.parts = 0  # that this writer has closed
        try:
            if new:
                sync_folder(path.parent)
            else:
                with quarantine():
                    self._repair_tail()
                self._sync()
        except BaseException:
            self.close()
            raise

    def append(self, records: Iterable[Record]) -> int:
        """Appends records and returns the last one's seq once all are on the disk.

        Raises UserError for a full disk or one that refuses writes; lines that were written whole
        stay. Raises InfrastructureError, and writes nothing, for a record that no reader would
        take.
        """
        lines = [line(seq, content) for seq, content in enumerate(records, self.seq + 1)]
        try:
            for text in lines:
                checked(orjson.loads(text))
        except ValueError as error:
            raise InfrastructureError(
                f"{self.path}: {error}: a defect of RODS; nothing was written; please report it"
            ) from error
        return self.append_lines(b"".join(lines), self.seq + len(lines))

    def append_lines(
        self, data: bytes, last: int, meanwhile: Callable[[], None] = lambda: None
    ) -> int:
        """The same for lines that `record_bytes.line` has made of the seqs that are due, up to
        `last`. `meanwhile` is called once they are written, before the disk is waited for."""
        if not data:
            return self.seq
        if self._broken or self._descriptor < 0:
            raise InfrastructureError(
                f"{self.path}: an earlier failure left this log unusable; start the process again"
            )
        if 0 < self._part_bytes <= self.size:
            self.rotate()  # here, so that a part never ends inside a group
        # the path names no file: the folder was moved, or the log removed
        with refusals(self.path):
            status = self.path.stat()
        if (status.st_size, status.st_dev, status.st_ino) != (self.size, *self._file):
            raise RefusedError(
                "another process has written to this log",
                where=self.path,
                remedy="stop it; a log has one writer",
            )
        written = 0
        self._broken = True  # unless this ends well: an interrupt may come between any two lines
        try:
            while written < len(data):
                count = os.write(self._descriptor, memoryview(data)[written:])
                if count == 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                written += count
        except OSError as error:
            self._broken = not self._keep_whole_lines(data[:written])
            raise disk_error(error, self.path) from error
        self.size += len(data)
        self.seq = last
        meanwhile()
        self._sync(data)
        self._broken = False
        return self.seq

    def append_group(
        self, records: Sequence[Record], closing: Record, before: Sequence[Record] = ()
    ) -> int:
        """Appends `records` and the record that closes them, in one write; in front of them,
        with the same sync, those of `before`, which need no closing. Returns the closing
        record's seq."""
        return self.append([*before, *records, closed(closing, self.seq + len(before) + 1)])

    def rotate(self) -> Path | None:
        """Closes the live part under the name that carries its first seq; None when it is still
        empty."""
        first = first_seq(self.path)
        if first is None:
            return None
        closed = self.path.with_name(f"{self.path.name.removesuffix('.jsonl')}.{first:012d}.jsonl")
        self._sync()
        self.close()
        with refusals(self.path):
            self.path.rename(closed)
        self._open_live()
        self.size = self.durable = 0
        self.parts += 1
        sync_folder(self.path.parent)
        return closed

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open_live(self) -> int:
        """Opens the live part; returns its size."""
        self._descriptor = open_file(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        status = os.fstat(self._descriptor)
        self._file = status.st_dev, status.st_ino
        return status.st_size

    def _sync(self, data: bytes = b"") -> None:
        """Makes the live part durable; it must end in `data`, the bytes that were written last."""
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            self._rewrite(error, data)
        self.durable = self.size

    def _keep_whole_lines(self, data: bytes) -> bool:
        """After a failed write: what is whole stays, the rest goes. False when not even that
        worked."""
        whole = data[: data.rfind(b"\n") + 1]
        try:
            os.ftruncate(self._descriptor, self.size + len(whole))
        except OSError:
            return False
        self.size += len(whole)
        self.seq += whole.count(b"\n")
        return True

    def _rewrite(self, error: OSError, written: bytes) -> None:
        """After a failed fsync the kernel may call lost pages clean. So: a fresh descriptor, the
        bytes compared and written again in their place (which makes the pages dirty), and one sync
        of *that* descriptor."""
        self._broken = True
        fresh = open_file(self.path, os.O_RDWR)
        try:
            with refusals(self.path):
                data = os.pread(fresh, self.size - self.durable, self.durable)
                if len(data) != self.size - self.durable or not data.endswith(written):
                    raise error
                offset = 0
                while offset < len(data):
                    offset += os.pwrite(fresh, memoryview(data)[offset:], self.durable + offset)
                os.fdatasync(fresh)
        finally:
            os.close(fresh)
        os.close(self._descriptor)
        self._open_live()
        self._broken = False

    def _repair_tail(self) -> None:
        """Moves the bytes behind the last whole record to `<name>.torn.<offset>`."""
        last, end = last_record(self.path)
        if last is not None:
            self.seq = int(last["seq"])
        if end < self.size:
            tail = os.pread(self._descriptor, self.size - end, end)
            if newline_altered(tail):  # damage, not a torn write
                raise Damage(self.path, end, "the last record's newline is damaged")
            aside = self.path.with_name(f"{self.path.name}.torn.{end}")
            with refusals(aside):
                write(aside, tail)
            sync_folder(aside.parent)
            os.ftruncate(self._descriptor, end)
            self.size = end


class Appended(NamedTuple):
    """Lines on their way to the disk, up to the record `seq`, and who waits for them."""

    seq: int
    lines: bytes
    done: "asyncio.Future[None]"


FEW = 16  # records are worth a sync of their own, if not all who wait are taken


class GroupCommit:
    """Producers of one event loop share one writer, which nobody else writes with meanwhile; the
    order of records is that of the calls.

    A thread writes and syncs one batch after the other. A fast disk would idle while all producers
    are served, so a batch is half of them: one half is served while the other one syncs. The first
    failed write ends it: whoever waits then, and whoever comes later, is told what failed."""

    def __init__(self, writer: Callable[[], LogWriter]) -> None:
        """`writer` is asked before every write, by the thread: a log may go on in another part."""
        self._writer = writer
        self.seq = writer().seq  # of the last record taken
        self._waiting: list[Appended] = []
        self._wake = threading.Event()  # something waits, or nothing will follow
        self._closing = False
        self.failure: Exception | None = None  # what ended it
        self._thread: threading.Thread | None = None

    def append(self, record: Record) -> asyncio.Future[None]:
        """Takes `record`; the future is done once it is on the disk. Both raise what a write has
        raised."""
        return self._take([record])

    def append_group(self, records: Sequence[Record], closing: Record) -> asyncio.Future[None]:
        """The same for `records` and the record that closes them, in one write."""
        return self._take([*records, closed(closing, self.seq + 1)])

    def close(self) -> None:
        """Writes what waits and ends the thread; blocks for as long as the disk takes."""
        if self._thread is not None:
            self._closing = True
            self._wake.set()
            self._thread.join()
            self._thread = None
            self._closing = False

    def _take(self, records: Sequence[Record]) -> asyncio.Future[None]:
        if self.failure is not None:
            raise self.failure
        lines = b"".join([line(seq, each) for seq, each in enumerate(records, self.seq + 1)])
        self.seq += len(records)
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._waiting.append(Appended(self.seq, lines, done))
        if not self._wake.is_set():
            self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(loop,), name="commit", daemon=True
            )
            self._thread.start()
        return done

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        synced: list[Appended] = []  # and not answered yet

        def answer() -> None:
            nonlocal synced
            if synced:
                loop.call_soon_threadsafe(_answer, synced, self.failure)
                synced = []

        while True:
            # looked at first: what was taken before `close` is among what waits then
            closing = self._closing
            if not self._waiting:
                answer()
                if closing:
                    return
                self._wake.wait()
            self._wake.clear()  # what comes from here on is seen by the next look
            half = (len(self._waiting) + len(synced) + 1) // 2
            batch = self._waiting[: max(FEW, half)]
            del self._waiting[: len(batch)]
            try:
                if self.failure is None and batch:
                    lines = b"".join([appended.lines for appended in batch])
                    # Answered any earlier, the producers of the batch before would keep this
                    # thread from asking the disk.
                    self._writer().append_lines(lines, batch[-1].seq, answer)
            except Exception as error:  # noqa: BLE001 — handed to everyone who waits
                answer()
                self.failure = error
            synced += batch


def _answer(batch: Sequence[Appended], failure: Exception | None) -> None:
    """On the event loop: the producers learn what became of their records."""
    for appended in batch:
        if appended.done.done():  # its producer was cancelled; the record is written all the same
            continue
        if failure is None:
            appended.done.set_result(None)
        else:
            appended.done.set_exception(failure)
            appended.done.exception()  # nobody has to wait for it
