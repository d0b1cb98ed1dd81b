"""What a log costs to follow, or to open again, does not grow with its length: bytes read, folders
listed and files held open are the same after many starts, parts and epochs as after a few."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rods.buffers.log.tail import Tail
from rods.buffers.log.writer import LogWriter
from tests.records import filled

FEW = 4
MANY = 150


@contextmanager
def listed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The folders that are listed meanwhile."""
    scandir = os.scandir
    seen: list[Any] = []

    def counted(path: Any) -> Any:
        seen.append(path)
        return scandir(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", counted)
        yield seen


def read_by(work: Callable[[], object]) -> int:
    """Bytes that `work` reads, by the kernel's count, whose own file is about a hundred."""

    def count() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    before = count()
    work()
    return count() - before


def held() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_a_start_reads_a_bounded_end_of_its_log(tmp_path: Path) -> None:
    path = tmp_path / "operation.daemon.jsonl"

    def start() -> None:
        with closing(LogWriter(path)) as writer:
            writer.append([filled("started", time=float(path.stat().st_size), command=["x" * 999])])

    start()
    before = held()
    most = max(read_by(start) for _ in range(MANY))
    assert path.stat().st_size > 2 * most > 0 and held() == before


def test_an_idle_look_costs_the_same_after_many_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "usage.daemon.jsonl"
    tail = Tail(path)

    def idle() -> tuple[int, int, int]:
        with listed(monkeypatch) as folders:
            read = read_by(lambda: tail.poll() == [] or pytest.fail("there was something"))
        return read // 100, len(folders), held()

    with closing(LogWriter(path)) as writer:
        costs = []
        for parts in (FEW, MANY):
            for _ in range(parts):
                writer.append([filled("call")])
                writer.rotate()
            writer.append([filled("call")])
            assert len(tail.poll()) == parts + 1
            costs.append(idle())
    assert costs[0] == costs[1]


def test_an_idle_look_costs_the_same_after_many_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = 0
    log = tmp_path / "expanded_epoch_*.jsonl"
    tail = Tail(log, newest=lambda: newest)
    costs = []
    for epoch in range(MANY):
        newest = epoch
        part = tmp_path / f"expanded_epoch_{epoch:04d}.jsonl"
        with closing(LogWriter(part, log=log)) as writer:
            writer.append([filled("expanded", pick=str(epoch))])
        if epoch in (FEW, MANY - 1):
            assert tail.poll()
            with listed(monkeypatch) as folders:
                costs.append((read_by(tail.poll) // 100, len(folders), held()))
    assert costs[0] == costs[1] and costs[0][1] == 0
