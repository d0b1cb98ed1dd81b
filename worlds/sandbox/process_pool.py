"""Confined processes that several workers share: so many at a time, and some that wait to replace
others."""

import contextlib
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

from rods.deadlines import WORKER_START, WORLD_REMADE
from rods.environments.workers.child import Child
from rods.environments.workers.serving import dumps
from rods.environments.workers.worker import Worker, WorkerSpec, at_most
from rods.errors import InfrastructureError

# seconds without a request before a worker's child may be taken: many in a row are not interrupted
_REST = 0.1
_LOOK = 0.005  # seconds between looks for a place


class PooledWorker(Worker):
    """A worker whose child is replaced by one of the `spares`, shared with workers of the same
    spec. Another one may take it when this one rests, unless it is `held`. `loading` is a second
    opening request, to each that it takes."""

    def __init__(self, spec: WorkerSpec, *, loading: Any, spares: "Spares") -> None:
        super().__init__(spec)
        self._spares = spares
        self._loading = None if loading is None else dumps(loading)
        # whether what the child knows would be lost with it
        self.held: Callable[[], bool] = lambda: False

    def discard(self, generation: int) -> None:
        """Replaces child number `generation`, if it is still the present one."""
        with self.turn:
            if generation == self.generation and self._child is not None:
                self._replace(self._child)

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

    def _take(self, until: float) -> Child:
        return self._spares.take(self.spec, until)

    def _ready_child(self, until: float) -> Child:
        child = super()._ready_child(until)
        if self._loading is not None and not child.loaded:
            child.load(self._loading, at_most(WORKER_START, until))
        self._spares.pool.share(self._spares, self)
        self._spares.fill(self.spec)
        return child


def start(spec: WorkerSpec) -> Future[Child]:
    """A confined child is ended by the kernel with the *thread* that started it: so that is one
    which stays."""
    return _starter(os.getpid()).submit(Child, spec)


@cache
def _starter(pid: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, f"workers-of-{pid}")


class Pool:
    """At most `most` child processes of all workers and spare ones that share it. Who needs one
    more takes the place of a spare one, or of the worker that was asked the longest ago and can do
    without; where all are at work it waits. Safe to share between threads; after a fork the new
    process begins with none."""

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        self._children: weakref.WeakSet[Child] = weakref.WeakSet()
        self._workers: weakref.WeakSet[PooledWorker] = weakref.WeakSet()
        self._spares: weakref.WeakSet[Spares] = weakref.WeakSet()
        self._starting = 0
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def start(self, spec: WorkerSpec, until: float) -> Child:
        """A new child. Raises InfrastructureError where none can be started, or no place is free
        before `until` (time.monotonic())."""
        until = min(until, time.monotonic() + WORLD_REMADE)
        while not self._place() and not (self._make_room() and self._place()):
            if time.monotonic() >= until:
                what = (
                    f"all {self.most} worker processes are at work, or hold worlds that cannot be "
                    f"made again"
                )
                raise InfrastructureError(f"{what} (operation.sandbox.processes)")
            time.sleep(_LOOK)
        try:
            child = start(spec).result()
        except BaseException:
            self._started(None)
            raise
        self._started(child)
        return child

    def start_soon(self, spec: WorkerSpec, *, leave: bool) -> Future[Child] | None:
        """The same, without waiting for it; None without a place. `leave`: a worker may have to
        make room."""
        if not self._place() and not (leave and self._leave() and self._place()):
            return None
        future = start(spec)
        future.add_done_callback(
            lambda done: self._started(None if done.exception() else done.result())
        )
        return future

    def share(self, spares: "Spares", worker: PooledWorker | None = None) -> None:
        """`spares`, or a `worker` that they stand behind, have children of this pool from now
        on."""
        with self._lock:
            self._spares.add(spares)
            if worker is not None:
                self._workers.add(worker)

    def _place(self) -> bool:
        """Takes a place for a child that is to be started, if one is free."""
        with self._lock:
            if self._owner != os.getpid():
                self._owner = os.getpid()
                self._starting = 0
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
    """Keeps `count` children started and waiting for the workers that share them, all of one spec:
    starting one takes tens of milliseconds. In a `pool` they are a fourth of it at most, and have
    what places are free; with `ahead`, a worker that rests has to make room for them. Safe to share
    between threads; a fork begins with none."""

    def __init__(self, count: int, pool: Pool | None = None, *, ahead: bool = False) -> None:
        self.pool = pool or Pool()
        self.count = int(min(count, self.pool.most // 4))
        self.ahead = ahead
        self._waiting: deque[Future[Child]] = deque()
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self.pool.share(self)

    def take(self, spec: WorkerSpec, until: float = math.inf) -> Child:
        """The one that has waited the longest, or a new one. Raises InfrastructureError when none
        can be started, or none has a place before time.monotonic() says `until`."""
        with self._lock:
            self._forget_those_of_another_process()
            while self._waiting:
                child = self._waiting.popleft().result()
                if child.process.poll() is None:
                    return child
        return self.pool.start(spec, until)

    def fill(self, spec: WorkerSpec) -> None:
        """Starts what is missing, without waiting for it."""
        while True:
            with self._lock:
                self._forget_those_of_another_process()
                if len(self._waiting) >= self.count:
                    return
            future = self.pool.start_soon(spec, leave=self.ahead)
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
