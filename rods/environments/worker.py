"""A worker process that can be killed: for tools that no bound on their arguments keeps fast and small.

`Worker("package.module:function")` keeps one child process that answers JSON requests with JSON, one at a time. A
request that takes too long, needs too much memory, recurses into the C stack or answers with too many bytes ends as an
`Overrun`; the child is then killed and replaced. A machine that cannot start children is an `InfrastructureError`.

The child gets no secrets (a bare environment) and cannot outlive its parent by more than a moment: it ends when its
input closes, and a limit on its CPU time, renewed with every request, ends it when it hangs in a computation. This is
no sandbox: the functions are ours or the user's own; only their arguments are foreign.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Literal

import orjson

from rods.errors import InfrastructureError, RodsError

START_SECONDS = 20.0  # a cold interpreter on a busy machine
_HEADER = struct.Struct(">I")
_MODULE = "rods.environments.worker"


class Overrun(RodsError):
    """A request went over a limit: `timeout`, `too_large` (memory or reply), or `crashed` (the child died of it)."""

    def __init__(self, kind: Literal["timeout", "too_large", "crashed"], detail: str) -> None:
        super().__init__(detail)
        self.kind: Literal["timeout", "too_large", "crashed"] = kind


class Worker:
    """One child process that runs `target` ("package.module:function", JSON to JSON).

    `seconds` a request may take, `memory` bytes of address space, `reply_bytes` of JSON in the reply. Safe to share
    between threads (requests wait for each other); after a fork each process starts a child of its own.
    """

    def __init__(self, target: str, *, seconds: float = 0.6, memory: int = 1 << 30, reply_bytes: int = 1 << 20) -> None:
        self.target, self.seconds, self.memory, self.reply_bytes = target, seconds, memory, reply_bytes
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def call(self, request: Any) -> Any:
        """The function's answer. Raises Overrun, InfrastructureError, or RuntimeError with the text of an exception
        that the function itself raised."""
        with self._lock:
            child = self._ready_child()
            try:
                reply = child.ask(orjson.dumps(request), self.seconds, self.reply_bytes)
            except Overrun:
                child.kill()
                with contextlib.suppress(InfrastructureError):
                    self._child = self._start()  # without waiting for it: the next request finds it warm
                raise
        status, value = reply
        if status == "raised":
            raise RuntimeError(value)
        if status == "too_large":
            raise Overrun("too_large", value)
        return value

    def warm(self) -> None:
        """Starts the child now, so that the first request does not pay for it."""
        with self._lock:
            self._ready_child()

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.process.pid

    def close(self) -> None:
        with self._lock:
            if self._child is not None and self._child.owner == os.getpid():
                self._child.kill()
            self._child = None

    def _ready_child(self) -> _Child:
        child = self._child
        if child is None or child.owner != os.getpid() or child.process.poll() is not None:
            child = self._child = self._start()
        child.wait_until_ready()
        return child

    def _start(self) -> _Child:
        return _Child(self.target, self.seconds, self.memory, self.reply_bytes)


class _Child:
    def __init__(self, target: str, seconds: float, memory: int, reply_bytes: int) -> None:
        command = [sys.executable, "-m", _MODULE, target, str(seconds), str(memory), str(reply_bytes)]
        bare = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}
        bare["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=bare)
        except OSError as error:
            raise InfrastructureError(f"cannot start a worker process: {error}") from error
        self.owner = os.getpid()
        self.ready = False
        weakref.finalize(self, _kill, self.process, self.owner)

    def wait_until_ready(self) -> None:
        if not self.ready:
            try:
                self.read(time.monotonic() + START_SECONDS, 64)
            except Overrun as error:
                self.kill()
                raise InfrastructureError(f"the worker process did not start: {error}") from error
            self.ready = True

    def ask(self, request: bytes, seconds: float, reply_bytes: int) -> list[Any]:
        assert self.process.stdin is not None
        deadline = time.monotonic() + seconds
        try:
            self.process.stdin.write(_HEADER.pack(len(request)) + request)
            self.process.stdin.flush()
        except OSError as error:
            raise Overrun("crashed", f"the worker process is gone: {error}") from error
        reply: list[Any] = orjson.loads(self.read(deadline, reply_bytes + 1024))
        return reply

    def read(self, deadline: float, limit: int) -> bytes:
        (length,) = _HEADER.unpack(self._bytes(_HEADER.size, deadline))
        if length > limit:
            raise Overrun("too_large", f"an answer of {length} bytes; at most {limit}")
        return self._bytes(length, deadline)

    def _bytes(self, count: int, deadline: float) -> bytes:
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        parts: list[bytes] = []
        while count:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise Overrun("timeout", "no answer in time")
            part = os.read(pipe, count)
            if not part:
                raise Overrun("crashed", "the worker process died of this request")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def kill(self) -> None:
        _kill(self.process, self.owner)


def _kill(process: subprocess.Popen[bytes], owner: int) -> None:
    if owner != os.getpid():  # a forked copy of the parent: the child is not ours to end
        return
    if process.poll() is None:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def serve(target: str, seconds: float, memory: int, reply_bytes: int) -> None:
    """The child's loop: reads requests from standard input until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # a function that prints must not write into the protocol
    module, _, name = target.partition(":")
    function: Callable[[Any], Any] = getattr(importlib.import_module(module), name)
    _limit(resource.RLIMIT_AS, memory)
    _limit(resource.RLIMIT_CORE, 0)
    _write(replies, b"ready")
    while (header := _read(requests, _HEADER.size)) is not None:
        (length,) = _HEADER.unpack(header)
        request = _read(requests, length)
        if request is None:
            return
        _limit(resource.RLIMIT_CPU, int(time.process_time() + seconds) + 2)
        _write(replies, _answer(function, request, reply_bytes))


def _answer(function: Callable[[Any], Any], request: bytes, reply_bytes: int) -> bytes:
    try:
        reply = orjson.dumps(["ok", function(orjson.loads(request))])
    except MemoryError:
        return orjson.dumps(["too_large", "more memory than allowed"])
    except RecursionError:
        return orjson.dumps(["raised", "RecursionError: maximum recursion depth exceeded"])
    except Exception as error:  # noqa: BLE001 whatever the function raises is the answer
        return orjson.dumps(["raised", f"{type(error).__name__}: {error}"[:2000]])
    if len(reply) > reply_bytes:
        return orjson.dumps(["too_large", f"an answer of {len(reply)} bytes; at most {reply_bytes}"])
    return reply


def _limit(kind: int, value: int) -> None:
    """Sets a soft limit, as far as the system lets us."""
    _, hard = resource.getrlimit(kind)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _read(pipe: int, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        part = os.read(pipe, count)
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _write(pipe: int, content: bytes) -> None:
    content = _HEADER.pack(len(content)) + content
    while content:
        content = content[os.write(pipe, content) :]


if __name__ == "__main__":
    serve(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
