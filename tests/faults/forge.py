"""Runs programs of ours again and again under faults: a process that has imported everything forks
one child a run, so that a run costs its own time and no more.

Started by `Forge`, it reads one request a line on standard input (JSON) and answers each on
standard output.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.faults.files import Change, Files, Plan


@dataclass
class Outcome:
    """How a run ended: its exit code (negative: the signal), what it said on standard error, which
    lines of which log it acknowledged, what it returned, and with a journal its changes."""

    code: int
    errors: str
    acknowledged: list[tuple[str, bytes]]
    returned: Any
    changes: int
    journal: list[Change]


class Forge:
    """The forking process, as its user sees it. `run` names a function `module:name` that takes the
    folder, and perhaps more. `within` is a command that the process is started under."""

    def __init__(self, *within: str) -> None:
        self._process = subprocess.Popen(
            [*within, sys.executable, "-m", "tests.faults.forge"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def run(
        self,
        function: str,
        folder: Path,
        *arguments: Any,
        plan: Plan | None = None,
        journal: bool = False,
    ) -> Outcome:
        """`arguments` must be JSON."""
        given = (plan or Plan()).__dict__
        request = {"call": (function, str(folder), *arguments), "plan": given, "journal": journal}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the forge has died"
        return Outcome(*pickle.loads(base64.b64decode(line)))

    def __enter__(self) -> Forge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        function, folder, *arguments = request["call"]
        module, name = function.split(":")
        if module not in sys.modules:
            __import__(module)
            gc.freeze()  # a child then leaves the parent's memory alone, and need not copy it
        call = partial(getattr(sys.modules[module], name), Path(folder), *arguments)
        plan = Plan(**{**request["plan"], "kinds": tuple(request["plan"]["kinds"])})
        outcome = _forked(call, Files(Path(folder), plan, journal=request["journal"]))
        print(base64.b64encode(pickle.dumps(outcome)).decode(), flush=True)


def _forked(call: Callable[[], Any], files: Files) -> tuple[Any, ...]:
    """The fields of an Outcome."""
    told = os.pipe()
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if not child:
            os.close(told[0])
            _run(call, files, errors.fileno(), told[1])
        os.close(told[1])
        with os.fdopen(told[0], "rb") as pipe:
            messages = _messages(pipe.read())
        _, status = os.waitpid(child, 0)
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    acknowledged = [message[1:] for message in messages if message[0] == "ack"]
    last: tuple[Any, ...] = next(
        (message for message in messages if message[0] == "end"), ("end", None, 0, [])
    )
    return os.waitstatus_to_exitcode(status), said, acknowledged, *last[1:]


def _run(call: Callable[[], Any], files: Files, errors: int, told: int) -> None:
    """The child. Ends the process."""
    os.dup2(errors, 2)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    lock = threading.Lock()

    def tell(*message: Any) -> None:
        data = pickle.dumps(message)
        data = len(data).to_bytes(8, "big") + data
        with lock:
            while data:
                data = data[files.real["write"](told, data) :]

    files.tell = partial(tell, "ack")
    _report_acknowledgements(files)
    files.install()
    code = 0
    returned = None
    try:
        returned = call()
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:  # noqa: BLE001 — what a process does then
        traceback.print_exc()
        code = 1
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    tell("end", returned, files.count, files.journal or [])
    os._exit(code)


def _report_acknowledgements(files: Files) -> None:
    from rods.buffers.log.writer import LogWriter

    append_lines = LogWriter.append_lines

    def reported(self: LogWriter, data: bytes, *arguments: Any, **options: Any) -> int:
        seq = append_lines(self, data, *arguments, **options)
        log = self.path.name.removesuffix(".jsonl")
        for line in data.splitlines():
            files.acknowledged(log, line)
        return seq

    LogWriter.append_lines = reported  # type: ignore[method-assign]


def _messages(data: bytes) -> list[Any]:
    found = []
    while data:
        size = int.from_bytes(data[:8], "big")
        if len(data) < 8 + size:
            break  # killed in the middle of it
        found.append(pickle.loads(data[8 : 8 + size]))
        data = data[8 + size :]
    return found


if __name__ == "__main__":
    serve()
