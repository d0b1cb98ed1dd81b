"""One record of a log by its seq, without reading what stands before it: seqs ascend, so parts and bytes are halved.

What is seldom asked for need not be remembered, not even where it stands.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from buffers.log.damage import parsed
from buffers.log.parts import first_seq, segments
from buffers.log.records import LOST, Record
from buffers.log.tail import LOOKS

NEAR = 1 << 16  # bytes that are read line by line


def record_at(path: Path, seq: int) -> Record:
    """The record `seq` of the log whose live part is `path`, of a kind that needs no closing. Raises KeyError when it
    is not there or was lost to damage, CorruptLogError when a line on the way does not fit its checksum."""
    for _ in range(LOOKS):
        try:
            found = _search([part for part in segments(path) if part.stat().st_size], seq)
        except FileNotFoundError:  # a part that is being renamed
            continue
        if found is None or found["kind"] == LOST:
            break
        return found
    raise KeyError(seq)


def _search(parts: list[Path], seq: int) -> Record | None:
    low, high = 0, len(parts)  # the part is none before `low` and lies before `high`
    while high - low > 1:
        middle = (low + high) // 2
        first = first_seq(parts[middle])
        if first is not None and first <= seq:
            low = middle
        else:
            high = middle
    return _within(parts[low], seq) if parts else None


def _within(part: Path, seq: int) -> Record | None:
    with part.open("rb") as file:
        low, high = 0, os.fstat(file.fileno()).st_size  # the line begins at `low` or behind it, and before `high`
        while high - low > NEAR:
            middle = (low + high) // 2
            file.seek(middle)
            file.readline()
            begin = file.tell()
            found = _line(file, part) if begin < high else None
            if found is not None and found["seq"] <= seq:
                low = begin
            else:
                high = middle + 1
        file.seek(low)
        while (found := _line(file, part)) is not None and found["seq"] <= seq:
            if found["seq"] == seq:
                return found
    return None


def _line(file: BinaryIO, part: Path) -> Record | None:
    """The record that begins here; None when it has not arrived."""
    begin = file.tell()
    text = file.readline()
    return parsed(text[:-1], part, begin) if text.endswith(b"\n") and b"\0" not in text else None
