"""`rods admit` in the daemon: task files that somebody else's generator drops into a folder are
judged, and what is accepted waits for the next merge. A file counts once it is whole: it has not
changed for `SETTLED` seconds, and its last line has ended, or is JSON. Its verdicts are written
beside it once all is staged, with the time of its last change; without them it is judged anew, and
what was staged is not staged again."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import orjson

from rods.buffers.state import RunState
from rods.daemon.writers import Beside, DaemonWork
from rods.errors import UserError
from rods.family.admit.admitting import VERDICTS, Admitting
from rods.family.admit.verbs import of_run, with_workers
from rods.files import BULK, read_regular

SETTLED = 2.0


def work(daemon: Beside) -> "Watching | None":
    """What a daemon does. Raises RefusedError where its run can take nothing."""
    return Watching(daemon) if daemon.run.config.operation.admit.folder else None


class Watching(DaemonWork):
    """One file at a time, by name."""

    def __init__(self, daemon: Beside) -> None:
        run = daemon.run
        if run.config.sync == "lockstep":
            what = "files come when they come, and in lockstep nothing depends on a clock"
            raise run.refused(what, "leave operation.admit.folder out")
        if not (folder := Path(run.config.operation.admit.folder).absolute()).is_dir():
            what = f"operation.admit.folder: there is no folder {folder}"
            raise run.refused(what, "make it, or start the daemon where it is")
        self._daemon = daemon
        self._busy = False
        self._gate("")

    def _gate(self, whose: str) -> Admitting:
        """Who judges; what they have brought themselves is no duplicate."""
        run = self._daemon.run
        world = run.config.operation.admit.world or min(run.manifest["environments"])
        environment = run.environments.load(world)
        given = of_run(run, environment)
        return Admitting(
            with_workers(run.config, world, trust=False),
            run.path,
            environment,
            [task for task in given if task.provenance.get("whose") != whose],
            run,
        )

    def due(self, state: RunState) -> list[Callable[[], Awaitable[None]]]:
        folder = self._daemon.run.config.operation.admit.folder
        for file in () if self._busy else sorted(Path(folder).glob("[!.]*.jsonl")):
            # one that has gone, or is not whole, is looked at again
            with suppress(OSError, UserError, ValueError):
                changed = int(file.stat().st_ctime)
                verdicts = file.with_suffix(VERDICTS)
                judged = verdicts.exists() and int(verdicts.stat().st_mtime) == changed
                ours = judged or file.name.endswith(VERDICTS)
                if not ours and changed + SETTLED < time.time():
                    content = read_regular(file, BULK)
                    orjson.loads(content.rpartition(b"\n")[2] or (content and b"0"))
                    self._busy = True
                    return [partial(self._admit, file, verdicts, changed)]
        return []

    async def _admit(self, file: Path, verdicts: Path, changed: int) -> None:
        try:
            gate = await asyncio.to_thread(self._gate, file.name)
            lines = await asyncio.to_thread(lambda: asyncio.run(gate.judged(gate.read(file))))
            await gate.stage(self._daemon.log, gate.owned(lines, file.name), file.name)
            gate.keep(lines, verdicts)
            os.utime(verdicts, (changed, changed))
        finally:
            self._busy = False
