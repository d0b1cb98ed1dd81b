"""One child process of a `worker` and the socket to it: starting it, a request with a deadline, killing it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import orjson

from rods.deadlines import WORKER_STALLED, WORKER_START
from rods.environments.workers import threads
from rods.environments.workers.serving import COMPLAINT, HEADER
from rods.errors import InfrastructureError, RodsError

_CHUNK = 1 << 16
_OPENING_BYTES = 16 << 20  # of the answer to an opening request
_DEPTH = 100  # brackets inside of brackets in an answer: whatever writes or compares it recurses; orjson writes 254
_TIME = struct.Struct("@ll")


class Overrun(RodsError):
    """A request went over a limit: `timeout`, `too_large` (memory or reply), or `crashed` (the child died of it)."""

    def __init__(self, kind: Literal["timeout", "too_large", "crashed"], detail: str) -> None:
        super().__init__(detail)
        self.kind: Literal["timeout", "too_large", "crashed"] = kind


class Gone(RodsError):
    """The child had ended, or left the protocol, before it was asked: the request may be made again."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """How a child is confined: the command in front of its own (empty: none), the entries of its `sys.path`, and the
    files for `confining.confine` (None: only limits)."""

    command: tuple[str, ...]
    path: tuple[str, ...]
    files: Mapping[str, Sequence[str]] | None


@dataclass(frozen=True, slots=True)
class Order:
    """What a child is to do: see `worker.Worker`."""

    target: str
    seconds: float
    memory: int
    reply_bytes: int
    opening: Any
    confinement: Confinement | None
    cpu: bool = False


class Child:
    def __init__(self, order: Order) -> None:
        confinement = order.confinement
        told = {
            "target": order.target,
            "seconds": order.seconds,
            "memory": order.memory,
            "reply_bytes": order.reply_bytes,
            "opening": order.opening,
            "cpu": order.cpu,
            "quiet": confinement is not None,
            "confinement": None,
        }
        handed: list[socket.socket] = []
        if confinement is not None and confinement.files is not None:
            handed.append(threads.count())
            told["confinement"] = {**confinement.files, "threads": handed[0].fileno()}
        environment = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}
        if confinement is None:
            path = [entry or str(Path.cwd()) for entry in sys.path]
            command, elsewhere = [sys.executable], None
        else:  # its errors are read if it does not start; from then on it prints nothing
            path, elsewhere = list(confinement.path), subprocess.PIPE
            command = [*confinement.command, os.path.realpath(sys.executable), "-s", "-S"]
            if "TZ" in os.environ:
                environment["TZ"] = os.environ["TZ"]
        code = f"import sys; sys.path[:] = {path!r}; from rods.environments.workers.serving import main; main()"
        self._pipe, theirs = socket.socketpair()
        try:
            self.process = subprocess.Popen(
                [*command, "-c", code, orjson.dumps(told).decode()],
                stdin=theirs.fileno(),
                stdout=None if elsewhere is None else subprocess.DEVNULL,
                stderr=elsewhere,
                env=environment,
                pass_fds=[each.fileno() for each in handed],
                process_group=None if confinement is None else 0,  # a terminal's Ctrl-C is not for it
            )
        except OSError as error:
            self._pipe.close()
            raise InfrastructureError(f"cannot start a worker process: {error}") from error
        finally:
            for end in (theirs, *handed):
                end.close()
        self.owner = os.getpid()
        self.ready = False
        self.opened: Any = None  # the answer to the opening request, or to what it was to load
        self.loaded = False
        self._cpu = order.cpu
        self._patience = 0.0
        self._number = 0  # of the request whose reply comes next
        self._end = weakref.finalize(self, _end, self.process, self._pipe, self.owner, confinement is not None)

    def wait_until_ready(self, seconds: float = WORKER_START) -> None:
        if self.ready:
            return
        try:
            self._wait_at_most(seconds)
            status, value = self._receive(time.monotonic() + seconds, _OPENING_BYTES)
        except (Overrun, Gone) as error:
            self.kill()
            raise InfrastructureError(f"the worker process did not start: {self._complaint() or error}") from error
        if status != "ok":
            self.kill()
            raise InfrastructureError(f"the worker process did not start: {value}")
        self.opened = value
        self.ready = True
        if self.process.stderr is not None:
            self.process.stderr.close()

    def load(self, request: bytes, seconds: float) -> None:
        """A second opening request, to one that is ready. Raises InfrastructureError; it has ended then."""
        try:
            status, value = self._ask(request, seconds, _OPENING_BYTES)
        except (Overrun, Gone) as error:
            self.kill()
            raise InfrastructureError(f"the worker process did not start: {error}") from error
        if status != "ok":
            self.kill()
            raise InfrastructureError(f"the worker process did not start: {value}")
        self.opened, self.loaded = value, True

    def ask(self, request: bytes, seconds: float, reply_bytes: int) -> tuple[str, Any]:
        if not self._cpu:
            return self._ask(request, seconds, reply_bytes)
        try:  # the child counts its own time
            return self._ask(request, WORKER_STALLED, reply_bytes)
        except Overrun as overrun:
            if overrun.kind == "timeout":
                raise InfrastructureError(f"a worker process gave no answer for {WORKER_STALLED:g} s") from overrun
            if overrun.kind == "crashed" and self._ended_by(signal.SIGPROF):
                raise Overrun("timeout", f"more than {seconds:g} s of computing") from overrun
            raise

    def _ended_by(self, number: int) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(1.0) == -number
        return False

    def _ask(self, request: bytes, seconds: float, reply_bytes: int) -> tuple[str, Any]:
        deadline = time.monotonic() + seconds
        self._wait_at_most(seconds)
        self._number = self._number + 1 & 0xFFFFFFFF
        self._send(HEADER.pack(len(request), self._number) + request, deadline)
        return self._receive(deadline, reply_bytes + 1024)

    def _send(self, content: bytes, deadline: float) -> None:
        """In parts, each of which the system takes or refuses as a whole: it would wait anew for every bit of a larger
        one that a child reads slowly."""
        try:
            sent = self._pipe.send(content[:_CHUNK])
            while sent < len(content):
                self._wait_until(deadline)
                sent += self._pipe.send(content[sent : sent + _CHUNK])
        except BlockingIOError as error:
            raise Overrun("timeout", "the request was not read in time") from error
        except OSError as error:
            raise Gone from error
        if len(content) > _CHUNK:
            self._wait_until(deadline)

    def _receive(self, deadline: float, limit: int) -> tuple[str, Any]:
        content = self._part(_CHUNK)
        if len(content) < HEADER.size or HEADER.unpack_from(content)[0] != len(content) - HEADER.size:
            content = self._rest(content, deadline, limit)
        if HEADER.unpack_from(content)[1] != self._number:  # it answered an earlier request twice
            raise Gone
        try:
            status, value = answer = orjson.loads(content[HEADER.size :])
        except (ValueError, TypeError) as error:  # a confined one may write anything
            raise Overrun("crashed", "the worker process broke the protocol") from error
        if type(answer) is not list or (status != "ok" and not _is_complaint(status, value)):
            raise Overrun("crashed", "the worker process broke the protocol")
        if content.count(b"[") + content.count(b"{") > _DEPTH and _nested_too_deeply(value):
            raise Overrun("crashed", f"an answer nested deeper than {_DEPTH}")
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
            self._wait_until(deadline)
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
        except OSError as error:  # reset: it ended without having read the request
            raise Gone from error
        if not part:
            raise Overrun("crashed", "the worker process died of this request")
        return part

    def _wait_until(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:  # however much of it has come
            raise Overrun("timeout", "no answer in time")
        self._wait_at_most(max(left, 0.001))  # the system takes 0 for no limit

    def _wait_at_most(self, seconds: float) -> None:
        """Cheaper than asking the system before each read: it is told once, and again only when it changes."""
        if seconds != self._patience:
            self._patience = seconds
            patience = _TIME.pack(int(seconds), int(seconds % 1 * 1e6))
            self._pipe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
            self._pipe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)

    def _complaint(self) -> str:
        """What the command before a confined child's own, or Python itself, had to say."""
        if self.process.stderr is None:
            return ""
        os.set_blocking(self.process.stderr.fileno(), False)
        said = self.process.stderr.read(COMPLAINT) or b""
        self.process.stderr.close()
        return said.decode(errors="replace").strip()

    def kill(self) -> None:
        self._end()


def _is_complaint(status: Any, value: Any) -> bool:
    return (status == "raised" or status == "too_large") and type(value) is str and len(value) <= COMPLAINT


def _nested_too_deeply(value: Any) -> bool:
    """Level by level, since its own recursion would have a limit too."""
    level = [value]
    for _ in range(_DEPTH):
        inner: list[Any] = []
        for each in level:
            if type(each) is list:
                inner += each
            elif type(each) is dict:
                inner += each.values()
        if not inner:
            return False
        level = inner
    return True


def _end(process: subprocess.Popen[bytes], pipe: socket.socket, owner: int, group: bool) -> None:
    if owner != os.getpid():  # a forked copy of the parent: the child is not ours to end
        return
    pipe.close()
    if process.poll() is None:
        if group:  # bubblewrap's own child survives it if both have only just begun
            with contextlib.suppress(ProcessLookupError):  # it has left its group: seccomp forbids, `limits` does not
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()


def start(order: Order) -> Child:
    """A confined child is ended by the kernel with the *thread* that started it: so that is one which stays."""
    return Child(order) if order.confinement is None else start_soon(order).result()


def start_soon(order: Order) -> Future[Child]:
    """The same, without waiting for it."""
    return _starter(os.getpid()).submit(Child, order)


@cache
def _starter(pid: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, f"workers-of-{pid}")
