"""Work that computes instead of waiting goes to the threads, so that no seed holds up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


class Compute:
    """`await compute(function)`: its result, computed in a thread."""

    def __init__(self, threads: Executor) -> None:
        self.threads = threads

    async def __call__(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.threads, function)
