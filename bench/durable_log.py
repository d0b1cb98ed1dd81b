"""Durable records: 512 bytes, many producers in one process, each awaiting its record's
acknowledgement.

Claim: at least 0.9 of what the disk gives, and 5 times SQLite. Anchors, on the same disk in the
same run: bare append + fdatasync of the bytes of the log before, in the same groups; SQLite (WAL,
synchronous=FULL) under the same producers. Command: `python -m bench.durable_log`.

Log and bare appends take turns in short blocks, and a ratio is that of a log and the bare appends
before and after it: a disk or a machine that is busy with something else slows both.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, run
from rods.buffers.log.disk import sync_folder
from rods.buffers.log.record_bytes import Record, line, record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import GroupCommit, LogWriter

PRODUCERS = 64
BYTES = 512


def measure(quick: bool) -> list[Figure]:
    """Records a second and their ratios: medians over pairs of blocks, with the quartiles."""
    seconds, pairs = (0.05, 31) if quick else (0.05, 301)
    ours = []
    bare = []
    sqlite = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        log = asyncio.run(_log(Path(folder) / "first.jsonl", seconds))
        assert sum(1 for _ in read(Path(folder) / "first.jsonl")) == log.records > 0
        for number in range(pairs):
            if number % 2:
                bare.append(_bare(Path(folder) / f"bare{number}", log))
            log = asyncio.run(_log(Path(folder) / f"log{number}.jsonl", seconds))
            ours.append(log.rate)
            if number % 2 == 0:
                bare.append(_bare(Path(folder) / f"bare{number}", log))
            if number % 20 == 0:
                sqlite.append(asyncio.run(_sqlite(Path(folder) / f"sqlite{number}", 5 * seconds)))
    low, ratio, high = statistics.quantiles(
        [one / other for one, other in zip(ours, bare, strict=True)], n=4
    )
    rate = statistics.median(ours)
    records = f"durable records of {BYTES} bytes, {PRODUCERS} producers"
    return [
        Figure(
            f"{records}, against bare append + fdatasync by {log.records / len(log.groups):.0f}",
            ratio,
            "×",
            "bare records/s",
            statistics.median(bare),
            reach=0.95,
        ),
        Figure("the same, first quartile of the pairs", low, "×"),
        Figure("the same, third quartile of the pairs", high, "×"),
        Figure(
            "the same against SQLite (WAL, synchronous=FULL)",
            rate / statistics.median(sqlite),
            "×",
            "SQLite records/s",
            statistics.median(sqlite),
            reach=5.0,
        ),
        Figure("durable records a second", rate, "records/s"),
    ]


def _record(number: int) -> Record:
    """A record whose line has 512 bytes, give or take the digits of its seq."""
    return {**TEMPLATE, "index": number}


TEMPLATE = record(
    "rejected", pick="1-t", index=10**6, attempt=0, stage="bench", error="", evidence="", raw=""
)
TEMPLATE["raw"] = "x" * (BYTES - len(line(10**5, TEMPLATE)))


async def _produce(seconds: float, append: Callable[[int], Awaitable[object]]) -> float:
    """Acknowledged records a second."""
    done = 0
    ends = time.perf_counter() + seconds

    async def producer(name: int) -> None:
        nonlocal done
        number = name * 10**7
        while time.perf_counter() < ends:
            number += 1
            await append(number)
            done += 1

    started = time.perf_counter()
    await asyncio.gather(*(producer(name) for name in range(PRODUCERS)))
    return done / (time.perf_counter() - started)


@dataclass(slots=True)
class Written:
    """A log that was written: its records, how many a second, and the bytes of each group that was
    synced at once."""

    records: int
    rate: float
    groups: list[bytes]


class Watched(LogWriter):
    """Counts the bytes of its groups."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.groups: list[int] = []

    def append_lines(
        self, data: bytes, last: int, meanwhile: Callable[[], None] = lambda: None
    ) -> int:
        self.groups.append(len(data))
        return super().append_lines(data, last, meanwhile)


async def _log(path: Path, seconds: float) -> Written:
    writer = Watched(path)
    log = GroupCommit(lambda: writer)
    rate = await _produce(seconds, lambda number: log.append(_record(number)))
    log.close()
    writer.close()
    with path.open("rb") as file:
        return Written(writer.seq, rate, [file.read(size) for size in writer.groups])


def _bare(path: Path, log: Written) -> float:
    """Records a second when one loop appends the same groups of bytes: nothing but write and
    fdatasync."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sync_folder(path.parent)  # as the log has done
    os.fdatasync(descriptor)
    started = time.perf_counter()
    for group in log.groups:
        os.write(descriptor, group)
        os.fdatasync(descriptor)
    rate = log.records / (time.perf_counter() - started)
    os.close(descriptor)
    return rate


async def _sqlite(path: Path, seconds: float) -> float:
    """A transaction a record, as `execute` and `commit` give it."""
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("PRAGMA journal_mode=WAL")
    base.execute("PRAGMA synchronous=FULL")
    base.execute("CREATE TABLE log (seq INTEGER PRIMARY KEY, line BLOB)")

    async def append(number: int) -> None:
        base.execute("INSERT INTO log (line) VALUES (?)", (line(number, _record(number)),))
        await asyncio.sleep(0)

    rate = await _produce(seconds, append)
    base.close()
    return rate


if __name__ == "__main__":
    run(measure)
