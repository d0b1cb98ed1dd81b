"""Runs a function in a child process that can be killed: for calls whose time and memory no bound on their arguments
limits, and for code that is not trusted.

A `Worker` keeps one child process (its side is `serving`), in which a function answers JSON requests with JSON, one at
a time. A request that takes too long, needs too much memory, recurses into the C stack or answers with too
many bytes ends as an `Overrun`; the child is killed and replaced. The child gets none of the parent's environment
variables and ends soon after it. Without a `Confinement` this is no sandbox.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from rods.deadlines import WORKER_START, WORLD_REMADE
from rods.environments.workers.child import Child, Confinement, Gone, Order, Overrun, start, start_soon
from rods.environments.workers.serving import dumps
from rods.errors import InfrastructureError, RodsError

__all__ = ["Confinement", "Order", "Overrun", "Pool", "Replaced", "Spares", "Worker"]


_REST = 0.1  # seconds without a request before a worker's child may be taken: many in a row are not interrupted
_LOOK = 0.005  # seconds between looks for a place


class Replaced(RodsError):
    """The child that a request was meant for has ended, and its state with it. The request was not made."""


class Worker:
    """One child process that works on `order`.

    `loading` is a second opening request, when this worker takes a child. `spares` wait to replace the child, shared
    with workers of the same order; their pool may take that of a worker that rests, unless it is `held`. Safe to share
    between threads: requests wait for each other, and who holds `turn` may make several in a row. After a fork each
    process starts a child of its own. `generation` counts the children.
    """

    def __init__(self, order: Order, *, loading: Any = None, spares: Spares | None = None) -> None:
        self.order, self._spares = order, spares or Spares(0)
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
        so it is given up. Raises Overrun, InfrastructureError, Replaced, or RuntimeError with the text of an exception
        that the function raised; ValueError or TypeError for a request that is no JSON."""
        content = dumps(request)
        with self.turn:
            for _ in range(3):
                child = self._child
                if child is None or not child.ready or child.owner != os.getpid():
                    child = self._ready_child(until)
                if generation is not None and generation != self.generation:
                    raise Replaced("the worker process was replaced")
                patience = _at_most(seconds or self.order.seconds, until)
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

    def discard(self, generation: int) -> None:
        """Replaces child number `generation`, if it is still the present one."""
        with self.turn:
            if generation == self.generation and self._child is not None:
                self._replace(self._child)

    def open(self) -> Any:
        """Starts the child now, so that the first request does not pay for it. The answer to the opening request."""
        with self.turn:
            return self._ready_child(math.inf).opened

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
            self._child = self._spares.take(self.order, time.monotonic())

    def _ready_child(self, until: float) -> Child:
        child = self._child
        if child is None or child.owner != os.getpid() or (not child.ready and child.process.poll() is not None):
            child = self._child = self._spares.take(self.order, until)
            self.generation += 1
        self._spares.pool.share(self._spares, self)
        child.wait_until_ready(_at_most(WORKER_START, until))
        if self._loading is not None and not child.loaded:
            child.load(self._loading, _at_most(WORKER_START, until))
        self.used = time.monotonic()
        self._spares.fill(self.order)
        return child


def _at_most(seconds: float, until: float) -> float:
    """`seconds`, or what is left of them. Raises InfrastructureError when nothing is."""
    left = until - time.monotonic()
    if left <= 0:
        raise InfrastructureError("no time is left for this request: worker processes were replaced meanwhile")
    return min(seconds, left)


class Pool:
    """At most `most` child processes of all workers and spare ones that share it. Who needs one more takes the place of
    a spare one, or of the worker that was asked the longest ago and can do without; where all are at work it waits.
    Safe to share between threads; after a fork the new process begins with none."""

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        self._children: weakref.WeakSet[Child] = weakref.WeakSet()
        self._workers: weakref.WeakSet[Worker] = weakref.WeakSet()
        self._spares: weakref.WeakSet[Spares] = weakref.WeakSet()
        self._starting = 0
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def start(self, order: Order, until: float) -> Child:
        """A new child. Raises InfrastructureError where none can be started, or no place is free before `until`
        (time.monotonic())."""
        until = min(until, time.monotonic() + WORLD_REMADE)
        while not self._place() and not (self._make_room() and self._place()):
            if time.monotonic() >= until:
                what = f"all {self.most} worker processes are at work, or hold worlds that cannot be made again"
                raise InfrastructureError(f"{what} (operation.sandbox.processes)")
            time.sleep(_LOOK)
        try:
            child = start(order)
        except BaseException:
            self._started(None)
            raise
        self._started(child)
        return child

    def start_soon(self, order: Order, *, leave: bool) -> Future[Child] | None:
        """The same, without waiting for it; None without a place. `leave`: a worker may have to make room."""
        if not self._place() and not (leave and self._leave() and self._place()):
            return None
        future = start_soon(order)
        future.add_done_callback(lambda done: self._started(None if done.exception() else done.result()))
        return future

    def share(self, spares: Spares, worker: Worker | None = None) -> None:
        """`spares`, or a `worker` that they stand behind, have children of this pool from now on."""
        with self._lock:
            self._spares.add(spares)
            if worker is not None:
                self._workers.add(worker)

    def _place(self) -> bool:
        """Takes a place for a child that is to be started, if one is free."""
        with self._lock:
            if self._owner != os.getpid():
                self._owner, self._starting = os.getpid(), 0
            if self.most < math.inf:
                living = sum(child.process.poll() is None for child in self._children)
                if self._starting + living >= self.most:
                    return False
            self._starting += 1
            return True

    def _started(self, child: Child | None) -> None:
        with self._lock:
            self._starting -= 1
            if child is not None:
                self._children.add(child)

    def _make_room(self) -> bool:
        with self._lock:
            waiting = list(self._spares)
        return any(spares.drop() for spares in waiting) or self._leave()

    def _leave(self) -> bool:
        with self._lock:
            resting = [worker for worker in self._workers if worker.used < time.monotonic() - _REST]
        return any(worker.leave() for worker in sorted(resting, key=lambda worker: worker.used))


class Spares:
    """Keeps `count` children started and waiting for the workers that share them, all of one order: starting one takes
    tens of milliseconds. In a `pool` they are a fourth of it at most, and have what places are free; with `ahead`, a
    worker that rests has to make room for them. Safe to share between threads; a fork begins with none."""

    def __init__(self, count: int, pool: Pool | None = None, *, ahead: bool = False) -> None:
        self.pool = pool or Pool()
        self.count = int(min(count, self.pool.most // 4))
        self.ahead = ahead
        self._waiting: deque[Future[Child]] = deque()
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self.pool.share(self)

    def take(self, order: Order, until: float = math.inf) -> Child:
        """The one that has waited the longest, or a new one. Raises InfrastructureError when none can be started, or
        none has a place before time.monotonic() says `until`."""
        with self._lock:
            self._forget_those_of_another_process()
            while self._waiting:
                child = self._waiting.popleft().result()
                if child.process.poll() is None:
                    return child
        return self.pool.start(order, until)

    def fill(self, order: Order) -> None:
        """Starts what is missing, without waiting for it."""
        while True:
            with self._lock:
                self._forget_those_of_another_process()
                if len(self._waiting) >= self.count:
                    return
            future = self.pool.start_soon(order, leave=self.ahead)
            if future is None:
                return
            with self._lock:
                self._waiting.append(future)

    def drop(self) -> bool:
        """Ends one of those that wait, if there is one."""
        with self._lock:
            self._forget_those_of_another_process()
            if not self._waiting:
                return False
            future = self._waiting.pop()
        with contextlib.suppress(InfrastructureError):
            future.result().kill()
        return True

    def close(self) -> None:
        while self.drop():
            pass

    def _forget_those_of_another_process(self) -> None:
        if self._owner != os.getpid():
            self._waiting.clear()
            self._owner = os.getpid()
