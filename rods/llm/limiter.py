"""Limits the calls in flight: a bound set by the user, lowered while the endpoint shows signs of overload.

Additive increase, multiplicative decrease, judged once a *round* (as many ended calls as were allowed at once). The
limit starts at the bound: servers such as vLLM take what they are given and queue the rest. It goes down

- by the share of a round's calls that the server was too busy for (429, 503, no answer in time), at most by half: so a
  few such calls among good ones, which are no sign of overload, are outweighed by the increase;
- by what waits in the server's own queue (`vllm:num_requests_waiting`) beyond the few calls that keep it busy;
- by a quarter, on trial, when the median call is slower than `slow_seconds`: if a round with fewer calls is not
  quicker, the model is slow and not the queue, and the limit goes back up for a good while.

It goes up by a sixteenth of the bound a round while the median call is quick enough and the server's queue is empty.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from statistics import median

TRIAL = 0.75
MOST = 0.5  # of the limit goes in a round at most
STEPS_UP = 16
PAYS = 0.8  # a trial pays when the median call takes at most so much of before: then hardly any throughput is lost
FIRST_TRUCE, LONGEST_TRUCE = 8, 64  # rounds without a trial after one that did not pay; doubles


class Limiter:
    """Slots for calls, first come first served. `limit` moves between 1 and `bound`."""

    def __init__(self, bound: int, slow_seconds: float) -> None:
        self.bound, self.slow_seconds = bound, slow_seconds
        self.limit = float(bound)
        self.held = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._latencies: list[float] = []
        self._ended = 0  # calls of this round
        self._busy = 0  # of these: the server was too busy for them
        self._lowered = False  # the limit went down in this round: what ends in it was sent under the old one
        self._queue = False  # the server's own queue was seen not empty in this round
        self._before_trial: tuple[float, float] | None = None  # limit and median of the round before a trial
        self._truce, self._next_truce = 0, FIRST_TRUCE

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def acquire(self, *, first: bool = False) -> None:
        """Takes a slot, waiting for one if need be; `first` goes ahead of all who wait."""
        if self.held < int(self.limit) and not self._waiting:
            self.held += 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if first:
            self._waiting.appendleft(future)
        else:
            self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release()  # the slot came in the same moment
            else:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(future)
            raise

    def release(self) -> None:
        self.held -= 1
        self._hand_out()

    def rebound(self, bound: int) -> None:
        """Sets another bound, and begins there as at the start. Calls beyond a lower one end as they would."""
        self.bound = bound
        self._lower(float(bound))
        self._before_trial = None
        self._hand_out()

    def succeeded(self, seconds: float) -> None:
        """A call was answered after `seconds`."""
        self._latencies.append(seconds)
        self._count()

    def overloaded(self) -> None:
        """The server was too busy for a call."""
        self._busy += 1
        self._count()

    def queued(self, waiting: int) -> None:
        """The server has `waiting` calls in its own queue. A few keep it busy; what is more may as well wait here."""
        self._queue = waiting > 0
        slack = max(2.0, self.limit / 8)
        if waiting > slack and not self._lowered:
            self._lower(max(self.limit * MOST, min(self.limit, self.held) - (waiting - slack)))

    def _count(self) -> None:
        self._ended += 1
        if self._ended >= int(self.limit):
            self._end_round()

    def _end_round(self) -> None:
        share, latencies, lowered = self._busy / self._ended, self._latencies, self._lowered
        self._latencies, self._ended, self._busy, self._lowered = [], 0, 0, False
        if not lowered:
            self.limit = max(1.0, self.limit * (1 - min(MOST, share)))
            if latencies:
                self._judge(median(latencies))
        self._hand_out()

    def _judge(self, typical: float) -> None:
        if self._before_trial is not None:
            limit, seconds = self._before_trial
            self._before_trial = None
            if typical > PAYS * seconds:
                self.limit = limit
                self._truce, self._next_truce = self._next_truce, min(LONGEST_TRUCE, 2 * self._next_truce)
                return
            self._next_truce = FIRST_TRUCE
        self._truce = max(0, self._truce - 1)
        if typical > self.slow_seconds and not self._truce and self.limit > 1:
            self._before_trial = (self.limit, typical)
            self._lower(self.limit * TRIAL)
        elif typical <= self.slow_seconds and not self._queue:
            self.limit = min(float(self.bound), self.limit + max(1.0, self.bound / STEPS_UP))

    def _lower(self, limit: float) -> None:
        self.limit = max(1.0, limit)
        self._lowered = True
        self._ended = self._busy = 0
        self._latencies.clear()

    def _hand_out(self) -> None:
        while self._waiting and self.held < int(self.limit):
            future = self._waiting.popleft()
            if not future.done():
                self.held += 1
                future.set_result(None)
