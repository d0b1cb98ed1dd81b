"""Group commit for asyncio: many producers await their record's durability, one write and one fdatasync serve all who
wait at that moment.

A thread of its own writes and syncs, one batch after the other; records are put into bytes before, by those who wait
for the disk anyway. A fast disk would idle while all producers are served, so there are two batches of half of them:
one is served while the other syncs. Where a sync takes much longer than that, whoever has been served is waited for,
and a batch is everyone.

The first failed write ends it: whoever waits then, and whoever comes later, is told what failed.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from buffers.log.records import Record, closed, line
from buffers.log.writer import LogWriter

SLOW = 0.005  # seconds; serving 64 producers takes about a tenth of it
FEW = 16  # are served before a disk has got far
Waiting = tuple[int, bytes, "asyncio.Future[None]"]  # the seq of the last of these lines, the lines, who awaits them


class GroupCommit:
    """Producers of one event loop share one writer, which nobody else writes with meanwhile; the order of records is
    that of the calls."""

    def __init__(self, writer: Callable[[], LogWriter]) -> None:
        """`writer` is asked before every write, by the thread: a log may go on in another part."""
        self.commits = 0  # writes so far
        self._writer = writer
        self._seq = writer().seq  # of the last record taken
        self._waiting: list[Waiting] = []
        self._done: list[Waiting] = []  # written and synced, and not answered yet
        self._answered: deque[list[Waiting]] = deque()  # on their way to the loop
        self._failure: Exception | None = None
        self._wake, self._served = threading.Event(), threading.Event()
        self._asleep = self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def append(self, record: Record) -> asyncio.Future[None]:
        """Takes `record`; the future is done once it is on the disk. Both raise what a write has raised."""
        return self._take(line(self._seq + 1, record), 1)

    def append_group(self, records: Sequence[Record], closing: Record) -> asyncio.Future[None]:
        """The same for `records` and the record that closes them, in one write."""
        first = self._seq + 1
        contents = (*records, closed(closing, first))
        return self._take(b"".join(line(first + place, one) for place, one in enumerate(contents)), len(contents))

    def close(self) -> None:
        """Writes what waits and ends the thread; blocks for as long as the disk takes."""
        if self._loop is None:
            return
        self._closing = True
        self._wake.set()
        self._thread.join()
        os.eventfd_write(self._event, 1)
        self._tell()
        self._loop.remove_reader(self._event)
        os.close(self._event)
        self._loop = None

    def _take(self, data: bytes, count: int) -> asyncio.Future[None]:
        if self._failure is not None:
            raise self._failure
        self._seq += count
        future = (self._loop or self._start()).create_future()
        self._waiting.append((self._seq, data, future))
        if self._asleep:
            self._wake.set()
        return future

    def _start(self) -> asyncio.AbstractEventLoop:
        self._loop = asyncio.get_running_loop()
        self._event = os.eventfd(0, os.EFD_CLOEXEC)  # wakes the loop with less ado than call_soon_threadsafe
        self._loop.add_reader(self._event, self._tell)
        self._thread = threading.Thread(target=self._run, name="commit", daemon=True)
        self._thread.start()
        return self._loop

    def _tell(self) -> None:
        """On the event loop: the producers learn what became of their records."""
        os.eventfd_read(self._event)
        while self._answered:
            for _, _, future in self._answered.popleft():
                if not future.done():  # else its producer was cancelled; the record is written all the same
                    future.set_result(None)
        if self._failure is not None:
            for _, _, future in self._waiting:
                if not future.done():
                    future.set_exception(self._failure)
            self._waiting.clear()
        if self._loop is not None:
            self._loop.call_soon(self._served.set)  # behind those who have just been told

    def _answer(self) -> None:
        if self._done:
            self._answered.append(self._done)
            self._done = []
            os.eventfd_write(self._event, 1)

    def _run(self) -> None:
        took = 0.0
        while self._await_some():
            if took > SLOW and self._done:
                self._served.clear()
                self._answer()
                self._served.wait(took)
            count = len(self._waiting)
            if took < SLOW and count > FEW:
                count = min(count, max(FEW, (count + len(self._done) + 1) // 2))
            batch = self._waiting[:count]
            del self._waiting[:count]
            started = time.perf_counter()
            try:
                # Those of the batch before are answered while the disk works: told any earlier, they would keep this
                # thread from asking it.
                self._writer().append_lines(b"".join([data for _, data, _ in batch]), batch[-1][0], self._answer)
            except Exception as error:  # noqa: BLE001 — handed to everyone who waits
                self._answer()
                self._waiting[:0] = batch
                self._failure = error
                os.eventfd_write(self._event, 1)
                return
            took = time.perf_counter() - started
            self.commits += 1
            self._done = batch

    def _await_some(self) -> bool:
        """False once nothing waits and nothing will."""
        while not self._waiting:
            self._answer()
            if self._closing:
                return False
            self._wake.clear()
            self._asleep = True  # from here on whoever appends sets it; who came before is seen by the next look
            if not self._waiting and not self._closing:
                self._wake.wait()
            self._asleep = False
        return True
