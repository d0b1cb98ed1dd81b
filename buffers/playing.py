"""Opens the line to the models that play a run's tasks (rods/players): with a budget, and every call on record.

A process that plays writes usage.<process>.jsonl. The budget (`operation.player_budgets`) is the run's, so it begins at
what all such processes have spent by now; two that play at the same time do not see each other's calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from buffers.log.tail import read
from buffers.run.heartbeat import Heartbeat
from buffers.run.run import Run
from buffers.run.runfolder import usage
from buffers.usage import UsageLog, players
from rods.config import Budgets
from rods.llm import Budget, Client
from rods.players.line import Line

TOLD_SECONDS = 1.0  # between two notes in the heartbeat


@contextmanager
def playing(run: Run, process: str, heartbeat: Heartbeat | None = None) -> Iterator[None]:
    """While this is open, the models of `run.players` can be asked, where any play. `process` names the log; endpoints
    and budget are noted in `heartbeat`. Raises UserError for endpoints whose key is missing."""
    if not run.config.simulation.by_model:
        yield
        return
    with Line(lambda: _client(run, process, heartbeat)) as line:
        run.players.line = line
        try:
            yield
        finally:
            run.players.line = None


@asynccontextmanager
async def _client(run: Run, process: str, heartbeat: Heartbeat | None) -> AsyncIterator[Client]:
    operation = run.config.operation
    async with UsageLog(run.path, process, part_bytes=operation.log_part_bytes) as log:
        others = [call for name in players(run.path) if name != process for call in read(run.path / usage(name))]
        tokens = log.tokens + sum(call["tokens_in"] + call["tokens_out"] for call in others)
        requests = log.requests + sum(call["requests"] for call in others)
        limits = Budgets(**operation.player_budgets.model_dump())
        budget = Budget(limits, tokens=tokens, requests=requests)
        endpoints = [endpoint.giving_up for endpoint in operation.players or operation.endpoints]
        client = Client(endpoints, budget=budget, sink=log)
        async with client, _noted(client, heartbeat):
            yield client


@asynccontextmanager
async def _noted(client: Client, heartbeat: Heartbeat | None) -> AsyncIterator[None]:
    """Notes how endpoints and budget stand, as the daemon does, now and then and in the end."""
    budget = client.budget

    def note() -> None:
        if heartbeat is not None:
            heartbeat.note(budget.requests, endpoints=client.status(), budget=budget.status())

    async def noting() -> None:
        while True:
            note()
            await asyncio.sleep(TOLD_SECONDS)

    task = asyncio.create_task(noting())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        note()
