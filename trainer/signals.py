"""Stopping on request: the first SIGINT, SIGTERM or SIGUSR1 asks for a clean end (a checkpoint after the step), a
second SIGINT interrupts at once, and so does the end of the grace period.

An interrupted step leaves a group without its closing record, which every reader ignores, so even the second way out
loses only the step.
"""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

from rods.signals import NUMBERS, Interrupted


class GraceOver(Interrupted):
    """The step has not ended within `operation.grace_seconds` of the signal."""


class StopRequest:
    """A context in which `asked` tells whether a signal came. `grace`: seconds from then on until the step is
    interrupted; 0: it may take what it takes. Only for the main thread."""

    def __init__(self) -> None:
        self.asked = False
        self.grace = 0.0
        self._before: dict[int, signal.Handlers | int | None] = {}

    def __enter__(self) -> StopRequest:
        for number in NUMBERS:
            self._before[number] = signal.signal(number, self._handle)  # type: ignore[assignment]
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._overdue)  # type: ignore[assignment]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise Interrupted(number)
        if not self.asked and self.grace:
            signal.setitimer(signal.ITIMER_REAL, self.grace)
        self.asked = True

    def _overdue(self, number: int, frame: FrameType | None) -> None:
        raise GraceOver(number)
