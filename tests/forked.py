"""`python -m <module>` in processes of their own that are forked from one which has imported
everything already: many starts of the same few programs take their own time, not that of their
imports.

A start differs from one of the interpreter in its imports alone; what tests those uses
`subprocess`. Each test process has at most one such parent for each set of imports, which ends with
it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

WORDS = 4  # bytes that say how long a request is


def run(
    program: str,
    arguments: Sequence[str | Path],
    imports: tuple[str, ...],
    *,
    stdin: str = "",
    cwd: Path | None = None,
    timeout: float = 120,
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run`, with all output captured as text. `imports`: modules that the parent has
    imported. Raises TimeoutExpired, once the process is gone."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as errors,
    ):
        given.write(stdin.encode())
        given.seek(0)
        with Process(program, arguments, imports, (given, out, errors), cwd=cwd, env=env) as child:
            code = child.wait(timeout)
        said = []
        for file in (out, errors):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess([program, *map(str, arguments)], code, *said)


class Process:
    """A program that was started, in the words of `subprocess.Popen`. As a context it is gone in
    the end."""

    def __init__(
        self,
        program: str,
        arguments: Sequence[str | Path],
        imports: tuple[str, ...],
        files: Sequence[IO[Any] | int],
        *,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        """`files`: what standard input, output and error are."""
        self.args = [program, *map(str, arguments)]
        self.returncode: int | None = None
        self._answered = threading.Lock()
        asked = {"program": program, "arguments": self.args[1:], "cwd": str(cwd or Path.cwd())}
        request = json.dumps(asked | {"env": env or {**os.environ}}).encode()
        self._parent = socket.socket(socket.AF_UNIX)
        self._parent.connect("\0" + _name(_parent(imports).pid))
        numbers = [each if isinstance(each, int) else each.fileno() for each in files]
        socket.send_fds(self._parent, [len(request).to_bytes(WORDS, "big")], numbers)
        self._parent.sendall(request)
        self._answers = self._parent.makefile()
        self.pid = int(self._answers.readline())

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative after a signal. Raises TimeoutExpired; the process goes on
        then."""
        if self.returncode is not None:
            return self.returncode
        ended = select.poll()  # which knows numbers above 1,023
        ended.register(self._parent, select.POLLIN)
        if not ended.poll(None if timeout is None else timeout * 1000):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        with self._answered:  # two threads may ask: a test, and a stub that kills who has asked it
            if self.returncode is None:
                self.returncode = int(self._answers.readline())
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()


@functools.cache
def _parent(imports: tuple[str, ...]) -> subprocess.Popen[str]:
    """The one with these imports: started at the first question, gone with this process, whose end
    of its standard input closes."""
    command = [sys.executable, "-m", "tests.forked", *imports]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    # wherever the test has gone: children are told where they work
    root = Path(__file__).parent.parent
    parent = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=root
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    return parent


def _name(parent: int) -> str:
    """Of its socket, without a place in the file system."""
    return f"rods-tests-{parent}"


def serve(imports: Sequence[str]) -> None:
    for name in imports:
        importlib.import_module(name)
    gc.freeze()  # a child then leaves the parent's memory alone, and need not copy it
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + _name(os.getpid()))
        listener.listen()
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel then buries who waits on a child
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if listener not in ready:
                return
            asked = listener.accept()[0]
            if os.fork():
                asked.close()
                continue
            listener.detach()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _wait(asked)


def _wait(asked: socket.socket) -> None:
    """A process between parent and child: has the child, says its number, then its exit code. Ends
    the process."""
    length, files, _, _ = socket.recv_fds(asked, WORDS, 3)
    request = json.loads(asked.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL))
    child = os.fork()
    if not child:
        asked.close()
        _become(request, files)
    asked.sendall(f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    asked.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: dict, files: list[int]) -> None:
    """The child: runs the program as the interpreter would. Ends the process."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[1:] = request["arguments"]
    sys.path[0] = request["cwd"]
    runpy.run_module(request["program"], run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    serve(sys.argv[1:])
