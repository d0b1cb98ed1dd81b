"""Group commit for asyncio: many producers await their record's durability, one write and one fdatasync serve all who
wait at that moment. The disk is waited for in a thread, so the event loop never is."""

from __future__ import annotations

import asyncio

from buffers.log import LogWriter
from buffers.records import Record


class GroupCommit:
    """Producers share one writer; the order of records is that of the calls."""

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer
        self._waiting: list[tuple[Record, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def append(self, record: Record) -> None:
        """Returns once `record` is on the disk. Raises what the write raised, for every record of that write."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._commit())
        await future

    async def close(self) -> None:
        """Waits for what is under way."""
        if self._task is not None:
            await self._task

    async def _commit(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            failure: BaseException | None = None
            try:
                await asyncio.to_thread(self._writer.append, [record for record, _ in batch])
            except Exception as error:  # noqa: BLE001 — handed to everyone who waits for it
                failure = error
            for _, future in batch:
                if future.cancelled():
                    continue
                if failure is None:
                    future.set_result(None)
                else:
                    future.set_exception(failure)
