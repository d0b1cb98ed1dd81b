"""A circuit breaker that pauses calls: while an endpoint is down they wait for it, and cost nothing.

Closed, calls pass. After `THRESHOLD` failures with no success between them, or one refusal that no single call is to
blame for (a wrong key, an unknown model), it opens: nothing passes for a pause, then one call tries. Its success closes
the circuit, its failure doubles the pause. A few faults among successes never open it. Answers to what was sent before
it opened close nothing: they were on their way, and say nothing of the calls that follow.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

THRESHOLD = 8
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds
LONGEST_ASKED = 600.0  # seconds that a server may ask for


@dataclass(slots=True)
class Passage:
    """The permission to send one call. `trial` marks the one call that tries an open circuit."""

    trial: bool


class Circuit:
    """`down_since` is the monotonic time since when no call has succeeded, None while closed; `why` the last reason.
    `last_answered` is when the latest of the calls that were answered was sent."""

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
    def closed(self) -> bool:
        return self.down_since is None

    @property
    def able(self) -> bool:
        """Whether a call would pass at once."""
        return self.down_since is None or (not self._trial and time.monotonic() >= self._next_trial)

    async def passage(self) -> Passage | None:
        """The permission to send, at once or after a pause. None: ask again, things may have changed in the pause."""
        if self.down_since is None:
            return Passage(trial=False)
        pause = self._next_trial - time.monotonic()
        if pause <= 0 and not self._trial:
            self._trial = True
            return Passage(trial=True)
        try:
            async with asyncio.timeout(pause if pause > 0 else LONGEST_PAUSE):
                await self._changed.wait()
        except TimeoutError:
            pass
        return None

    def succeeded(self, sent: float, *, answered: bool = True) -> bool:
        """A call that was sent at `sent` (monotonic) has shown the endpoint well; not `answered`: it was turned away.
        True when this closed the circuit."""
        if answered:
            self.last_answered = max(self.last_answered, sent)
        if self.down_since is not None and sent < self._opened:
            return False
        self._failures = 0
        if self.down_since is None:
            return False
        self.down_since, self._pause, self.why = None, FIRST_PAUSE, ""
        self._tell()
        return True

    def failed(self, passage: Passage, why: str, *, refusal: bool = False, after: float = 0.0) -> bool:
        """True when this opened the circuit. Only the trial's failure counts against an open one: what was sent before
        says nothing new. A pause is no shorter than `after`, what the server asked for, within reason."""
        now = time.monotonic()
        if self.down_since is not None:
            if passage.trial:
                self.why = why
                self._pause = min(LONGEST_PAUSE, 2 * self._pause)
                self._next_trial = now + max(self._pause, min(after, LONGEST_ASKED))
            return False
        if not self._failures:
            self._first_failure = now
        self._failures += 1
        if self._failures < THRESHOLD and not refusal:
            return False
        self.down_since, self._opened, self.why = self._first_failure, now, why
        self._next_trial = now + max(self._pause, min(after, LONGEST_ASKED))
        return True

    def leave(self, passage: Passage) -> None:
        """The call is over, however it ended (cancelled too). Lets another one try."""
        if passage.trial:
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
