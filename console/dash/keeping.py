"""What the page has read of a run, kept in the user's cache between its starts, so that a long run opens fast.

A pickle of the follower, in one file a run under `$RODS_CACHE/page`. It only saves time, may be deleted, and is
believed only where the same code reads the same logs on: closed parts as they were (sizes and times of change), and in
each log that is followed the last record that was read, with its checksum, where it was. All else is read anew.
"""

from __future__ import annotations

import copyreg
import gc
import hashlib
import os
import pickle
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

from buffers.run.run import Run
from buffers.run.runfolder import MANIFEST
from buffers.state import Tail
from rods.errors import RodsError
from rods.files import user_cache

PACKAGES = ("prompts", "rods", "worlds", "buffers", "console")  # whose code shapes what is kept
DAYS = 30  # after which what nobody has kept anew is deleted
Parts = dict[str, tuple[int, int]]  # closed parts of logs: size in bytes, time of change in nanoseconds


def keep(folder: Path, follower: object, tails: Iterable[Tail]) -> None:
    """Keeps `follower` of the run in `folder`, which has read as far as `tails`. A disk that refuses it loses time
    only."""
    file = _file(folder)
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with fresh.open("wb") as out:
                summed = _Summed(out)
                pickle.dump((_made(folder), _parts(tails)), summed)
                pickler = pickle.Pickler(summed, pickle.HIGHEST_PROTOCOL)
                pickler.dispatch_table = copyreg.dispatch_table | {Run: _opened_anew}
                pickler.dump(follower)
                out.write(summed.crc.to_bytes(4))
            fresh.replace(file)
        finally:
            fresh.unlink(missing_ok=True)
        for other in file.parent.iterdir():
            if time.time() - other.stat().st_mtime > 86_400 * DAYS:
                other.unlink(missing_ok=True)


def kept(folder: Path) -> Any:
    """The follower that was kept of the run in `folder`, if it can be believed: its caller asks `stand`, too."""
    with suppress(OSError, pickle.UnpicklingError, EOFError, RodsError), _file(folder).open("rb") as file:
        if not _whole(file):
            return None
        made, parts = pickle.load(file)
        if made != _made(folder) or any(_facts(Path(name)) != facts for name, facts in parts.items()):
            return None
        collecting = gc.isenabled()
        gc.disable()  # nothing of what is made here is garbage
        try:
            return pickle.load(file)
        finally:
            if collecting:
                gc.enable()
    return None


def stand(tails: Iterable[Tail]) -> bool:
    """Whether each log still holds the last record that its tail has read."""
    return all(tail.stands() for tail in tails)


class _Summed:
    """A file being written, and the checksum of what was."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.crc = file, 0

    def write(self, data: Any) -> int:
        self.crc = crc32(data, self.crc)
        return self._file.write(data)


def _whole(file: BinaryIO) -> bool:
    """Whether the checksum at the end of the file is that of what stands before it; leaves its position at 0."""
    size, crc = file.seek(0, 2) - 4, 0
    file.seek(0)
    while size > 0 and (data := file.read(min(size, 1 << 20))):
        crc, size = crc32(data, crc), size - len(data)
    found = file.read(4) == crc.to_bytes(4)
    file.seek(0)
    return found


def _opened_anew(run: Run) -> tuple[Any, ...]:
    """A run is no part of what is kept: its files say it again, and raise where they were changed."""
    return Run.open, (run.path,)


def _file(folder: Path) -> Path:
    return user_cache() / "page" / hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]


def _made(folder: Path) -> tuple[str, str, bytes]:
    """What else must be the same: the code, the interpreter, the run."""
    return _code(), sys.version, hashlib.sha256((folder / MANIFEST).read_bytes()).digest()


@cache
def _code() -> str:
    """A digest of the sources."""
    root, digest = Path(__file__).parents[2], hashlib.sha256()
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _parts(tails: Iterable[Tail]) -> Parts:
    """The closed parts behind which the tails stand."""
    return {str(part): _facts(part) for tail in tails for part in tail.passed()}


def _facts(part: Path) -> tuple[int, int]:
    found = part.stat()
    return found.st_size, found.st_mtime_ns
