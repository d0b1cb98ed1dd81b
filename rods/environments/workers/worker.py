"""Runs a function in a child process that can be killed: for calls whose time and memory no bound on their arguments
limits, and for code that is not trusted.

`Worker("package.module:function")` keeps one child process that answers JSON requests with JSON, one at a time
(`serving` is the child's side). A request that takes too long, needs too much memory, recurses into the C stack or
answers with too many bytes ends as an `Overrun`; the child is then killed and replaced. A machine that cannot start
children is an `InfrastructureError`.

The child gets none of the parent's environment variables and ends soon after it: when its input closes, or in a
computation that hangs at a limit on its CPU time (confined: by a signal of the kernel). Without a `Confinement` this is
no sandbox: the functions are ours or the user's own, and only their arguments are not trusted.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from rods.deadlines import WORKER_CALL, WORKER_START
from rods.environments.workers.child import Child, Confinement, Gone, Order, Overrun
from rods.environments.workers.pool import Spares
from rods.environments.workers.serving import dumps
from rods.errors import InfrastructureError, RodsError

__all__ = ["Confinement", "Overrun", "Replaced", "Spares", "Worker"]


class Replaced(RodsError):
    """The child that a request was meant for has ended, and its state with it. The request was not made."""


class Worker:
    """One child process that runs `target` ("package.module:function", JSON to JSON).

    `seconds` a request may take, `memory` bytes of address space, `reply_bytes` of JSON in the reply. `opening` is a
    first request to every child, while it waits or is started; `loading` one more when this worker takes it. With `cpu`
    the seconds are the child's CPU time: on a busy machine a request takes as long as it takes, up to
    `deadlines.WORKER_STALLED` by the clock; then the machine is at fault. `spares` are children that wait to replace
    it, shared with other workers of the same order; without them a replacement has to be started. Their pool may take
    the child of a worker that rests (`leave`), unless that is `held`. Safe to share between threads: requests wait for
    each other, and who holds `turn` may make several in a row. After a fork each process starts a child of its own.
    `generation` counts the children.
    """

    def __init__(
        self,
        target: str,
        *,
        seconds: float = WORKER_CALL,
        memory: int = 1 << 30,
        reply_bytes: int = 1 << 20,
        opening: Any = None,
        loading: Any = None,
        confinement: Confinement | None = None,
        spares: Spares | None = None,
        cpu: bool = False,
    ) -> None:
        self.seconds, self.reply_bytes = seconds, reply_bytes
        self._spares = spares or Spares(0)
        self._order = Order(target, seconds, memory, reply_bytes, opening, confinement, cpu)
        self._loading = None if loading is None else dumps(loading)
        self.held: Callable[[], bool] = lambda: False  # whether what the child knows would be lost with it
        self.used = 0.0
        self.generation = 0
        self.turn = threading.RLock()
        self._child: Child | None = None

    def call(
        self, request: Any, *, seconds: float | None = None, generation: int | None = None, until: float = math.inf
    ) -> Any:
        """The function's answer. `generation`: the child that the request is for. `until`: when time.monotonic() says
        so it is given up, whatever has to be started for it.

        Raises Overrun, InfrastructureError, Replaced, or RuntimeError with the text of an exception that the function
        itself raised; ValueError or TypeError for a request that is no JSON.
        """
        content = dumps(request)
        with self.turn:
            for _ in range(3):
                child = self._child
                if child is None or not child.ready or child.owner != os.getpid():
                    child = self._ready_child(until)
                if generation is not None and generation != self.generation:
                    raise Replaced("the worker process was replaced")
                patience = _at_most(seconds or self.seconds, until)
                try:
                    status, value = child.ask(content, patience, self.reply_bytes)
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

    def discard(self, generation: int) -> None:
        """Replaces child number `generation`, if it is still the present one."""
        with self.turn:
            if generation == self.generation and self._child is not None:
                self._replace(self._child)

    def open(self) -> Any:
        """Starts the child now, so that the first request does not pay for it. The answer to the opening request."""
        with self.turn:
            return self._ready_child(math.inf).opened

    warm = open

    def leave(self) -> bool:
        """Ends its child, unless it is at work or `held`: the next request takes another one."""
        if not self.turn.acquire(blocking=False):
            return False
        try:
            child = self._child
            if child is None or child.owner != os.getpid() or self.held():
                return False
            self.close()
            self.generation += 1
            return True
        finally:
            self.turn.release()

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
        with contextlib.suppress(InfrastructureError):  # without waiting for it: the next request finds it warm
            self._child = self._spares.take(self._order, time.monotonic())

    def _ready_child(self, until: float) -> Child:
        child = self._child
        if child is None or child.owner != os.getpid() or (not child.ready and child.process.poll() is not None):
            child = self._child = self._spares.take(self._order, until)
            self.generation += 1
        self._spares.pool.occupied(self)
        child.wait_until_ready(_at_most(WORKER_START, until))
        if self._loading is not None and not child.loaded:
            child.load(self._loading, _at_most(WORKER_START, until))
        self.used = time.monotonic()
        self._spares.fill(self._order)
        return child


def _at_most(seconds: float, until: float) -> float:
    """`seconds`, or what is left of them. Raises InfrastructureError when nothing is."""
    left = until - time.monotonic()
    if left <= 0:
        raise InfrastructureError("no time is left for this request: worker processes were replaced meanwhile")
    return min(seconds, left)
