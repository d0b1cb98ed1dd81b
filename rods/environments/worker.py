"""A worker process that can be killed: for what no bound on its arguments keeps fast and small, and for what nobody
vouches for.

`Worker("package.module:function")` keeps one child process that answers JSON requests with JSON, one at a time
(`serving` is the child's side). A request that takes too long, needs too much memory, recurses into the C stack or
answers with too many bytes ends as an `Overrun`; the child is then killed and replaced. A machine that cannot start
children is an `InfrastructureError`.

The child gets no secrets (a bare environment) and cannot outlive its parent by more than a moment: it ends when its
input closes, and what hangs in a computation is ended by a limit on its CPU time, or confined, by the kernel. Without a
`Confinement` this is no sandbox: the functions are ours or the user's own, and only their arguments are foreign.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import orjson

from rods.environments.serving import HEADER
from rods.environments.wire import dumps, loads
from rods.errors import InfrastructureError, RodsError

START_SECONDS = 20.0  # a cold interpreter on a busy machine
_CHUNK = 1 << 16
_OPENING_BYTES = 16 << 20  # of the answer to an opening request
_TIME = struct.Struct("@ll")


class Overrun(RodsError):
    """A request went over a limit: `timeout`, `too_large` (memory or reply), or `crashed` (the child died of it)."""

    def __init__(self, kind: Literal["timeout", "too_large", "crashed"], detail: str) -> None:
        super().__init__(detail)
        self.kind: Literal["timeout", "too_large", "crashed"] = kind


class Replaced(RodsError):
    """The child that a request was meant for is gone, and what it held with it. The request was not made."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """How a child is locked in: the command that its own goes behind (empty: none), the entries of its `sys.path`, and
    what `sandbox.confining` is to lay on it (None: only limits)."""

    command: tuple[str, ...]
    path: tuple[str, ...]
    files: Mapping[str, Sequence[str]] | None


class Worker:
    """One child process that runs `target` ("package.module:function", JSON to JSON).

    `seconds` a request may take, `memory` bytes of address space, `reply_bytes` of JSON in the reply. `opening` is a
    first request to every child, and `spare` keeps a second one waiting behind it, so that a replacement is there at
    once. Safe to share between threads (requests wait for each other); after a fork each process starts a child of its
    own. `generation` counts the children.
    """

    def __init__(
        self,
        target: str,
        *,
        seconds: float = 0.6,
        memory: int = 1 << 30,
        reply_bytes: int = 1 << 20,
        opening: Any = None,
        confinement: Confinement | None = None,
        spare: bool = False,
    ) -> None:
        self.target, self.seconds, self.memory, self.reply_bytes = target, seconds, memory, reply_bytes
        self.opening, self.confinement, self.spare = opening, confinement, spare
        self.generation = 0
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._next: _Child | None = None

    def call(self, request: Any, *, seconds: float | None = None, generation: int | None = None) -> Any:
        """The function's answer. `generation`: the child that the request is for.

        Raises Overrun, InfrastructureError, Replaced, or RuntimeError with the text of an exception that the function
        itself raised; ValueError or TypeError for a request that is no JSON.
        """
        content = dumps(request)
        with self._lock:
            for _ in range(3):
                child = self._child
                if child is None or not child.ready or child.owner != os.getpid():
                    child = self._ready_child()
                if generation is not None and generation != self.generation:
                    raise Replaced("the worker process was replaced")
                try:
                    status, value = child.ask(content, seconds or self.seconds, self.reply_bytes)
                    if status != "ok" and status != "raised":
                        raise Overrun("too_large", str(value))
                except _Gone:  # before it saw the request
                    self._replace(child)
                    continue
                except Overrun:
                    self._replace(child)
                    raise
                break
            else:
                raise InfrastructureError("worker processes end as soon as they are started")
        if status == "raised":
            raise RuntimeError(value)
        return value

    def open(self) -> Any:
        """Starts the child now, so that the first request does not pay for it. The answer to the opening request."""
        with self._lock:
            return self._ready_child().opened

    warm = open

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.process.pid

    def close(self) -> None:
        with self._lock:
            for child in (self._child, self._next):
                if child is not None:
                    child.kill()
            self._child = self._next = None

    def _replace(self, child: _Child) -> None:
        child.kill()
        self._child, self._next = self._next, None
        self.generation += 1
        if self._child is None:
            with contextlib.suppress(InfrastructureError):
                self._child = _start(self)  # without waiting for it: the next request finds it warm

    def _ready_child(self) -> _Child:
        child = self._child
        if child is None or child.owner != os.getpid() or (not child.ready and child.process.poll() is not None):
            child = self._child = _start(self)
            self._next = None
            self.generation += 1
        child.wait_until_ready()
        if self.spare and (self._next is None or self._next.process.poll() is not None):
            self._next = _start(self)
        return child


class _Gone(Exception):
    """The child ended before it was asked."""


class _Child:
    def __init__(self, worker: Worker) -> None:
        confinement = worker.confinement
        order = {
            "target": worker.target,
            "seconds": worker.seconds,
            "memory": worker.memory,
            "reply_bytes": worker.reply_bytes,
            "opening": worker.opening,
            "confinement": None if confinement is None else confinement.files,
        }
        environment = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}
        if confinement is None:
            path = [entry or str(Path.cwd()) for entry in sys.path]
            command, elsewhere = [sys.executable], None
        else:  # what it prints is for nobody: it may be anything
            path, elsewhere = list(confinement.path), subprocess.DEVNULL
            command = [*confinement.command, os.path.realpath(sys.executable), "-s", "-S"]
            if "TZ" in os.environ:
                environment["TZ"] = os.environ["TZ"]
        code = f"import sys; sys.path[:] = {path!r}; from rods.environments.serving import main; main()"
        self._pipe, theirs = socket.socketpair()
        try:
            self.process = subprocess.Popen(
                [*command, "-c", code, orjson.dumps(order).decode()],
                stdin=theirs.fileno(),
                stdout=elsewhere,
                stderr=elsewhere,
                env=environment,
            )
        except OSError as error:
            self._pipe.close()
            raise InfrastructureError(f"cannot start a worker process: {error}") from error
        finally:
            theirs.close()
        self.owner = os.getpid()
        self.ready = False
        self.opened: Any = None  # the answer to the opening request
        self._patience = 0.0
        self._end = weakref.finalize(self, _end, self.process, self._pipe, self.owner)

    def wait_until_ready(self) -> None:
        if self.ready:
            return
        try:
            status, value = self._receive(START_SECONDS, _OPENING_BYTES)
        except Overrun as error:
            self.kill()
            raise InfrastructureError(f"the worker process did not start: {error}") from error
        if status != "ok":
            self.kill()
            raise InfrastructureError(f"the worker process did not start: {value}")
        self.opened = value
        self.ready = True

    def ask(self, request: bytes, seconds: float, reply_bytes: int) -> tuple[str, Any]:
        self._wait_at_most(seconds)
        try:
            self._pipe.sendall(HEADER.pack(len(request)) + request)
        except BlockingIOError as error:
            raise Overrun("timeout", "the request was not read in time") from error
        except OSError as error:
            raise _Gone from error
        return self._receive(seconds, reply_bytes + 1024)

    def _receive(self, seconds: float, limit: int) -> tuple[str, Any]:
        self._wait_at_most(seconds)
        content = self._part(_CHUNK)
        if len(content) < HEADER.size or HEADER.unpack_from(content)[0] != len(content) - HEADER.size:
            content = self._rest(content, time.monotonic() + seconds, limit)
        try:
            status, value = loads(memoryview(content)[HEADER.size :])
        except (ValueError, TypeError) as error:  # a confined one may write anything
            raise Overrun("crashed", "the worker process broke the protocol") from error
        return status, value

    def _rest(self, content: bytes, deadline: float, limit: int) -> bytes:
        """All of a message that came in parts."""
        parts, count = [content], len(content)
        length = 0
        while not length or count < length:
            if not length and count >= HEADER.size:
                length = HEADER.size + HEADER.unpack_from(b"".join(parts))[0]
                if length > HEADER.size + limit:
                    raise Overrun("too_large", f"an answer of {length - HEADER.size} bytes; at most {limit}")
                continue
            self._wait_at_most(max(deadline - time.monotonic(), 0.001))
            parts.append(self._part(min(max(length - count, HEADER.size), 1 << 20)))
            count += len(parts[-1])
        if count != length:
            raise Overrun("crashed", "the worker process answered more than it was asked")
        return b"".join(parts)

    def _part(self, count: int) -> bytes:
        try:
            part = self._pipe.recv(count)
        except BlockingIOError as error:
            raise Overrun("timeout", "no answer in time") from error
        except OSError as error:
            raise Overrun("crashed", "the worker process died of this request") from error
        if not part:
            raise Overrun("crashed", "the worker process died of this request")
        return part

    def _wait_at_most(self, seconds: float) -> None:
        """Cheaper than asking the system before each read: it is told once, and again only when it changes."""
        if seconds != self._patience:
            self._patience = seconds
            patience = _TIME.pack(int(seconds), int(seconds % 1 * 1e6))
            self._pipe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
            self._pipe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)

    def kill(self) -> None:
        self._end()


def _end(process: subprocess.Popen[bytes], pipe: socket.socket, owner: int) -> None:
    if owner != os.getpid():  # a forked copy of the parent: the child is not ours to end
        return
    pipe.close()
    if process.poll() is None:
        process.kill()
        process.wait()


def _start(worker: Worker) -> _Child:
    """A confined child is ended by the kernel with the *thread* that started it: so that is one which stays."""
    return _Child(worker) if worker.confinement is None else _starter(os.getpid()).submit(_Child, worker).result()


@cache
def _starter(pid: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, f"workers-of-{pid}")
