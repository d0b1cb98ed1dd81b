"""SIGINT, SIGTERM and SIGUSR1 (with which Slurm warns), from a program's first line to its last.

Imports take a while, in which a signal would end a program with a traceback. So every program
starts in a `__main__.py` that imports nothing heavy and calls `leave_at_once`; while it works it
says what a signal means, by `on_signal` or a `StopRequest`; `ignore` is for its end, when the
outcome is known. Only for the main thread."""

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import ClassVar

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class Interrupted(BaseException):
    """Ends the work at once; `number` is the signal's. It is not KeyboardInterrupt, because Python
    kills itself by SIGINT in the end when one of those passed through `exec` (as in the making of a
    dataclass), caught or not. `latest` is the last one that was made, for who meets an error that
    it was turned into."""

    latest: "ClassVar[Interrupted | None]" = None
    why = ""  # what is said in place of the command's own words

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        Interrupted.latest = self


class GraceOver(Interrupted):
    """The step has not ended within `operation.grace_seconds` of the signal, or what comes before
    the first one within a shorter time."""

    why = (
        "stopped inside a step or before the first one, which outlasted the grace period; the "
        "last checkpoint stands"
    )


def on_signal(action: Callable[[int], None]) -> None:
    """From now on these signals call `action` with their number, between two instructions of the
    main thread."""

    def handle(number: int, frame: FrameType | None) -> None:
        action(number)

    for number in NUMBERS:
        signal.signal(number, handle)


def leave_at_once(code: int | None) -> None:
    """From now on these signals end the process with `code` (None: 128 + the signal's number, as
    shells have it) and without a word: it has touched nothing yet. Signals that the parent had
    blocked come through from here on, so that none in the interpreter's first milliseconds ends it
    in another way."""
    on_signal(lambda number: os._exit(128 + number if code is None else code))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)


def interrupt(number: int) -> None:
    """An action for `on_signal`: raises Interrupted in whatever is being done."""
    raise Interrupted(number)


def ignore() -> None:
    """From now on none of these signals changes the exit code."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)


class StopRequest:
    """A context in which the first signal is a request: `asked` becomes true, and the work ends
    itself where it may (a trainer after its step, with a checkpoint). With `second_interrupts`, a
    SIGINT after the first signal raises Interrupted. `grace`: seconds from the first signal, or
    from when they were changed after it, until GraceOver is raised; 0: never. A step interrupted
    like this leaves a group without its closing record, which every reader ignores."""

    def __init__(self, *, second_interrupts: bool = True) -> None:
        self.asked = False
        self._grace = 0.0
        self.second_interrupts = second_interrupts
        self._before: dict[int, signal.Handlers | int | None] = {}

    def __enter__(self) -> "StopRequest":
        for number in (*NUMBERS, signal.SIGALRM):
            self._before[number] = signal.getsignal(number)  # type: ignore[assignment]
        on_signal(self._ask)
        signal.signal(signal.SIGALRM, self._overdue)
        return self

    def __exit__(self, *raised: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def grace(self) -> float:
        return self._grace

    @grace.setter
    def grace(self, seconds: float) -> None:
        if self.asked and seconds != self._grace:  # the signal came first
            signal.setitimer(signal.ITIMER_REAL, seconds)
        self._grace = seconds

    def _ask(self, number: int) -> None:
        if self.asked and number == signal.SIGINT and self.second_interrupts:
            raise Interrupted(number)
        if not self.asked and self.grace:
            signal.setitimer(signal.ITIMER_REAL, self.grace)
        self.asked = True

    def _overdue(self, number: int, frame: FrameType | None) -> None:
        raise GraceOver(number)
