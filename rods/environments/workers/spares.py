"""Child processes that wait, ready, to take the place of lost ones: starting one takes tens of milliseconds, more on a
busy machine, and taking one that waits takes none."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from concurrent.futures import Future

from rods.environments.workers.child import Child, Order, start, start_soon
from rods.errors import InfrastructureError


class Spares:
    """Keeps `count` children waiting for the workers that share them, all of one order. With as many as there are
    workers, all of these may be lost at the same time, or one of them so many times in a row. Safe to share between
    threads; a fork of the process begins with none."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._waiting: deque[Future[Child]] = deque()
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def take(self, order: Order) -> Child:
        """The one that has waited the longest, or a new one. Raises InfrastructureError when none can be started."""
        with self._lock:
            self._forget_those_of_another_process()
            while self._waiting:
                child = self._waiting.popleft().result()
                if child.process.poll() is None:
                    return child
        return start(order)

    def fill(self, order: Order) -> None:
        """Starts what is missing, without waiting for it."""
        with self._lock:
            self._forget_those_of_another_process()
            while len(self._waiting) < self.count:
                self._waiting.append(start_soon(order))

    def close(self) -> None:
        with self._lock:
            self._forget_those_of_another_process()
            while self._waiting:
                with contextlib.suppress(InfrastructureError):
                    self._waiting.popleft().result().kill()

    def _forget_those_of_another_process(self) -> None:
        if self._owner != os.getpid():
            self._waiting.clear()
            self._owner = os.getpid()
