"""Runs a function in a child process that can be killed: for calls whose time and memory no bound
on their arguments limits, and for code that is not trusted.

A `Worker` keeps one child process (its side is `serving`), in which a function answers JSON
requests with JSON, one at a time. A request that takes too long, needs too much memory, recurses
into the C stack or answers with too many bytes ends as an `Overrun`; the child is killed and
replaced. The child gets none of the parent's environment variables and ends soon after it. Without
a `Confinement` this is no sandbox."""

import contextlib
import math
import os
import threading
import time
from typing import Any

from rods.deadlines import WORKER_START
from rods.environments.workers.child import Child, Confinement, Gone, Overrun, WorkerSpec
from rods.environments.workers.serving import dumps
from rods.errors import InfrastructureError, RodsError

__all__ = ["Confinement", "Overrun", "Replaced", "Worker", "WorkerSpec"]


class Replaced(RodsError):
    """The child that a request was meant for has ended, and its state with it. The request was not
    made."""


class Worker:
    """One child process that works on `spec`. Safe to share between threads: requests wait for
    each other, and who holds `turn` may make several in a row. After a fork each process starts a
    child of its own. `generation` counts the children; `used`: when time.monotonic() saw the last
    request."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.used = 0.0
        self.generation = 0
        self.turn = threading.RLock()
        self._child: Child | None = None

    def call(
        self,
        request: Any,
        *,
        seconds: float | None = None,
        generation: int | None = None,
        until: float = math.inf,
    ) -> Any:
        """The function's answer. `generation`: the child that the request is for. `until`: when
        time.monotonic() says so it is given up. Raises Overrun, InfrastructureError, Replaced, or
        RuntimeError with the text of an exception that the function raised; ValueError or TypeError
        for a request that is no JSON."""
        content = dumps(request)
        with self.turn:
            for _ in range(3):
                child = self._child
                if child is None or not child.ready or child.owner != os.getpid():
                    child = self._ready_child(until)
                if generation is not None and generation != self.generation:
                    raise Replaced("the worker process was replaced")
                patience = at_most(seconds or self.spec.seconds, until)
                try:
                    status, value = child.ask(content, patience)
                    if status != "ok" and status != "raised":
                        raise Overrun("too_large", str(value))
                except Gone:
                    self._replace(child)
                    continue
                except (Overrun, InfrastructureError):
                    self._replace(child)
                    raise
                finally:
                    self.used = time.monotonic()
                break
            else:
                raise InfrastructureError("worker processes end as soon as they are started")
        if status == "raised":
            raise RuntimeError(value)
        return value

    def open(self) -> Any:
        """Starts the child now, so that the first request does not pay for it. The answer to the
        opening request."""
        with self.turn:
            return self._ready_child(math.inf).opened

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.process.pid

    def close(self) -> None:
        with self.turn:
            if self._child is not None:
                self._child.kill()
            self._child = None

    def _replace(self, child: Child) -> None:
        child.kill()
        self._child = None
        self.generation += 1
        # without waiting for it: the next request finds it warm
        with contextlib.suppress(InfrastructureError):
            self._child = self._take(time.monotonic())

    def _ready_child(self, until: float) -> Child:
        child = self._child
        if (
            child is None
            or child.owner != os.getpid()
            or (not child.ready and child.process.poll() is not None)
        ):
            child = self._child = self._take(until)
            self.generation += 1
        child.wait_until_ready(at_most(WORKER_START, until))
        self.used = time.monotonic()
        return child

    def _take(self, until: float) -> Child:
        """A child that may not be ready. Raises InfrastructureError where none can be had before
        `until`."""
        return Child(self.spec)


def at_most(seconds: float, until: float) -> float:
    """`seconds`, or what is left of them. Raises InfrastructureError when nothing is."""
    left = until - time.monotonic()
    if left <= 0:
        raise InfrastructureError(
            "no time is left for this request: worker processes were replaced meanwhile"
        )
    return min(seconds, left)
