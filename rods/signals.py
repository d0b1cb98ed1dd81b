"""What SIGINT, SIGTERM and SIGUSR1 (with which Slurm warns) mean from a console script's first line to its last.

Importing what a process needs takes a while, a second with torch, and a signal in that while would be a traceback or a
bare death. So the scripts start in a module that imports nothing heavy (`console/__main__.py`, `daemon/__main__.py`,
`trainer/__main__.py`) and calls `leave_at_once` before it imports the rest; the process itself then says what signals
mean while it works, and `ignore` is for the end, when the outcome is known.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class Interrupted(BaseException):
    """Ends the work at once; `number` is the signal's. It is not KeyboardInterrupt, because Python kills itself by
    SIGINT in the end when one of those passed through `exec` (as in the making of a dataclass), caught or not."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def leave_at_once(code: int | None) -> None:
    """From now on these signals end the process with `code` (None: 128 + the signal's number, as shells have it) and
    without a word: it has touched nothing yet.

    Signals that the parent had blocked come through from here on. So whoever starts the process with them blocked knows
    that not even one in the interpreter's first milliseconds, before any line of ours, ends it in another way.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        os._exit(128 + number if code is None else code)

    for number in NUMBERS:
        signal.signal(number, leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)


def ignore() -> None:
    """From now on none of these signals changes the exit code."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)
