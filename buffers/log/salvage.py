"""Reads what is left of a damaged log, and writes the log without the damage (`rods recover`).

Whole records behind damage are kept where they stand. Each that is missing gets a `lost` record with its seq in its
place, so that everything that names a seq stays right; folds pass over `lost` records, and `rods verify` says what they
lacked. A lost `start` is written again, since what follows tells it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import orjson

from buffers.log.parts import segments
from buffers.log.records import LOST, Record, is_record, leading_record, line, record
from rods.files import read_regular

BEGINNING = re.compile(rb'\{"seq":\d+,"id":"')


@dataclass(slots=True)
class PartContents:
    """A file of the log: its bytes up to the last newline, and the records among them (seq → the line's text)."""

    path: Path
    data: bytes
    records: dict[int, bytes]
    missing: list[int] = field(default_factory=list)  # seqs whose place is here

    @property
    def damaged(self) -> bool:
        return bool(self.missing) or self.data != b"".join(text + b"\n" for text in self.records.values())

    @property
    def offset(self) -> int:
        """The start of the first line that is not as it should be."""
        sound = b"".join(text + b"\n" for text in self.records.values())
        pairs = enumerate(zip(self.data, sound, strict=False))
        differs = next((place for place, (one, other) in pairs if one != other), min(len(self.data), len(sound)))
        return self.data.rfind(b"\n", 0, differs) + 1

    def __str__(self) -> str:
        first, count = min(self.missing, default=0), len(self.missing)
        which = "no record" if not count else f"record {first}" if count == 1 else f"{count} records from {first} on"
        return f"damaged from byte {self.offset} on, {which} lost"


def salvage(log: Path) -> list[PartContents]:
    """Looks at every byte of a log; changes nothing. An incomplete last line is no damage."""
    parts: list[PartContents] = []
    last = 0
    files = segments(log)
    for path in files:
        data = read_regular(path)
        torn = data[data.rfind(b"\n") + 1 :] if path == files[-1] else b""
        if torn and not 0 < len(leading_record(torn)) < len(torn):  # otherwise it was whole, its newline is damaged
            data = data[: -len(torn)]
        part = PartContents(path, data, {})
        for text in _records(data):
            seq = orjson.loads(text)["seq"]
            if seq > last:  # else a second copy of what is there
                part.records[seq] = text
                last = seq
        parts.append(part)
    _place_missing(parts)
    return parts


def mended(parts: list[PartContents], again: Mapping[int, Record] | None = None) -> Iterator[tuple[Path, bytes]]:
    """The damaged parts with their new bytes. `again`: records that are known although they were lost, by seq."""
    known = {**_starts(parts), **(again or {})}
    for part in parts:
        if part.damaged:
            lines = {seq: text + b"\n" for seq, text in part.records.items()}
            for seq in part.missing:
                lines[seq] = line(seq, known.get(seq) or record(LOST, log=part.path.name, number=seq))
            yield part.path, b"".join(lines[seq] for seq in sorted(lines))


def _records(data: bytes) -> Iterator[bytes]:
    """Whole records, also those between which a newline was damaged."""
    for text in data.split(b"\n"):
        if is_record(text):
            yield text
            continue
        done = 0
        for begin in BEGINNING.finditer(text):
            if begin.start() < done:
                continue
            if found := leading_record(text[begin.start() :]):
                yield found
                done = begin.start() + len(found)


def _place_missing(parts: list[PartContents]) -> None:
    """Gives every missing seq a part: a damaged one next to the gap, if there is one. How many records stood behind
    the last whole one, only the number of lines tells."""
    filled = [part for part in parts if part.records]
    due = 1
    for part in filled:
        first = min(part.records)
        part.missing += range(due, first)
        part.missing += (seq for one, other in pairwise(part.records) for seq in range(one + 1, other))
        due = max(part.records) + 1
    if parts:
        live, place = parts[-1], max(parts[-1].records, default=0)
        behind = (
            live.data[live.data.rfind(live.records[place]) + len(live.records[place]) + 1 :] if place else live.data
        )
        live.missing += range(due, due + behind.count(b"\n"))


def _starts(parts: list[PartContents]) -> dict[int, Record]:
    """The `start` records among the missing ones: an attempt whose steps are there has begun."""
    missing = {seq for part in parts for seq in part.missing}
    found: dict[int, Record] = {}
    begun: set[int] = set()
    gap = 0  # the latest missing seq
    for part in parts if missing else ():
        for seq, text in part.records.items():
            gap = seq - 1 if seq - 1 in missing else gap
            content = orjson.loads(text)
            if content["kind"] == "start":
                begun.add(content["attempt"])
            elif content["kind"] in ("group", "step") and content["attempt"] not in begun:
                begun.add(content["attempt"])
                if gap:
                    start = record("start", attempt=content["attempt"], from_step=content["step"] - 1, time=None)
                    found[gap] = start
    return found
