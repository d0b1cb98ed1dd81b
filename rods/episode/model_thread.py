"""A line to models that play in episodes."""

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Any, Self, TypeVar

from anyio.from_thread import start_blocking_portal

from rods.episode.watchdog import outside
from rods.llm import Client

T = TypeVar("T")


class ModelThread:
    """The line to the models that play, from whichever thread: one client and one event loop, in a
    thread of its own, since episodes are advanced in threads that wait for what is answered. A
    context manager. `opened` gives the client, which is entered and left in that thread; what it
    raises is raised here. `client` is there once it is open."""

    client: Client

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Client]]) -> None:
        self._opened = opened

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            self._portal = opening.enter_context(start_blocking_portal(name="rods-players"))
            # nobody waits for what is still asked then
            opening.callback(self._portal.call, self._portal.stop, True)
            opened = self._portal.wrap_async_context_manager(self._portal.call(self._opened))
            self.client = opening.enter_context(opened)
            self._open = opening.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def ask(self, question: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """What `question` comes to, which runs in the line's loop; blocks the calling thread until
        then, however long the client has patience. Raises what it raises."""
        with outside():
            answer: T = self._portal.call(question, self.client)
            return answer
