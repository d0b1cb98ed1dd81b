"""The files of generated worlds in a run folder: environments/<address>/world.py, immutable, there before a task or a
record names the world. So a run goes on wherever it is started from, and its folder may be moved whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from buffers.log.disk import sync_folder, write
from rods.environments import addressed
from rods.errors import UserError, disk_error


def bring(names: Iterable[str], folders: Sequence[Path], target: Path) -> int:
    """Copies the files of those environments in `names` that are generated worlds, looked for below `folders` and then
    from the current folder, below `target`: each durable and whole when it has its name. How many worlds. Raises
    UserError for a file that is missing or another one than its address says."""
    worlds = {address: name for name in names if (address := addressed.address_of(name)) is not None}
    place = target / addressed.FOLDER
    try:
        for address, name in worlds.items():
            place.mkdir(exist_ok=True)
            if not (place / address).exists():
                _put(place, address, addressed.text_of(addressed.source_of(name, folders)).encode())
        if worlds:
            sync_folder(place)
            sync_folder(target)
    except OSError as error:
        raise disk_error(error, place) from error
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
