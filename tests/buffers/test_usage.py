"""The log of model calls: every call once, in order, across starts; budgets begin with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from buffers.log.tail import read
from buffers.usage import UsageLog
from rods.errors import InfrastructureError, RefusedError
from rods.llm import Usage


def usage(stage: str = "plan", requests: int = 1) -> Usage:
    return Usage(stage, "stop", "main", "m", 100, 20, 1.5, 0.1, 0, requests, constrained=True, account="3-abc#0")


async def test_calls_are_on_record_after_a_second_or_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("buffers.usage.SECONDS", 0.05)
    async with UsageLog(tmp_path, "daemon") as log:
        for _ in range(100):
            log(usage())
        await asyncio.sleep(0.5)
        assert len(list(read(log.path))) == 100
        log(usage("judge", requests=3))
    records = list(read(log.path))
    assert [record["number"] for record in records] == list(range(1, 102))
    assert records[-1]["stage"] == "judge"
    assert (records[0]["tokens_in"], records[0]["constrained"], records[0]["account"]) == (100, True, "3-abc#0")


async def test_a_later_start_goes_on_and_knows_what_was_spent(tmp_path: Path) -> None:
    for start in range(3):
        async with UsageLog(tmp_path, "daemon") as log:
            assert (log.tokens, log.requests) == (start * 120, start * 3)
            log(usage(requests=3))
    assert [record["seq"] for record in read(log.path)] == [1, 2, 3]
    assert len({record["id"] for record in read(log.path)}) == 3


async def test_a_write_that_failed_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("buffers.usage.SECONDS", 0.05)
    with pytest.raises((RefusedError, InfrastructureError)):
        async with UsageLog(tmp_path, "daemon") as log:
            log(usage())
            await asyncio.sleep(0.3)
            log.path.write_text("someone else was here\n")
            for _ in range(100):
                log(usage())
                await asyncio.sleep(0.05)
