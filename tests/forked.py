"""`python -m PROGRAM` in processes of their own that are forked from one which has imported everything already: many
starts of the same few programs take their own time, not that of their imports.

A start differs from one of the interpreter in its imports alone; what tests those uses `subprocess`. Each test process
has at most one such parent for each set of imports, which ends with it.
"""

from __future__ import annotations

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
from collections.abc import Sequence
from pathlib import Path

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
    """As `subprocess.run`, with all output captured as text. `imports`: modules that the parent has imported. Raises
    TimeoutExpired, once the process is gone."""
    words = [str(each) for each in arguments]
    asked = {"program": program, "arguments": words, "cwd": str(cwd or Path.cwd()), "env": env or {**os.environ}}
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as errors,
        socket.socket(socket.AF_UNIX) as parent,
    ):
        given.write(stdin.encode())
        given.seek(0)
        parent.connect("\0" + _name(_parent(imports).pid))
        request = json.dumps(asked).encode()
        socket.send_fds(parent, [len(request).to_bytes(WORDS, "big")], [each.fileno() for each in (given, out, errors)])
        parent.sendall(request)
        answers = parent.makefile()
        child = int(answers.readline())
        parent.settimeout(timeout)
        try:
            code = int(answers.readline())
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            raise subprocess.TimeoutExpired([program, *words], timeout) from None
        said = []
        for file in (out, errors):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess([program, *words], code, *said)


@functools.cache
def _parent(imports: tuple[str, ...]) -> subprocess.Popen[str]:
    """The one with these imports: started at the first question, gone with this process, whose end of its standard
    input closes."""
    command = [sys.executable, "-m", "tests.forked", *imports]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
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
    """A process between parent and child: has the child, says its number, then its exit code. Ends the process."""
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
