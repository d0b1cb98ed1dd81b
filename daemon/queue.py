"""The seed queue: picks that no worker has started yet (its default bound, two steps' worth, is our own choice).

In `sync=free` it is bounded in age: a pick is stale once the trainer is `queue_steps` or more steps past it, and the
newest step is served first. In lockstep, or without a bound (0, the paper), nothing is dropped, and picks are served
in order.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from operator import attrgetter

from rods.buffers.daemon_log import Unfinished

by_step = attrgetter("step")


def accepted(pick: Unfinished) -> list[str]:
    """The variants of a pick that are on record, in the order of their indices."""
    return [task_id for _, task_id in sorted(pick.variants.items())]


class SeedQueue:
    """Picks in the order in which they are due. `bound` is `queue_steps`, or None where nothing is dropped."""

    def __init__(self, bound: int | None) -> None:
        self.bound = bound
        self._picks: list[Unfinished] = []  # those of a step best first
        self._changed = asyncio.Event()
        self.newest = 0  # the newest step of the trainer that is known
        self.epoch = -1  # the newest epoch whose record is known

    def __len__(self) -> int:
        return len(self._picks)

    def add(self, picks: Iterable[Unfinished]) -> None:
        self._picks += picks
        self._changed.set()

    def advance(self, newest: int, epoch: int) -> list[Unfinished]:
        """The trainer has reached step `newest` and `epoch`: returns the picks that became stale, no longer queued."""
        self.newest, self.epoch = max(self.newest, newest), epoch
        self._changed.set()
        oldest = -math.inf if self.bound is None else self.newest - self.bound
        stale = sorted((pick for pick in self._picks if pick.step <= oldest), key=by_step)
        self._picks = [pick for pick in self._picks if pick.step > oldest]
        return stale

    def take(self) -> Unfinished | None:
        """The next pick that may start; None when there is none. In order, a pick starts when the pool of its own
        epoch is known (after a restart it may be known later than the pick)."""
        pick = (min if self.bound is None else max)(self._picks, key=by_step, default=None)
        if pick is None or (self.bound is None and pick.epoch > self.epoch):
            return None
        self._picks.remove(pick)
        return pick

    async def changed(self) -> None:
        """Waits until something was added or the trainer has moved on; then `take` may have something again."""
        self._changed.clear()
        await self._changed.wait()
