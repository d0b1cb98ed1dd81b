"""Group commit for asyncio: many producers await their record's durability, one write and one fdatasync serve all who
wait at that moment.

A thread of its own writes and syncs, one batch after the other. On a slow disk a batch is all who wait. A fast disk
would then idle while the producers are served; so there are two batches, and one is served while the other syncs.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque

from buffers.log import LogWriter
from buffers.records import Record

FAST = 0.001  # seconds; a batch that took less is followed by one of half of the producers
Waiting = tuple[Record, "asyncio.Future[None]"]


class GroupCommit:
    """Producers of one event loop share one writer; the order of records is that of the calls."""

    def __init__(self, writer: LogWriter) -> None:
        self.commits = 0  # writes so far
        self._writer = writer
        self._waiting: deque[Waiting] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    async def append(self, record: Record) -> None:
        """Returns once `record` is on the disk. Raises what the write raised, for every record of that write."""
        loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(loop,), name="commit", daemon=True)
            self._thread.start()
        future = loop.create_future()
        self._waiting.append((record, future))
        self._wake.set()
        await future

    async def close(self) -> None:
        """Writes what waits and ends the thread."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        last, took = 0, 0.0
        while self._waiting or not self._closing:
            if not self._waiting:
                self._wake.wait()
            self._wake.clear()  # before the batch is taken: who comes later sets it again
            count = len(self._waiting)
            if took < FAST:
                count = min(count, (count + last + 1) // 2)
            batch = [self._waiting.popleft() for _ in range(count)]
            if not batch:
                continue
            failure: BaseException | None = None
            started = time.perf_counter()
            try:
                self._writer.append([record for record, _ in batch])
            except Exception as error:  # noqa: BLE001 — handed to everyone who waits for it
                failure = error
            last, took = len(batch), time.perf_counter() - started
            self.commits += 1
            loop.call_soon_threadsafe(_answer, batch, failure)


def _answer(batch: list[Waiting], failure: BaseException | None) -> None:
    for _, future in batch:
        if future.done():  # its producer was cancelled; the record is written all the same
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
