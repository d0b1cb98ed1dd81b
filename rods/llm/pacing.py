"""When calls to an endpoint may be sent: how many at a time (`Limiter`), and none while it is down
(`Circuit`)."""

import asyncio
import contextlib
import math
import time
from collections import deque

# Of the circuit.
THRESHOLD = 8
# seconds
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
LONGEST_ASKED = 600.0  # seconds that a server may ask for
SILENCE = 5.0  # of failures without a success, after which nobody seems to answer
# Of the limiter.
MOST = 0.5  # of the limit goes in a round at most
STEPS_UP = 16


class Limiter:
    """Slots for calls, first come first served. `limit` moves between 1 and `bound`, which the user
    sets.

    Additive increase, multiplicative decrease, judged once a *round* (as many ended calls as were
    allowed at once). The limit starts at the bound: servers such as vLLM queue what is too much. It
    goes down by the share of a round's calls that the server was too busy for (429, 503, no answer
    in time), at most by half, and up by a sixteenth of the bound: a few such calls among good ones
    are outweighed by the increase."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.limit = float(bound)
        self.held = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._ended = 0  # calls of this round
        self._busy = 0  # of these: the server was too busy for them

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def acquire(self, *, first: bool = False) -> None:
        """Takes a slot, waiting for one if need be; `first` goes ahead of all who wait."""
        if self.held < int(self.limit) and not self._waiting:
            self.held += 1
            return
        future = asyncio.get_running_loop().create_future()
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

    def ended(self, *, busy: bool) -> None:
        """A call was answered, or the server was too busy for it."""
        self._busy += busy
        self._ended += 1
        if self._ended < int(self.limit):
            return
        share = self._busy / self._ended
        self._ended = 0
        self._busy = 0
        self.limit = max(1.0, self.limit * (1 - min(MOST, share)))
        if share < 1:
            self.limit = min(float(self.bound), self.limit + max(1.0, self.bound / STEPS_UP))
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self.held < int(self.limit):
            future = self._waiting.popleft()
            if not future.done():
                self.held += 1
                future.set_result(None)


class Circuit:
    """Pauses calls while an endpoint is down.

    Closed, calls pass. After `THRESHOLD` failures with no success between them, or one refusal that
    no single call is to blame for (a wrong key, an unknown model), it opens: nothing passes for a
    pause, then one call tries. Its success closes the circuit, its failure doubles the pause.
    Answers to what was sent before it opened close nothing.

    `down_since` is the monotonic time since when no call has succeeded, None while closed; `why`
    the last failure's reason, "" after a success. `last_answered` is when the latest of the calls
    that were answered was sent."""

    def __init__(self) -> None:
        self.why = ""
        self.down_since: float | None = None
        self.last_answered = 0.0
        self._opened = 0.0
        self._failures = 0
        self._first_failure = 0.0
        self._pause = FIRST_PAUSE
        self._next_trial = 0.0
        self._trial = False  # a call is trying
        self._changed = asyncio.Event()

    @property
    def able(self) -> bool:
        """Whether a call would pass at once."""
        return self.down_since is None or (not self._trial and time.monotonic() >= self._next_trial)

    @property
    def outage(self) -> float:
        """Seconds for which calls have failed without a success between; 0 while it is closed and
        that is not long."""
        silence = time.monotonic() - self._first_failure if self._failures else 0.0
        return silence if self.down_since is not None or silence > SILENCE else 0.0

    @property
    def resting(self) -> bool:
        """Whether it is open, and its pause is not over."""
        return not (self.able or self._trial)

    async def passage(self, most: float = math.inf) -> bool | None:
        """The permission to send, and whether the call tries an open circuit. None: ask again,
        after a pause, of which at most so many seconds are waited for."""
        if self.down_since is None:
            return False
        pause = self._next_trial - time.monotonic()
        if pause <= 0 and not self._trial:
            self._trial = True
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_PAUSE if self._trial else min(pause, most)):
                await self._changed.wait()
        return None

    def succeeded(self, sent: float, *, answered: bool = True) -> bool:
        """A call sent at `sent` (monotonic) was `answered`, or turned away by an endpoint that is
        well. True when this closed the circuit."""
        if answered:
            self.last_answered = max(self.last_answered, sent)
        if self.down_since is not None and sent < self._opened:
            return False
        self._failures = 0
        self.why = ""
        if self.down_since is None:
            return False
        self.down_since = None
        self._pause = FIRST_PAUSE
        self._tell()
        return True

    def failed(self, why: str, trial: bool, *, refusal: bool = False, after: float = 0.0) -> bool:
        """True when this opened the circuit. Only the trial's failure counts against an open one:
        what was sent before says nothing new. A pause is no shorter than `after`, what the server
        asked for, within reason."""
        now = time.monotonic()
        after = min(after, LONGEST_ASKED)
        if self.down_since is not None:
            if trial:
                self.why = why
                self._pause = min(LONGEST_PAUSE, 2 * self._pause)
                self._next_trial = now + max(self._pause, after)
            return False
        if not self._failures:
            self._first_failure = now
        self._failures += 1
        self.why = why
        if self._failures < THRESHOLD and not refusal:
            return False
        self.down_since = self._first_failure
        self._opened = now
        self._next_trial = now + max(self._pause, after)
        return True

    def leave(self, trial: bool) -> None:
        """The call is over, however it ended (cancelled too). Lets another one try."""
        if trial:
            self._trial = False
            self._tell()

    def try_now(self) -> None:
        """Something changed outside (the endpoint has moved): the pause is over."""
        self._pause = FIRST_PAUSE
        self._next_trial = 0.0
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
