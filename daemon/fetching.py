"""What a tail will read, read ahead by aiofiles: the event loop never waits for a disk, and a file system that hangs
takes none of the threads in which variants are made.

Bytes are fetched in big blocks, since every hop to a thread costs more than reading a hundred records. What they mean
is left to the tail (buffers.log.tail), which finds them in place of the disk.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import aiofiles
import aiofiles.os

from buffers.log.tail import Ahead, Disk, Tail

BLOCK = 4 << 20  # bytes fetched at once, unless a single group is longer
FRESH = 2.0  # seconds after which a file is opened although its size says that nothing has come: that makes a network
# file system ask its server


class Fetched(Disk):
    """Parts of a log as they were fetched: each with its inode, and its bytes from some offset on."""

    def __init__(self) -> None:
        self._parts: dict[Path, tuple[int, int, bytes]] = {}

    def add(self, one: Ahead, data: bytes) -> None:
        self._parts[one.part] = one.inode, one.begin, data

    def parts(self, path: Path, since: str) -> list[Path]:
        return list(self._parts)

    def inode(self, part: Path) -> int:
        if part not in self._parts:
            raise FileNotFoundError(part)
        return self._parts[part][0]

    @contextmanager
    def open(self, part: Path) -> Iterator[tuple[BinaryIO, int]]:
        inode, offset, data = self._parts[part]
        yield _Window(data, offset), inode


class _Window(io.BytesIO):
    """A file of which only the bytes from `offset` on are known."""

    def __init__(self, data: bytes, offset: int) -> None:
        super().__init__(data)
        self._begin = offset

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return super().seek(offset - self._begin, whence)


class Fetcher:
    """Reads ahead for one tail at a time (a fold that begins anew has a new one)."""

    def __init__(self) -> None:
        self._reach = BLOCK
        self._stuck: Ahead | None = None  # where the last block was cut off
        self._opened = 0.0

    async def fetch(self, tail: Tail) -> bool:
        """Puts what has come since the tail's position, up to a block, where the tail looks for it. True when there is
        more: call again once the tail has been read."""
        ahead = await _ahead(tail)
        now = time.monotonic()
        fetched = Fetched()
        if now - self._opened < FRESH and all(one.size <= one.begin for one in ahead):
            for one in ahead:
                fetched.add(one, b"")
            tail.files = fetched
            return False
        self._opened = now
        self._reach = 2 * self._reach if self._stuck is not None and ahead and _same(ahead[0], self._stuck) else BLOCK
        room = self._reach
        for one in ahead:
            try:
                async with aiofiles.open(one.part, "rb") as file:
                    if (await _fstat(file.fileno())).st_ino != one.inode:
                        break  # renamed just now: what it holds is fetched next time
                    await file.seek(one.begin)
                    data = await file.read(room)
            except FileNotFoundError:
                break
            fetched.add(one, data)
            room -= len(data)
            if not room:
                break
        self._stuck = None if room else ahead[0]
        tail.files = fetched
        return not room


def _same(one: Ahead, other: Ahead) -> bool:
    return (one.inode, one.begin) == (other.inode, other.begin)


_ahead = aiofiles.os.wrap(Tail.ahead)
_fstat = aiofiles.os.wrap(os.fstat)
