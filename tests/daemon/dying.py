"""`python -m tests.daemon.dying RUN MANY`: the daemon, which the kernel kills once MANY variants
are on the disk, however fast the machine is: of the write that would bring more, the rest never
comes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from rods.buffers.log.writer import LogWriter
from rods.buffers.run.runfolder import EXPANDED
from rods.daemon.main import main

append_lines = LogWriter.append_lines


def until_many(
    self: LogWriter, data: bytes, last: int, meanwhile: Callable[[], None] = lambda: None
) -> int:
    if not Path(self.path).match(EXPANDED) or last < MANY:
        return append_lines(self, data, last, meanwhile)
    append_lines(self, b"".join(data.splitlines(keepends=True)[: MANY - self.seq]), MANY)
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()  # the signal ends all threads, and takes a moment
    return last


if __name__ == "__main__":
    MANY = int(sys.argv.pop())
    LogWriter.append_lines = until_many  # type: ignore[method-assign]
    main()
