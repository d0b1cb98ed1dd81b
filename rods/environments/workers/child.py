"""One child process of a `worker` and the socket to it: starting it, a request with a deadline,
killing it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import orjson

from rods.canonical import frozen
from rods.deadlines import WORKER_CALL, WORKER_STALLED, WORKER_START
from rods.environments.workers.serving import COMPLAINT, HEADER
from rods.errors import BrokenEnvironment, InfrastructureError, RodsError, UserError

_CHUNK = 1 << 16
_OPENING_BYTES = 16 << 20  # of the answer to an opening request
# brackets inside of brackets in an answer: whatever writes or compares it recurses; orjson writes
# 254
_DEPTH = 100


class Overrun(RodsError):
    """A request went over a limit: `timeout`, `too_large` (memory or reply), or `crashed` (the
    child died of it)."""

    def __init__(self, kind: Literal["timeout", "too_large", "crashed"], detail: str) -> None:
        super().__init__(detail)
        self.kind: Literal["timeout", "too_large", "crashed"] = kind


class Gone(RodsError):
    """The child had ended, or left the protocol, before it was asked: the request may be made
    again."""


@frozen
class Confinement:
    """How a child is confined: the command in front of its own (empty: none), the entries of its
    `sys.path`, and the files for the function `by` ("package.module:function"), which takes its
    rights away (None: only limits). `handover` makes, for each child, a socket that `by` gets as
    "threads"."""

    command: tuple[str, ...]
    path: tuple[str, ...]
    files: Mapping[str, Sequence[str]] | None
    by: str = ""
    handover: Callable[[], socket.socket] | None = None


@frozen
class WorkerSpec:
    """What a child is to do. With `cpu`, `seconds` are of its own CPU time, at most
    `deadlines.WORKER_STALLED` by the clock: then the machine is at fault."""

    target: str  # "package.module:function", JSON to JSON
    seconds: float = WORKER_CALL  # that a request may take
    memory: int = 1 << 30  # bytes of address space
    reply_bytes: int = 1 << 20  # of JSON in a reply
    opening: Any = None  # a first request, while it waits or is started
    confinement: Confinement | None = None
    cpu: bool = False


class Child:
    def __init__(self, spec: WorkerSpec) -> None:
        if not os.access(sys.executable, os.X_OK):
            raise UserError(
                f"this user may not run {os.path.realpath(sys.executable)}, and worker processes "
                f"need it",
                where=sys.executable,
                remedy="install Python, and rods, where this user may read",
            )
        confinement = spec.confinement
        fields = {**asdict(replace(spec, confinement=None)), "quiet": confinement is not None}
        handed: list[socket.socket] = []
        if (
            confinement is not None
            and confinement.files is not None
            and confinement.handover is not None
        ):
            handed.append(confinement.handover())
            fields["confinement"] = {
                "by": confinement.by,
                **confinement.files,
                "threads": handed[0].fileno(),
            }
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONHASHSEED": "0",
            "LANG": "C.UTF-8",
            # every further heap, and thread of OpenBLAS, takes 64 MB of the address space
            "MALLOC_ARENA_MAX": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        if confinement is None:
            path = [entry or str(Path.cwd()) for entry in sys.path]
            command = [sys.executable]
            elsewhere = None
        else:  # its errors are read if it does not start; from then on it prints nothing
            path = list(confinement.path)
            elsewhere = subprocess.PIPE
            command = [*confinement.command, os.path.realpath(sys.executable), "-s", "-S"]
            if "TZ" in os.environ:
                environment["TZ"] = os.environ["TZ"]
        code = (
            f"import sys; sys.path[:] = {path!r}; from rods.environments.workers.serving import "
            f"main; main()"
        )
        self._pipe, theirs = socket.socketpair()
        try:
            self.process = subprocess.Popen(
                [*command, "-c", code, orjson.dumps(fields).decode()],
                stdin=theirs.fileno(),
                stdout=None if elsewhere is None else subprocess.DEVNULL,
                stderr=elsewhere,
                env=environment,
                pass_fds=[end.fileno() for end in handed],
                # a terminal's Ctrl-C is not for it
                process_group=None if confinement is None else 0,
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
        self._spec = spec
        self._number = 0  # of the request whose reply comes next
        self.kill = weakref.finalize(
            self, _end, self.process, self._pipe, self.owner, confinement is not None
        )

    def wait_until_ready(self, seconds: float = WORKER_START) -> None:
        """Raises InfrastructureError where it does not start; it has ended then."""
        if self.ready:
            return
        self._open(lambda: self._receive(time.monotonic() + seconds, _OPENING_BYTES))
        self.ready = True
        if self.process.stderr is not None:
            self.process.stderr.close()

    def load(self, request: bytes, seconds: float) -> None:
        """A second opening request, to one that is ready: to load others' code. Raises
        BrokenEnvironment where that is at fault, else InfrastructureError; it has ended then."""
        self._open(lambda: self._ask(request, seconds, _OPENING_BYTES), BrokenEnvironment)
        self.loaded = True

    def _open(
        self,
        answer: Callable[[], tuple[str, Any]],
        fault: type[InfrastructureError] = InfrastructureError,
    ) -> None:
        try:
            status, value = answer()
            complaint = None if status == "ok" else value
        except (Overrun, Gone) as error:
            complaint = self._complaint() or error
            fault = InfrastructureError if isinstance(error, Gone) else fault
        if complaint is not None:
            self.kill()
            raise fault(f"the worker process did not start: {complaint}")
        self.opened = value

    def ask(self, request: bytes, seconds: float) -> tuple[str, Any]:
        if not self._spec.cpu:
            return self._ask(request, seconds, self._spec.reply_bytes)
        try:  # the child counts its own time
            return self._ask(request, WORKER_STALLED, self._spec.reply_bytes)
        except Overrun as overrun:
            if overrun.kind == "timeout":
                raise InfrastructureError(
                    f"a worker process gave no answer for {WORKER_STALLED:g} s"
                ) from overrun
            if overrun.kind == "crashed" and self._ended_by(signal.SIGPROF):
                raise Overrun("timeout", f"more than {seconds:g} s of computing") from overrun
            raise

    def _ended_by(self, number: int) -> bool:
        """Whether this signal ended the process; bubblewrap says it of its own child by an exit
        code, as shells do."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(1.0) in (-number, 128 + number)
        return False

    def _ask(self, request: bytes, seconds: float, reply_bytes: int) -> tuple[str, Any]:
        deadline = time.monotonic() + seconds
        self._number = self._number + 1 & 0xFFFFFFFF
        self._wait_until(deadline)
        try:
            self._pipe.sendall(HEADER.pack(len(request), self._number) + request)
        except TimeoutError as error:
            raise Overrun("timeout", "the request was not read in time") from error
        except OSError as error:
            raise Gone from error
        return self._receive(deadline, reply_bytes + 1024)

    def _receive(self, deadline: float, limit: int) -> tuple[str, Any]:
        content = self._part(_CHUNK, deadline)
        while len(content) < HEADER.size:
            content += self._part(_CHUNK, deadline)
        length = HEADER.unpack_from(content)[0]
        if length > limit:
            raise Overrun("too_large", f"an answer of {length} bytes; at most {limit}")
        parts = [content]
        missing = HEADER.size + length - len(content)
        while missing > 0:
            parts.append(self._part(min(missing, 1 << 20), deadline))
            missing -= len(parts[-1])
        if missing < 0:
            raise Overrun("crashed", "the worker process answered more than it was asked")
        content = b"".join(parts)
        if HEADER.unpack_from(content)[1] != self._number:  # it answered an earlier request twice
            raise Gone
        try:
            status, value = answer = orjson.loads(content[HEADER.size :])
        except (ValueError, TypeError) as error:  # a confined one may write anything
            raise Overrun("crashed", "the worker process broke the protocol") from error
        complaint = (
            status in ("raised", "too_large") and type(value) is str and len(value) <= COMPLAINT
        )
        if type(answer) is not list or (status != "ok" and not complaint):
            raise Overrun("crashed", "the worker process broke the protocol")
        if content.count(b"[") + content.count(b"{") > _DEPTH and _nested_too_deeply(value):
            raise Overrun("crashed", f"an answer nested deeper than {_DEPTH}")
        return status, value

    def _part(self, count: int, deadline: float) -> bytes:
        self._wait_until(deadline)
        try:
            part = self._pipe.recv(count)
        except TimeoutError as error:
            raise Overrun("timeout", "no answer in time") from error
        except OSError as error:  # reset: it ended without having read the request
            raise Gone from error
        if not part:
            if self._ended_by(signal.SIGKILL):
                raise InfrastructureError("a worker process was killed in the middle of a request")
            raise Overrun("crashed", "the worker process died of this request")
        return part

    def _wait_until(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:  # however much of it has come
            raise Overrun("timeout", "no answer in time")
        self._pipe.settimeout(left)

    def _complaint(self) -> str:
        """What the command before a confined child's own, or Python itself, had to say."""
        if self.process.stderr is None or self.process.stderr.closed:
            return ""
        os.set_blocking(self.process.stderr.fileno(), False)
        text = self.process.stderr.read(COMPLAINT) or b""
        self.process.stderr.close()
        return text.decode(errors="replace").strip()


def _nested_too_deeply(value: Any) -> bool:
    """Level by level, since its own recursion would have a limit too."""
    level = [value]
    for _ in range(_DEPTH):
        inside = (
            part.values() if isinstance(part, dict) else part
            for part in level
            if isinstance(part, list | dict)
        )
        level = list(chain.from_iterable(inside))
    return bool(level)


def _end(process: subprocess.Popen[bytes], pipe: socket.socket, owner: int, group: bool) -> None:
    if owner != os.getpid():  # a forked copy of the parent: the child is not ours to end
        return
    pipe.close()
    if process.poll() is None:
        if group:  # bubblewrap's own child survives it if both have only just begun
            # it has left its group: seccomp forbids, `limits` does not
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
