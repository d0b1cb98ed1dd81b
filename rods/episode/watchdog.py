"""Gives up calls of in-process environments that do not return: after `HANGS` seconds the caller
gets an InfrastructureError and continues.

`Lanes` runs calls in threads and replaces a thread that hangs; `Alarm` interrupts the main thread.
Whoever waits with deadlines of their own does so `outside`. Neither can end a computation in a
compiled extension: an environment that may hang belongs in the sandbox, whose processes can be
killed."""

import itertools
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from types import FrameType
from typing import Any, TypeVar

from rods.deadlines import HANGS, MOST_HANGING
from rods.errors import InfrastructureError
from rods.logs import log

NUMBER = signal.SIGRTMIN + 5  # nobody else's
T = TypeVar("T")
_THREAD = threading.local()  # `.call`: what the thread of a `Lanes` carries out


@dataclass(eq=False, slots=True)
class _Call:
    function: Callable[[], Any]
    future: Future[Any]
    began: float = 0.0
    given_up: bool = False


@contextmanager
def outside() -> Iterator[None]:
    """Stops the time of a call in `Lanes` while its thread waits for somebody who has a deadline of
    their own."""
    call: _Call | None = getattr(_THREAD, "call", None)
    if call is None:
        yield
        return
    used = time.monotonic() - call.began
    call.began = math.inf
    try:
        yield
    finally:
        call.began = time.monotonic() - used


@dataclass(eq=False)
class Lanes(Executor):
    """`count` threads. A call that takes longer than `patience` seconds fails with
    InfrastructureError, and a new thread replaces the one that it holds; once `MOST_HANGING` have
    been lost in this way, every call fails."""

    count: int
    name: str = "lane"
    patience: float = HANGS
    lost: int = 0
    _waiting: SimpleQueue[_Call | None] = field(default_factory=SimpleQueue)
    _running: set[_Call] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        for work in (*[self._work] * self.count, self._watch):
            self._start(work)

    def submit(self, function: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]:
        future: Future[T] = Future()
        if self.lost >= MOST_HANGING:
            future.set_exception(_hung(f"{self.lost} calls have never come back"))
        else:
            self._waiting.put(_Call(lambda: function(*arguments, **options), future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nobody is waited for: one may hang. What has not begun will not."""
        self._ended.set()
        for _ in range(self.count):
            self._waiting.put(None)

    def _start(self, work: Callable[[], None]) -> None:
        threading.Thread(
            target=work, name=f"{self.name}-{next(self._numbers)}", daemon=True
        ).start()

    def _work(self) -> None:
        while (call := self._waiting.get()) is not None and not self._ended.is_set():
            if not call.future.set_running_or_notify_cancel():
                continue
            call.began = time.monotonic()
            _THREAD.call = call
            with self._lock:
                self._running.add(call)
            try:
                tell = partial(call.future.set_result, call.function())
            except BaseException as error:  # noqa: BLE001 - whoever awaits it is told
                tell = partial(call.future.set_exception, error)
            with self._lock:
                self._running.discard(call)
                if call.given_up:
                    return  # another thread has this one's place
            tell()

    def _watch(self) -> None:
        while not self._ended.wait(min(1.0, self.patience / 4)):
            with self._lock:
                late = [
                    call for call in self._running if time.monotonic() - call.began > self.patience
                ]
                self._running.difference_update(late)
                for call in late:
                    call.given_up = True
            for call in late:
                self.lost += 1
                log.error("a call does not come back", seconds=self.patience, lost=self.lost)
                self._start(self._work)
                call.future.set_exception(_hung(f"no answer within {self.patience:g} s"))


class Alarm:
    """Ends what takes longer than `patience` seconds in the main thread, by a signal: Python code
    and waiting, not a loop in a compiled extension. Elsewhere it does nothing. A thread keeps the
    time: others use the process's timer."""

    def __init__(self, patience: float = HANGS) -> None:
        self.patience = patience
        self.lost = 0
        self._deadline = math.inf
        self._watched = 0  # the process in which a thread watches

    @contextmanager
    def within(self) -> Iterator[None]:
        """Raises InfrastructureError when what is inside takes too long, and at once when
        `MOST_HANGING` have."""
        if self.lost >= MOST_HANGING:
            raise _hung(f"{self.lost} calls have never come back")
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signal.signal(NUMBER, self._ring)
        if self._watched != os.getpid():
            self._watched = os.getpid()
            threading.Thread(target=self._watch, name="alarm", daemon=True).start()
        try:
            self._deadline = time.monotonic() + self.patience
            try:
                yield
            finally:
                self._deadline = math.inf
        except _Late:
            self.lost += 1
            log.error("a call does not come back", seconds=self.patience, lost=self.lost)
            raise _hung(f"no answer within {self.patience:g} s") from None

    def _watch(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while True:
            time.sleep(min(1.0, self.patience / 4))
            if time.monotonic() >= self._deadline:
                signal.pthread_kill(main, NUMBER)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() >= self._deadline:  # else it has answered in the meantime
            self._deadline = time.monotonic() + 1.0  # for code that catches even this
            raise _Late


class _Late(BaseException):
    """Not an Exception: an environment that catches those would go on."""


def _hung(what: str) -> InfrastructureError:
    return InfrastructureError(
        f"the environment hangs: {what} → run it in the sandbox ([operation.sandbox])"
    )
