"""Group commit for asyncio: many producers await their record's durability, one write and one fdatasync serve all who
wait at that moment.

A thread of its own writes and syncs, one batch after the other; records are put into bytes before, by those who wait
for the disk anyway. On a slow disk a batch is all who wait. A fast disk would then idle while the producers are served;
so there are two batches, and one is served while the other syncs.

The first failed write ends it: whoever waits then, and whoever comes later, is told what failed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence

from buffers.log import LogWriter
from buffers.records import Record, closed, line

FAST = 0.001  # seconds; a batch that took less is followed by one of half of the producers
Waiting = tuple[bytes, "asyncio.Future[None]"]  # whole lines, and who awaits them


class GroupCommit:
    """Producers of one event loop share one writer, which nobody else writes with meanwhile; the order of records is
    that of the calls."""

    def __init__(self, writer: Callable[[], LogWriter]) -> None:
        """`writer` is asked before every write, by the thread: a log may go on in another part."""
        self.commits = 0  # writes so far
        self._writer = writer
        self._seq = writer().seq  # of the last record taken
        self._failure: Exception | None = None
        self._waiting: list[Waiting] = []
        self._wake = threading.Event()
        self._asleep = False
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

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
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _take(self, data: bytes, count: int) -> asyncio.Future[None]:
        if self._failure is not None:
            raise self._failure
        self._seq += count
        future = (self._loop or self._start()).create_future()
        self._waiting.append((data, future))
        if self._asleep:
            self._wake.set()
        return future

    def _start(self) -> asyncio.AbstractEventLoop:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name="commit", daemon=True)
        self._thread.start()
        return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        last, took = 0, 0.0
        done: list[Waiting] = []  # written and synced, and not told so yet

        def answer() -> None:
            nonlocal done
            if done:
                loop.call_soon_threadsafe(_succeed, done)
                done = []

        while self._await_some(answer):
            count = len(self._waiting)
            if took < FAST:
                count = min(count, (count + last + 1) // 2)
            batch = self._waiting[:count]
            del self._waiting[:count]
            started = time.perf_counter()
            try:
                # Those of the batch before are answered while the disk works: told any earlier, they would keep this
                # thread from asking it.
                self._writer().append_lines(b"".join([data for data, _ in batch]), answer)
            except Exception as error:  # noqa: BLE001 — handed to everyone who waits
                answer()
                loop.call_soon_threadsafe(self._fail, batch, error)
                return
            last, took = count, time.perf_counter() - started
            self.commits += 1
            done = batch

    def _await_some(self, answer: Callable[[], None]) -> bool:
        """False once nothing waits and nothing will."""
        while not self._waiting:
            answer()
            if self._closing:
                return False
            self._wake.clear()
            self._asleep = True  # from here on whoever appends sets it; who came before is seen by the next look
            if not self._waiting and not self._closing:
                self._wake.wait()
            self._asleep = False
        return True

    def _fail(self, batch: list[Waiting], error: Exception) -> None:
        """On the event loop, so that nobody slips in between."""
        self._failure = error
        for _, future in batch + self._waiting:
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()


def _succeed(batch: list[Waiting]) -> None:
    for _, future in batch:
        if not future.done():  # else its producer was cancelled; the record is written all the same
            future.set_result(None)
