"""usage.<process>.jsonl: what every call of a language model cost (DESIGN §4).

The log is handed to the client as its sink. Calls are many and each tells little, so records are gathered and written
about once a second by a thread; a kill loses at most that second's. What is on record is what budgets begin with.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from buffers.log.records import Record
from buffers.log.tail import read
from buffers.log.writer import LogWriter, record
from rods.llm.records import Usage
from rods.runfolder import usage as log_name

SECONDS = 1.0  # between writes


class UsageLog:
    """The one writer of a process's log of calls: an async context manager that is called with each `Usage`.

    `tokens` and `requests` are what the calls on record have used, this start's included."""

    def __init__(self, run: Path, process: str, *, part_bytes: int = 0) -> None:
        """`part_bytes`: as for LogWriter."""
        self._part_bytes = part_bytes
        self.path, self.process = run / log_name(process), process
        self.tokens = self.requests = 0
        self._pending: list[Record] = []
        self._task: asyncio.Task[None] | None = None
        self._writer: LogWriter | None = None

    async def __aenter__(self) -> Self:
        self._writer = await asyncio.to_thread(self._open)
        self._task = asyncio.create_task(self._writing())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._writer is not None:
            try:
                self._write(self._pending)
            finally:
                self._writer.close()

    def __call__(self, usage: Usage) -> None:
        """Takes one call down. Raises what stopped an earlier write (a full disk, for instance)."""
        self.check()
        self._add(usage.tokens_in + usage.tokens_out, usage.requests)
        self._pending.append({"process": self.process, "time": round(time.time(), 3), **usage.as_json()})

    def check(self) -> None:
        """Raises what stopped an earlier write, if anything did."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def _writing(self) -> None:
        while True:
            await asyncio.sleep(SECONDS)
            if self._pending:
                gathered, self._pending = self._pending, []
                # A write that has begun is awaited even when this task is cancelled: two must never overlap.
                writing = asyncio.ensure_future(asyncio.to_thread(self._write, gathered))
                try:
                    await asyncio.shield(writing)
                except asyncio.CancelledError:
                    await writing
                    raise

    def _write(self, gathered: list[Record]) -> None:
        assert self._writer is not None
        first = self._writer.seq + 1
        self._writer.append(record("call", number=first + index, **fields) for index, fields in enumerate(gathered))

    def _open(self) -> LogWriter:
        for call in read(self.path):
            self._add(call["tokens_in"] + call["tokens_out"], call["requests"])
        return LogWriter(self.path, part_bytes=self._part_bytes)

    def _add(self, tokens: int, requests: int) -> None:
        self.tokens += tokens
        self.requests += requests
