"""The picks of a run that wait for a worker."""

import asyncio
import math
from collections.abc import Iterable
from operator import attrgetter

from rods.buffers.folds.seeds import Unfinished

BY_STEP = attrgetter("step")


class SeedQueue:
    """Picks that no worker has started yet, in the order in which they are due.

    In `sync=free` their age is `bound` (`queue_steps`; the default, two steps' worth, is our own
    choice): a pick is stale once the trainer is so many steps past it, and the newest step is
    served first. In lockstep, or without a bound (None; 0 in the paper), nothing is dropped, and
    picks are served in order."""

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
        """The trainer has reached step `newest` and `epoch`: returns the picks that became stale,
        no longer queued."""
        self.newest = max(self.newest, newest)
        self.epoch = epoch
        self._changed.set()
        oldest = -math.inf if self.bound is None else self.newest - self.bound
        stale = sorted((pick for pick in self._picks if pick.step <= oldest), key=BY_STEP)
        self._picks = [pick for pick in self._picks if pick.step > oldest]
        return stale

    def take(self) -> Unfinished | None:
        """The next pick that may start; None when there is none. In order, a pick starts when the
        pool of its own epoch is known (after a restart it may be known later than the pick)."""
        pick = (min if self.bound is None else max)(self._picks, key=BY_STEP, default=None)
        if pick is None or (self.bound is None and pick.epoch > self.epoch):
            return None
        self._picks.remove(pick)
        return pick

    async def changed(self) -> None:
        """Waits until something was added or the trainer has moved on; then `take` may have
        something again."""
        self._changed.clear()
        await self._changed.wait()
