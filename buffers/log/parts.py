"""The parts of a log: closed ones, each named after its first seq, and the live one (DESIGN §4)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from buffers.log.damage import parsed
from buffers.log.records import Record


def segments(path: Path, since: str = "") -> list[Path]:
    """The existing parts of the log whose live part is `path`, in order of seq. A star in the name stands for an epoch
    number. `since`: the name of a part; parts of earlier epochs are left out, so that following a log costs no more
    after years."""
    stem = re.escape(path.name.removesuffix(".jsonl")).replace(r"\*", r"(\d{4,})")
    pattern = re.compile(rf"{stem}(?:\.(?P<first>\d{{12}}))?\.jsonl")
    with os.scandir(path.parent) as entries:
        names = [entry.name for entry in entries]
    epochs = "*" in path.name
    earliest = int(match.group(1)) if epochs and (match := pattern.fullmatch(since)) else 0
    found = []
    for name in names:
        if (match := pattern.fullmatch(name)) and (epoch := int(match.group(1)) if epochs else 0) >= earliest:
            first = match.group("first")
            found.append((epoch, first is None, int(first or 0), name))
    return [path.parent / name for *_, name in sorted(found)]


def first_seq(path: Path) -> int | None:
    """The seq with which a part begins; None for an empty one. Raises CorruptLogError."""
    with path.open("rb") as file:
        first = file.readline()
    return int(parsed(first[:-1], path, 0)["seq"]) if first.endswith(b"\n") else None


def last_record(part: Path) -> tuple[Record | None, int]:
    """The last whole record of a part (None when it has none) and the offset behind it. Raises CorruptLogError when the
    last line that ends is no record."""
    reach = 1 << 16
    with part.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while True:
            start = max(0, size - reach)
            file.seek(start)
            data = file.read(size - start)
            end = data.rfind(b"\n")
            begin = data.rfind(b"\n", 0, max(end, 0)) + 1
            if end >= 0 and (begin > 0 or start == 0):
                return parsed(data[begin:end], part, start + begin), start + end + 1
            if start == 0:
                return None, 0
            reach *= 4
