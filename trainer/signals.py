"""Stopping on request: the first SIGINT or SIGTERM asks for a clean end, a second SIGINT interrupts at once.

An interrupted step leaves a group without its closing record, which every reader ignores, so even the second way out
loses only the step.
"""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

from rods.signals import NUMBERS, Interrupted


class StopRequest:
    """A context in which `asked` tells whether a signal came. Only for the main thread."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, signal.Handlers | int | None] = {}

    def __enter__(self) -> StopRequest:
        for number in NUMBERS:
            self._before[number] = signal.signal(number, self._handle)  # type: ignore[assignment]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise Interrupted(number)
        self.asked = True
