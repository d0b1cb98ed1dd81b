"""Records that cannot be believed: what is said of them, and how the evidence is kept (DESIGN §4)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson

from buffers.log.records import TRAILER, Record, is_record
from rods.errors import CorruptLogError


class Damage(CorruptLogError):
    """A record that cannot be believed, in `part` from byte `offset` on."""

    def __init__(self, part: Path, offset: int, why: str) -> None:
        self.part, self.offset = part, offset
        super().__init__(
            f"damaged record: {why}",
            where=f"{part}, byte {offset}",
            remedy=f"restore the file from a copy, or see what `rods recover {part.parent}` offers",
        )


@contextmanager
def quarantine() -> Iterator[None]:
    """For the owner of a log: damage met inside is copied to `<file>.corrupt.<offset>` before it is raised, so that
    nothing done to the log later can destroy the evidence."""
    try:
        yield
    except Damage as damage:
        with suppress(OSError), damage.part.open("rb") as file:  # a full disk must not hide the damage
            file.seek(damage.offset)
            damage.part.with_name(f"{damage.part.name}.corrupt.{damage.offset}").write_bytes(file.readline())
        raise


def parsed(text: bytes, part: Path, offset: int) -> Record:
    """The record in one line. Raises CorruptLogError."""
    if not is_record(text):
        raise Damage(part, offset, "the checksum does not match the line")
    found: Record = orjson.loads(text)
    return found


def check_newline(rest: bytes, part: Path, offset: int) -> None:
    """Raises Damage when `rest`, the end of a part, is a whole record but for the newline: nothing is missing there."""
    if len(rest) > TRAILER and is_record(rest[:-1]):
        raise Damage(part, offset, "the newline behind the last record is damaged")
