"""Group commit for asyncio: many producers await their record's durability, one write and one fdatasync serve all who
wait at that moment.

A thread of its own writes and syncs, one batch after the other; records are put into bytes before, by those who wait
for the disk anyway. On a slow disk a batch is all who wait. A fast disk would then idle while the producers are served;
so there are two batches, and one is served while the other syncs.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from buffers.log import LogWriter
from buffers.records import Record, line

FAST = 0.001  # seconds; a batch that took less is followed by one of half of the producers
Waiting = tuple[int, bytes, Record, "asyncio.Future[None]"]  # the seq that it will have, its line, the record


class GroupCommit:
    """Producers of one event loop share one writer; the order of records is that of the calls."""

    def __init__(self, writer: LogWriter) -> None:
        self.commits = 0  # writes so far
        self._writer = writer
        self._seq = writer.seq  # of the last record that waits, if all before it are written
        self._waiting: list[Waiting] = []
        self._wake = threading.Event()
        self._asleep = False
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def append(self, record: Record) -> None:
        """Returns once `record` is on the disk. Raises what the write raised, for every record of that write."""
        seq = self._seq + 1
        data = line(seq, record)  # a record that is no JSON fails here, and alone
        self._seq = seq
        loop = self._loop or self._start()
        future = loop.create_future()
        self._waiting.append((seq, data, record, future))
        if self._asleep:
            self._wake.set()
        await future

    async def close(self) -> None:
        """Writes what waits and ends the thread."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _start(self) -> asyncio.AbstractEventLoop:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name="commit", daemon=True)
        self._thread.start()
        return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        last, took = 0, 0.0
        done: list[Waiting] = []  # written and synced, and not told so yet
        failure: BaseException | None = None

        def answer() -> None:
            nonlocal done
            if done:
                loop.call_soon_threadsafe(_answer, done, failure)
                done = []

        while self._await_some(answer):
            count = len(self._waiting)
            if took < FAST:
                count = min(count, (count + last + 1) // 2)
            batch = self._waiting[:count]
            del self._waiting[:count]
            started = time.perf_counter()
            failed = self._write(batch, answer)
            last, took = count, time.perf_counter() - started
            self.commits += 1
            answer()  # unless the write has done so
            done, failure = batch, failed

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

    def _write(self, batch: list[Waiting], answer: Callable[[], None]) -> BaseException | None:
        """Writes and syncs `batch`. Those of the batch before are answered while the disk works: told any earlier,
        they would keep this thread from asking it."""
        try:
            if batch[0][0] == self._writer.seq + 1:
                self._writer.append_lines(b"".join([data for _, data, _, _ in batch]), answer)
            else:  # an earlier write failed, and the seqs with it
                self._writer.append([record for _, _, record, _ in batch])
                self._seq = self._writer.seq + len(self._waiting)
        except Exception as error:  # noqa: BLE001 — handed to everyone who waits for it
            return error
        return None


def _answer(batch: list[Waiting], failure: BaseException | None) -> None:
    for _, _, _, future in batch:
        if future.done():  # its producer was cancelled; the record is written all the same
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
