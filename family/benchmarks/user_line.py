"""The line to a model that plays the user of an evaluation's episodes: a client and an event loop in a thread of its
own, since episodes are advanced in threads that wait for what the user says. What it costs is in usage.user.jsonl."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

from anyio.from_thread import start_blocking_portal

from rods.buffers.usage import UsageLog
from rods.config import Endpoint
from rods.episode.watchdog import outside
from rods.errors import InfrastructureError
from rods.llm import Client, Completion, Request


class UserLine:
    """A context manager; asked from any thread while it is open."""

    def __init__(self, endpoint: Endpoint, folder: Path) -> None:
        self._endpoint, self._folder = endpoint, folder

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            self._portal = opening.enter_context(start_blocking_portal(name="rods-user"))
            opening.callback(self._portal.call, self._portal.stop, True)  # nobody waits for what is still asked then
            client = self._portal.wrap_async_context_manager(self._portal.call(self._opened))
            self._client = opening.enter_context(client)
            self._open = opening.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Client]:
        async with UsageLog(self._folder, "user") as usage, Client([self._endpoint], sink=usage) as client:
            yield client

    def ask(self, request: Request) -> Completion:
        """The user's answer. Raises InfrastructureError where its endpoint gives none."""
        with outside():
            try:
                return self._portal.call(self._client.complete, request)
            except InfrastructureError as error:
                raise InfrastructureError(f"the user's endpoint: {error}") from error


@runtime_checkable
class Listening(Protocol):
    """A maker of episodes (rods.family.benchmarks.episodes) that asks the user's model through `line`, while that is
    open. Where the settings name no user, a script plays it: for policies with known scores."""

    line: UserLine | None
