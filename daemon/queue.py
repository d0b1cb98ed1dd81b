"""The seed queue: picks that no worker has started yet (its default bound, two steps' worth, is our own choice), and
what is to be done beside picks.

In `sync=free` it is bounded in age: a pick is stale once the trainer is `queue_steps` or more steps past it, and the
newest step is served first. In lockstep, or without a bound (0, the paper), nothing is dropped, and picks are served
in order. Jobs beside picks are few and soon done: they are served before picks, one at a time, and never dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from rods.rules.selection import Pick


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pick of `epoch`, and which of its variants are already in the expanded log (after a restart)."""

    pick: Pick
    epoch: int
    accepted: tuple[tuple[int, str], ...] = ()  # (variant index, task id)


Job = Callable[[], Coroutine[Any, Any, None]]  # of what a daemon does beside picks


class SeedQueue:
    """Picks in the order in which they are due. `bound` is `queue_steps`, or None where nothing is dropped."""

    def __init__(self, bound: int | None) -> None:
        self.bound = bound
        self._steps: dict[int, list[Waiting]] = {}  # step → its picks, best first
        self._jobs: deque[Job] = deque()
        self._working = False  # a job was taken, and is not done
        self._changed = asyncio.Event()
        self.newest = 0  # the newest step of the trainer that is known
        self.epoch = -1  # the newest epoch whose record is known

    def __len__(self) -> int:
        return sum(len(picks) for picks in self._steps.values()) + len(self._jobs)

    def add(self, picks: Iterable[Waiting]) -> None:
        for waiting in picks:
            self._steps.setdefault(waiting.pick.step, []).append(waiting)
        self._changed.set()

    def add_jobs(self, jobs: Iterable[Job]) -> None:
        self._jobs.extend(jobs)
        self._changed.set()

    def take_job(self) -> Job | None:
        """The next job beside picks, unless another one is in work; then `job_done` has to be called first."""
        if self._working or not self._jobs:
            return None
        self._working = True
        return self._jobs.popleft()

    def job_done(self) -> None:
        """The job that was taken is done."""
        self._working = False
        self._changed.set()

    def advance(self, newest: int, epoch: int) -> list[Waiting]:
        """The trainer has reached step `newest` and `epoch`: returns the picks that became stale, no longer queued."""
        self.newest, self.epoch = max(self.newest, newest), epoch
        self._changed.set()
        if self.bound is None:
            return []
        stale = sorted(step for step in self._steps if self.newest - step >= self.bound)
        return [waiting for step in stale for waiting in self._steps.pop(step)]

    def take(self) -> Waiting | None:
        """The next pick that may start; None when there is none. In order, a pick starts when the pool of its own
        epoch is known (after a restart it may be known later than the pick)."""
        if not self._steps:
            return None
        step = min(self._steps) if self.bound is None else max(self._steps)
        picks = self._steps[step]
        if self.bound is None and picks[0].epoch > self.epoch:
            return None
        waiting = picks.pop(0)
        if not picks:
            del self._steps[step]
        return waiting

    async def changed(self) -> None:
        """Waits until something was added or the trainer has moved on; then `take` may have something again."""
        self._changed.clear()
        await self._changed.wait()
