"""The files of generated worlds in a run folder: environments/<address>/world.py, immutable, there before a task or a
record names the world. So a run goes on wherever it is started from, and its folder may be moved whole.

Environments may join a run while it goes on (`admit`): a task may name one that the manifest lacks only behind its
admission, which says what the manifest says of the others, and who admitted it, and why. A merge's closing record says
how far it has read admissions.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from rods.buffers.log.disk import refusals, sync_folder, write
from rods.buffers.log.records import Record, record
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.locks import Ownership
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import ADMITTED
from rods.environments import addressed
from rods.environments.base import parameters
from rods.errors import RefusedError, UserError


def bring(names: Iterable[str], folders: Sequence[Path], target: Path) -> int:
    """Copies the files of those environments in `names` that are generated worlds, looked for below `folders` and then
    from the current folder, below `target`: each durable and whole when it has its name. How many worlds. Raises
    UserError for a file that is missing or another one than its address says."""
    worlds = {address: name for name in names if (address := addressed.address_of(name)) is not None}
    place = target / addressed.FOLDER
    with refusals(place):
        for address, name in worlds.items():
            place.mkdir(exist_ok=True)
            if not (place / address).exists():
                _put(place, address, addressed.text_of(addressed.source_of(name, folders)).encode())
        if worlds:
            sync_folder(place)
            sync_folder(target)
    return len(worlds)


def _put(place: Path, address: str, content: bytes) -> None:
    fresh = place / f".{address}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        fresh.mkdir()
        write(fresh / addressed.FILE, content)
        sync_folder(fresh)
        fresh.rename(place / address)
    except FileExistsError:
        return  # another process was faster
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def damaged(names: Iterable[str], folder: Path) -> Iterator[tuple[str, str]]:
    """The generated worlds among `names` whose file below `folder` is missing or another one: place, and what is
    wrong."""
    for name in sorted(names):
        if (address := addressed.address_of(name)) is None:
            continue
        where = f"{addressed.FOLDER}/{address}/{addressed.FILE}"
        if not (folder / where).is_file():
            yield where, "is missing"
            continue
        try:
            addressed.source_of(name, [folder])
        except UserError as error:
            yield where, error.what


PROCESS = "admission"


def admit(run: Run, name: str, *, by: str, why: str = "") -> Record:
    """Lets tasks of `run` name the environment that is called `name` from the current folder; of a generated world the
    file is brought into the run before. Raises RefusedError for one that the run knows already, in whatever version,
    and UserError where there is none."""
    with Ownership(run.path, ADMITTED, PROCESS):
        environment = run.environments.load(name)
        known = run.named().get(environment.name)
        if known is not None:
            what = f"environment {environment.name!r} is known already, in version {known}"
            raise RefusedError(what, where=str(run.path))
        bring([name], run.environments.folders, run.path)
        told = {"name": environment.name, "hash": environment.hash, "parameters": parameters(environment)}
        made = record("admitted", **told, by=by, why=why, time=round(time.time(), 3))
        with closing(LogWriter(run.path / ADMITTED)) as writer:
            writer.append([made])
        return made
