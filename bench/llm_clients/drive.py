"""Workers that call and call again, and what came of it. Standard library only: the scripts beside
it run in foreign environments too."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable

MESSAGES = [
    {
        "role": "user",
        "content": "Plan three turns that book a room, invite two people and file the notes. " * 4,
    }
]


def asked() -> tuple[str, int, int]:
    """URL, calls in flight and rounds from the command line."""
    return sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


async def drive(call: Callable[[], Awaitable[str]], in_flight: int, rounds: int) -> None:
    """Runs so many workers for so many calls each and prints one JSON object: calls, seconds from
    the first call to the last answer, the same without the first round, CPU seconds of this
    process."""
    ended: list[float] = []

    async def work() -> None:
        for _ in range(rounds):
            if len(await call()) != 1000:
                raise RuntimeError("not the answer that was sent")
            ended.append(time.perf_counter())

    cpu = _cpu()
    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    cpu = _cpu() - cpu
    ended.sort()
    found = {
        "calls": len(ended),
        "seconds": ended[-1] - began,
        "steady_calls": len(ended) - in_flight,
        "steady_seconds": ended[-1] - ended[in_flight - 1],
        "cpu_seconds": cpu,
    }
    print(json.dumps(found), flush=True)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
