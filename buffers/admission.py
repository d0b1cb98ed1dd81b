"""Environments that join a run while it goes on: a task may name one that the manifest lacks only behind its admission.

The record says what the manifest says of the others: name, hash, parameters; and who admitted it, and why. Whoever
admits owns the log while it writes, and no longer. A merge's closing record says how far it has read them.
"""

from __future__ import annotations

import time
from contextlib import closing

from buffers.log.records import Record, record
from buffers.log.writer import LogWriter
from buffers.run.locks import Ownership
from buffers.run.run import Run
from buffers.run.runfolder import ADMITTED
from buffers.run.world_files import bring
from rods.environments.base import parameters
from rods.errors import RefusedError

PROCESS = "admission"


def admit(run: Run, name: str, *, by: str, why: str = "") -> Record:
    """Lets tasks of `run` name the environment that is called `name` from the current folder; of a generated world the
    file is brought into the run before. Raises RefusedError for one that the run knows already, in whatever version,
    and UserError where there is none."""
    owned = Ownership(run.path, ADMITTED, PROCESS)
    try:
        environment = run.environments.load(name)
        known = run.named().get(environment.name)
        if known is not None:
            what = f"environment {environment.name!r} is known already, in version {known}"
            raise RefusedError(what, where=str(run.path))
        bring([name], run.environments.folders, run.path)
        made = record(
            "admitted",
            name=environment.name,
            hash=environment.hash,
            parameters=parameters(environment),
            by=by,
            why=why,
            time=round(time.time(), 3),
        )
        with closing(LogWriter(run.path / ADMITTED)) as writer:
            writer.append([made])
        return made
    finally:
        owned.release()
