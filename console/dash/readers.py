"""Connections of the page's readers: one that asks nothing is not kept for long, so nobody shuts readers out by holding
many."""

from asyncio import TimerHandle
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

SILENT = 10.0  # seconds that a connection may ask nothing in, where half a request is nothing
WAITING = 100  # connections that may do so at a time


class Connection(H11Protocol):
    """Closed after `SILENT` seconds without a whole request, and where more than `WAITING` are without one, the one
    that has been so for the longest."""

    waiting: ClassVar[dict["Connection", TimerHandle]] = {}

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._answering():
            self._stay()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._answering() and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stay()
        super().connection_lost(exc)

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._stay()
        self.waiting[self] = self.loop.call_later(SILENT, self.transport.close)
        if len(self.waiting) > WAITING:
            oldest = next(iter(self.waiting))
            oldest._stay()
            oldest.transport.close()

    def _stay(self) -> None:
        if timer := self.waiting.pop(self, None):
            timer.cancel()
