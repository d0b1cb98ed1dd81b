"""The files of a log, its parts: closed ones, each named after its first seq, and the live one.
Finds the parts, their first and last records, and any record by its seq."""

import os
import re
from bisect import bisect_right
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path

from rods.buffers.log.record_bytes import LOST, Damage, Record, is_record, parsed, read_line
from rods.files import LINE, open_regular

LOOKS = 20  # how often a reader looks again for a part that is being renamed
# epochs whose parts are asked for one by one; to list a folder costs as much as some hundreds
PROBED = 50
BLOCK = 1 << 15  # bytes read at once: a block's records stay in the processor's cache
NEAR = 1 << 16  # bytes in which a record is looked for line by line
SEQ = re.compile(rb'\{"seq":(\d+),')


def segments(path: Path, since: str = "") -> list[Path]:
    """The existing parts of the log whose live part is `path`, in order of seq. A star in the name
    stands for an epoch number. `since`: the name of a part; parts of earlier epochs are left out,
    so that following a log costs no more after years."""
    stem = re.escape(path.name.removesuffix(".jsonl")).replace(r"\*", r"(\d{4,})")
    pattern = re.compile(rf"{stem}(?:\.(?P<first>\d{{12}}))?\.jsonl")
    # a folder may hold thousands of files of another log
    begins = path.name.partition("*")[0].removesuffix(".jsonl")
    with os.scandir(path.parent) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(begins)]
    epochs = "*" in path.name
    earliest = int(match.group(1)) if epochs and (match := pattern.fullmatch(since)) else 0
    parts = []
    for name in names:
        if (match := pattern.fullmatch(name)) and (
            epoch := int(match.group(1)) if epochs else 0
        ) >= earliest:
            first = match.group("first")
            parts.append((epoch, first is None, int(first or 0), name))
    return [path.parent / name for *_, name in sorted(parts)]


def first_seq(path: Path) -> int | None:
    """The seq with which a part begins; None for an empty one. Raises CorruptLogError."""
    with open_regular(path) as file:
        first = read_line(file, path)
    return int(parsed(first[:-1], path, 0)["seq"]) if first.endswith(b"\n") else None


def last_record(part: Path) -> tuple[Record | None, int]:
    """The last whole record of a part (None when it has none) and the offset behind it. Raises
    CorruptLogError when the last line that ends is no record."""
    reach = 1 << 16
    with open_regular(part) as file:
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
            if reach > 2 * LINE:
                raise Damage(part, start, f"no record ends in its last {reach >> 20} MiB")
            reach *= 4


def last_of(log: Path, but: Path | None = None) -> Record | None:
    """The last record of a log, `but` for one of its parts; None for a log without any. Raises
    CorruptLogError."""
    parts = (part for part in reversed(segments(log)) if part != but)
    return next((record for part in parts if (record := last_record(part)[0]) is not None), None)


def records_with(log: Path, mark: bytes, skip: Container[str]) -> Iterator[Record]:
    """The records of a log, but for the parts named in `skip`, whose lines hold `mark`; found
    without parsing the rest."""
    for part in segments(log):
        if part.name in skip:
            continue
        with open_regular(part) as file:
            while block := file.read(BLOCK) + read_line(file, part):
                for line in block.splitlines(keepends=True) if mark in block else ():
                    if mark in line and line.endswith(b"\n") and is_record(line[:-1]):
                        yield parsed(line[:-1], part, 0)


class Lookup:
    """Reads single records of a log by seq, of kinds that need no closing. Nothing but the parts'
    first seqs stays in memory: seqs ascend, so a part and its bytes are halved until the record is
    near (about 0.1 ms)."""

    def __init__(self, path: Path) -> None:
        """`path`: the log's live part, or a name with a star."""
        self._path = path
        self._parts: list[tuple[int, Path]] = []  # first seq and file, as last listed

    def __getitem__(self, seq: int) -> Record:
        """Raises KeyError when no such record is there or damage took it, CorruptLogError when its
        checksum is wrong."""
        for _ in range(LOOKS):
            place = bisect_right(self._parts, seq, key=lambda part: part[0]) - 1
            with suppress(FileNotFoundError):  # renamed since it was listed
                if place >= 0 and (record := _search(self._parts[place][1], seq)) is not None:
                    if record["kind"] == LOST:
                        break
                    return record
            listed = self._list()
            if listed == self._parts:
                break
            self._parts = listed
        raise KeyError(seq)

    def _list(self) -> list[tuple[int, Path]]:
        parts = []
        for part in segments(self._path):
            with suppress(FileNotFoundError):  # being renamed
                if (first := first_seq(part)) is not None:
                    parts.append((first, part))
        return parts


def _search(part: Path, seq: int) -> Record | None:
    with open_regular(part) as file:
        # the line begins at `low` or behind it, and before `high`
        low = 0
        high = os.fstat(file.fileno()).st_size
        while high - low > NEAR:
            middle = (low + high) // 2
            file.seek(middle)
            read_line(file, part)
            begin = file.tell()
            if begin < high and _seq(read_line(file, part)) <= seq:
                low = begin
            else:
                high = middle + 1
        file.seek(low)
        while text := read_line(file, part):
            if (number := _seq(text)) >= seq:
                return parsed(text[:-1], part, low) if number == seq and b"\0" not in text else None
            low += len(text)
    return None


def _seq(text: bytes) -> float:
    """The seq of the record in a line; infinite for a line that has not arrived."""
    match = SEQ.match(text) if text.endswith(b"\n") else None
    return int(match.group(1)) if match else float("inf")
