"""Logs cut off at any byte, and logs in which one bit has flipped.

Reading a log that ends anywhere must give exactly the records that are whole, and a writer that
opens it must go on behind them. A flipped bit must never be believed, nor hide a record in silence:
the log's owner is told where it is.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path

from rods.buffers.log.record_bytes import Record, record
from rods.buffers.log.tail import Tail, groups
from rods.buffers.log.writer import LogWriter
from rods.errors import CorruptLogError
from tests.faults.table import Row
from tests.faults.workloads import Verdict, Workload

GOOD = Verdict()
PATH = Path("memory.jsonl")


class Memory(Tail):
    """Of a log of one part that lies in memory."""

    def __init__(self, data: bytes, after: int, *, raw: bool) -> None:
        super().__init__(PATH, strict=True, raw=raw)
        self.begin_behind(after, ())
        self._data = data

    def _blocks(self) -> Iterator[list[Record]]:
        yield from self._from(io.BytesIO(self._data), PATH)


def logs(folder: Path) -> list[Path]:
    """The parts of all logs of a run that hold anything."""
    return sorted(
        path
        for path in folder.glob("*.jsonl")
        if path.name != "tasks.jsonl" and path.stat().st_size
    )


def records(data: bytes, after: int = 0, *, raw: bool = False) -> list[Record]:
    """What a strict reader makes of `data`, a part whose first record follows record `after`."""
    return Memory(data, after, raw=raw).poll()


def truncations(workload: Workload, share: int = 1) -> Row:
    """Every log of the run that a workload has made, cut off at every byte: read, and opened for
    append."""
    row = Row(f"truncation of every log at every byte: {workload.program}")
    for path in logs(workload.whole):
        data = path.read_bytes()
        whole = records(data, first(data) - 1, raw=True)
        ends = [index + 1 for index, byte in enumerate(data) if byte == ord("\n")]
        near = {end + step for end in ends for step in (-2, -1, 0, 1)}
        for size in range(len(data)):
            if size % share and size not in near:
                continue
            kept = sum(end <= size for end in ends)
            row.add(
                f"{path.name} cut to {size} bytes",
                _cut(path, data[:size], whole[:kept], workload.scratch),
            )
    return row


def _cut(path: Path, data: bytes, whole: list[Record], scratch: Path) -> Verdict:
    expected = [record for closing, members in groups(whole) for record in (*members, closing)]
    try:
        seen = records(data, first(data) - 1 if whole else 0)
    except CorruptLogError as error:
        return Verdict(wrong=[f"the reader refuses it: {error}"])
    if seen != expected:
        return Verdict(
            lost=len([one for one in expected if one not in seen]),
            wrong=["the reader sees other records"],
        )
    folder = scratch / "cut"
    folder.mkdir()
    try:
        copy = folder / "x.jsonl"
        copy.write_bytes(data)
        writer = LogWriter(copy)
        seq = writer.append([record("start", attempt=99, from_step=0)])
        writer.close()
        tail = Tail(copy, strict=True, raw=True)
        tail.begin_behind(whole[0]["seq"] - 1 if whole else 0, frozenset())
        found = list(tail.records())
        if found[:-1] != whole or seq != (whole[-1]["seq"] if whole else 0) + 1:
            return Verdict(
                lost=len([one for one in whole if one not in found]),
                wrong=["what was appended is misplaced"],
            )
        aside = b"".join(other.read_bytes() for other in folder.glob("x.jsonl.torn.*"))
        if data != copy.read_bytes()[: len(data) - len(aside)] + aside:
            return Verdict(wrong=["the torn bytes were not kept"])
    except CorruptLogError as error:
        return Verdict(wrong=[f"the writer refuses it: {error}"])
    finally:
        shutil.rmtree(folder)
    return GOOD


def flips(workload: Workload, share: int = 1) -> Row:
    """Every bit of every log of that run, flipped: the strict reader stops there, and has given
    what stood before.

    A record is read together with its neighbours, not with the whole log, since a reader looks at
    one line at a time; every hundredth flip is read in the whole log all the same. Flips in a
    part's last line, the only one that a writer reads before it goes on, are shown to a writer too.
    """
    row = Row(f"every single-bit flip of every log: {workload.program}")
    for path in logs(workload.whole):
        data = path.read_bytes()
        begin = 0
        seq = first(data)
        while begin < len(data):
            end = data.index(b"\n", begin) + 1
            following = data.find(b"\n", end) + 1 or end
            for bit in range(8 * (end - begin)):
                if (bit + seq) % share == 0:
                    where = begin + bit // 8
                    flipped = bytes([data[where] ^ (1 << bit % 8)])
                    around = data[begin:where] + flipped + data[where + 1 : following]
                    row.add(
                        f"{path.name}, byte {where}, bit {bit % 8}", _flipped(around, seq - 1, [])
                    )
                    if row.tried % 100 == 0:
                        before = records(data[:begin], first(data) - 1, raw=True) if begin else []
                        damaged = data[:where] + flipped + data[where + 1 :]
                        row.add(
                            f"{path.name}, byte {where}, whole",
                            _flipped(damaged, first(data) - 1, before),
                        )
                    if end == len(data):
                        damaged = data[:where] + flipped + data[where + 1 :]
                        row.add(
                            f"{path.name}, byte {where}, writer",
                            _refused(damaged, workload.scratch),
                        )
            begin = end
            seq = seq + 1
    return row


def _flipped(data: bytes, after: int, before: list[Record]) -> Verdict:
    tail = Memory(data, raw=True, after=after)
    seen: list[Record] = []
    try:
        for found in tail.records():
            seen.append(found)
    except CorruptLogError:
        # A block that holds damage is refused as a whole, so fewer than those before may have been
        # given, never others.
        return (
            GOOD if seen == before[: len(seen)] else Verdict(wrong=["a damaged record is believed"])
        )
    return Verdict(wrong=[f"the damage goes unnoticed; {len(seen)} records are believed"])


def _refused(data: bytes, scratch: Path) -> Verdict:
    """A writer must not go on behind damage, nor change it."""
    folder = scratch / "flipped"
    folder.mkdir()
    try:
        log = folder / "x.jsonl"
        log.write_bytes(data)
        LogWriter(log).close()
        return Verdict(wrong=["a writer goes on behind the damage"])
    except CorruptLogError:
        return (
            GOOD
            if log.read_bytes() == data
            else Verdict(wrong=["a writer changed what is damaged"])
        )
    finally:
        shutil.rmtree(folder)


def first(data: bytes) -> int:
    """The seq of the first record in a part."""
    return int(data[7 : data.index(b",")])
