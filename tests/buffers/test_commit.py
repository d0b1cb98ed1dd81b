"""Group commit: who waits together shares one write and one sync, and is told the truth."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from buffers.commit import GroupCommit
from buffers.log import LogWriter
from buffers.reading import read
from buffers.records import Record, record
from rods.errors import RefusedError, UserError


def call(process: str, number: int) -> Record:
    return record("call", process=process, number=number)


async def test_producers_who_wait_together_share_one_sync(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "x.jsonl")
    log = GroupCommit(writer)

    async def produce(name: int) -> None:
        for number in range(5):
            await log.append(call(str(name), number))
            assert any(
                (found["process"], found["number"]) == (str(name), number) for found in read(tmp_path / "x.jsonl")
            )

    await asyncio.gather(*(produce(name) for name in range(20)))
    await log.close()
    assert writer.seq == len(list(read(tmp_path / "x.jsonl"))) == 100
    assert log.commits <= 50


async def test_a_failed_write_reaches_everyone_who_waits_for_it(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "x.jsonl")
    (tmp_path / "x.jsonl").write_bytes(b"someone else\n")
    log = GroupCommit(writer)
    results = await asyncio.gather(*(log.append(call("p", number)) for number in range(3)), return_exceptions=True)
    assert all(isinstance(result, RefusedError) for result in results)
    await log.close()


async def test_after_a_full_disk_the_log_goes_on_with_the_seqs_that_are_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = GroupCommit(LogWriter(tmp_path / "x.jsonl"))
    await log.append(call("p", 0))
    real, fail = os.write, [True]

    def write(descriptor: int, data: bytes) -> int:
        if fail and fail.pop():
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    results = await asyncio.gather(*(log.append(call("q", number)) for number in range(8)), return_exceptions=True)
    failed = [result for result in results if result is not None]
    assert failed and all(isinstance(result, UserError) for result in failed)
    await asyncio.gather(*(log.append(call("r", number)) for number in range(8)))
    await log.close()
    found = list(read(tmp_path / "x.jsonl"))
    assert [one["seq"] for one in found] == list(range(1, len(found) + 1))
    assert len(found) == 1 + 8 - len(failed) + 8


async def test_what_is_no_json_fails_alone(tmp_path: Path) -> None:
    log = GroupCommit(LogWriter(tmp_path / "x.jsonl"))
    bad = call("p", 1) | {"text": "\ud800"}
    results = await asyncio.gather(
        log.append(call("p", 0)), log.append(bad), log.append(call("p", 2)), return_exceptions=True
    )
    assert [result is None for result in results] == [True, False, True]
    await log.close()
    assert [found["number"] for found in read(tmp_path / "x.jsonl")] == [0, 2]


async def test_a_producer_that_leaves_does_not_take_the_others_along(tmp_path: Path) -> None:
    log = GroupCommit(LogWriter(tmp_path / "x.jsonl"))
    waiting = [asyncio.create_task(log.append(call("p", number))) for number in range(4)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [result is None for result in results] == [True, False, True, True]
    await log.close()
    assert len(list(read(tmp_path / "x.jsonl"))) == 4
