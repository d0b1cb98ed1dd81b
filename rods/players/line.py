"""The line to the models that play: one client and one event loop, in a thread of its own.

Episodes are advanced in threads that wait for what is answered (rods/episode/drivers.py), and a client lives in one
event loop; so whoever plays asks through here, from whichever thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self, TypeVar

from rods.episode.watchdog import outside
from rods.llm import Client

T = TypeVar("T")


class Line:
    """A context manager. `opened` gives the client, which is entered and left in the line's own thread; what it raises
    is raised here. `client` is there once the line is open."""

    client: Client

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Client]]) -> None:
        self._opened = opened
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rods-players")
        self._ready: Future[None] = Future()
        self._running: Future[None] | None = None

    def __enter__(self) -> Self:
        self._running = self._thread.submit(lambda: asyncio.run(self._hold()))
        wait((self._ready, self._running), return_when=FIRST_COMPLETED)
        if not self._ready.done():
            self._running.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._running is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        try:
            self._running.result()
        finally:
            self._thread.shutdown(wait=False)

    def ask(self, question: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """What `question` comes to, which runs in the line's loop; blocks the calling thread until then, however long
        the client has patience. Raises what it raises."""
        with outside():
            return asyncio.run_coroutine_threadsafe(question(self.client), self._loop).result()

    async def _hold(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._opened() as self.client:
            self._ready.set_result(None)
            await self._stop.wait()
