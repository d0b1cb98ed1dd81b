"""Group commit: who waits together shares one write and one sync, and is told the truth."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import Appended, GroupCommit, LogWriter
from rods.errors import RefusedError, UserError
from tests.daemon.runs import until
from tests.records import filled


def call(process: str, number: int) -> Record:
    return filled("call", process=process, number=number)


def opened(path: Path, part_bytes: int = 0) -> tuple[LogWriter, GroupCommit]:
    writer = LogWriter(path, part_bytes=part_bytes)
    return writer, GroupCommit(lambda: writer)


def syncs(monkeypatch: pytest.MonkeyPatch, seconds: float = 0.0) -> Iterator[int]:
    """Counts what is synced from now on, each sync taking so long; the next value is how many there
    were so far."""
    real = os.fdatasync
    done = itertools.count()

    def fdatasync(descriptor: int) -> None:
        time.sleep(seconds)
        real(descriptor)
        next(done)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    return done


async def test_producers_who_wait_together_share_one_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, log = opened(tmp_path / "x.jsonl")

    async def produce(name: int) -> None:
        for number in range(5):
            await log.append(call(str(name), number))
            assert any(
                (found["process"], found["number"]) == (str(name), number)
                for found in read(tmp_path / "x.jsonl")
            )

    await asyncio.gather(*(produce(name) for name in range(20)))
    done = syncs(monkeypatch)
    await asyncio.gather(*(log.append(call("together", number)) for number in range(100)))
    assert 1 <= next(done) < 30
    log.close()
    assert writer.seq == len(list(read(tmp_path / "x.jsonl"))) == 200


async def test_the_event_loop_goes_on_while_the_disk_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, log = opened(tmp_path / "x.jsonl")
    real = os.fdatasync
    synced = threading.Event()

    def fdatasync(descriptor: int) -> None:
        synced.wait()  # for ever, should the loop wait for it
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    taken = log.append(call("p", 0))
    await asyncio.sleep(0.01)
    assert not taken.done()
    synced.set()
    await taken
    log.close()


async def test_a_failed_write_is_told_to_all_who_wait_and_to_all_who_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, log = opened(tmp_path / "x.jsonl")
    await log.append(call("p", 0))
    real = os.write
    full = [True]

    def write(descriptor: int, data: bytes) -> int:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    results = await asyncio.gather(
        *(log.append(call("q", number)) for number in range(8)), return_exceptions=True
    )
    assert all(isinstance(result, UserError) for result in results)
    full.clear()
    with pytest.raises(UserError, match="the disk is full"):
        await log.append(call("r", 0))
    log.close()
    assert len(list(read(tmp_path / "x.jsonl"))) == 1


async def test_records_of_another_process_are_noticed(tmp_path: Path) -> None:
    _, log = opened(tmp_path / "x.jsonl")
    (tmp_path / "x.jsonl").write_bytes(b"someone else\n")
    with pytest.raises(RefusedError, match="another process has written"):
        await log.append(call("p", 0))
    log.close()


async def test_groups_and_single_records_share_a_log_that_is_cut_into_parts(tmp_path: Path) -> None:
    _, log = opened(tmp_path / "x.jsonl", part_bytes=300)
    for step in range(1, 7):
        picks = [filled("picked", step=step, task=str(place)) for place in range(3)]
        group = log.append_group(picks, filled("considered", step=step))
        await asyncio.gather(
            group, *(log.append(filled("finished", pick=f"{step}-{place}")) for place in range(3))
        )
    log.close()
    found = list(read(tmp_path / "x.jsonl"))
    assert [one["seq"] for one in found] == list(range(1, 43))
    assert [one["kind"] for one in found[:7]] == ["picked"] * 3 + ["considered"] + ["finished"] * 3
    assert [one["first"] for one in found if one["kind"] == "considered"] == [1, 8, 15, 22, 29, 36]
    assert len(segments(tmp_path / "x.jsonl")) > 2


async def test_what_was_taken_is_written_before_the_end(tmp_path: Path) -> None:
    _, log = opened(tmp_path / "x.jsonl")
    taken = [log.append(call("p", number)) for number in range(100)]
    log.close()
    assert len(list(read(tmp_path / "x.jsonl"))) == 100
    await asyncio.gather(*taken)


async def test_what_is_no_json_fails_alone(tmp_path: Path) -> None:
    _, log = opened(tmp_path / "x.jsonl")
    bad = call("p", 1) | {"text": "\ud800"}
    first = log.append(call("p", 0))
    with pytest.raises(TypeError):
        log.append(bad)
    await asyncio.gather(first, log.append(call("p", 2)))
    log.close()
    assert [found["number"] for found in read(tmp_path / "x.jsonl")] == [0, 2]


async def test_a_producer_that_leaves_does_not_take_the_others_along(tmp_path: Path) -> None:
    _, log = opened(tmp_path / "x.jsonl")
    waiting = [log.append(call("p", number)) for number in range(4)]
    waiting[1].cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [result is None for result in results] == [True, False, True, True]
    log.close()
    assert len(list(read(tmp_path / "x.jsonl"))) == 4


class Looking(list[Appended]):
    """What waits; whoever finds nothing there while `held` says so and waits for `go_on`."""

    def __init__(self) -> None:
        self.held = threading.Event()
        self.looked = threading.Event()
        self.go_on = threading.Event()

    def __bool__(self) -> bool:
        nothing = not len(self)
        if nothing and self.held.is_set():
            self.looked.set()
            self.go_on.wait(60)
        return not nothing


async def test_what_is_taken_just_before_the_end_is_written(tmp_path: Path) -> None:
    """The thread has seen that nothing waits, and then come a record and the end, at once."""
    writer, log = opened(tmp_path / "x.jsonl")
    waiting = Looking()
    log._waiting = waiting
    waiting.held.set()
    first = log.append(call("a", 0))  # is answered behind the look that is held
    assert await asyncio.to_thread(waiting.looked.wait, 60)
    log.append(call("a", 1))
    waiting.held.clear()
    closing = threading.Thread(target=log.close)
    closing.start()
    until(lambda: log._closing)
    waiting.go_on.set()
    closing.join()
    await first
    writer.close()
    assert [record["number"] for record in read(tmp_path / "x.jsonl")] == [0, 1]
