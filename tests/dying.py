"""`python -m tests.dying ARGUMENTS… PROGRAM LOG MANY NUMBER`: a program that gets a signal once
MANY records are in one of its logs, however fast the machine is and whenever anybody looks. Of the
write that would bring more, the rest never comes before a SIGKILL."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from rods.buffers.log.writer import LogWriter

MODULE = "tests.dying"
append_lines = LogWriter.append_lines


def at(program: str, log: str, many: int, number: int = signal.SIGKILL) -> tuple[str, ...]:
    """The last arguments of this module: `program` is another one, `log` a file's name or its
    pattern."""
    return program, log, str(many), str(int(number))


def main() -> None:
    program, log, *numbers = sys.argv[-4:]
    many, number = map(int, numbers)
    del sys.argv[-4:]

    def until_many(
        self: LogWriter, data: bytes, last: int, meanwhile: Callable[[], None] = lambda: None
    ) -> int:
        if not Path(self.path).match(log) or not self.seq < many <= last:
            return append_lines(self, data, last, meanwhile)
        if number != signal.SIGKILL:
            last = append_lines(self, data, last, meanwhile)
            os.kill(os.getpid(), number)
            return last
        append_lines(self, b"".join(data.splitlines(keepends=True)[: many - self.seq]), many)
        os.kill(os.getpid(), number)
        signal.pause()  # the signal ends all threads, and takes a moment
        return last

    LogWriter.append_lines = until_many  # type: ignore[method-assign]
    runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
