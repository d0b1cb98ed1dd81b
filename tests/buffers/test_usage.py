"""The log of model calls: every call once, in order, across starts; budgets begin with it. And
calls added up by stage, for accepted variants and for all."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.runfolder import expanded_segment, usage as log_name
from rods.buffers.usage import UsageLog, costs, covered
from rods.errors import InfrastructureError, RefusedError
from rods.llm import Usage
from tests.records import filled


def usage(stage: str = "plan", requests: int = 1) -> Usage:
    return Usage(
        stage,
        "stop",
        "main",
        "m",
        100,
        20,
        1.5,
        0.1,
        0,
        requests,
        constrained=True,
        account="3-abc#0",
    )


async def written(log: UsageLog, count: int) -> None:
    """Waits until the calls are on the disk, before the log is closed."""
    async with asyncio.timeout(60):
        while not log.path.exists() or len(list(read(log.path))) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_calls_are_on_record_after_a_second_or_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with UsageLog(tmp_path, "daemon") as log:
        for _ in range(100):
            log(usage())
        await written(log, 100)
        log(usage("judge", requests=3))
    records = list(read(log.path))
    assert [record["number"] for record in records] == list(range(1, 102))
    assert records[-1]["stage"] == "judge"
    assert (records[0]["tokens_in"], records[0]["constrained"], records[0]["account"]) == (
        100,
        True,
        "3-abc#0",
    )


async def test_a_later_start_goes_on_and_knows_what_was_spent(tmp_path: Path) -> None:
    for start in range(3):
        async with UsageLog(tmp_path, "daemon") as log:
            assert (log.tokens, log.requests) == (start * 120, start * 3)
            log(usage(requests=3))
    assert [record["seq"] for record in read(log.path)] == [1, 2, 3]
    assert len({record["id"] for record in read(log.path)}) == 3


async def test_a_write_that_failed_is_not_swallowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises((RefusedError, InfrastructureError)):
        async with UsageLog(tmp_path, "daemon") as log:
            log(usage())
            await written(log, 1)
            log.path.write_text("someone else was here\n")
            for _ in range(100):
                log(usage())
                await asyncio.sleep(0.05)


def call(number: int, stage: str, account: str, **fields: Any) -> dict[str, Any]:
    facts = {
        "outcome": "stop",
        "backbone": "a",
        "tokens_in": 100,
        "tokens_out": 10,
        "seconds": 2.0,
        "time": 100.0,
    }
    return filled(
        "call", process="daemon", number=number, stage=stage, account=account, **{**facts, **fields}
    )


def test_failures_are_paid_by_the_variants_that_were_accepted(tmp_path: Path) -> None:
    calls = [
        call(1, "plan", "1-a#0"),
        call(2, "judge", "1-a#0", time=103.0),
        call(3, "plan", "1-b#0", backbone="b"),
        call(4, "plan", "1-b#0", backbone="b", outcome="failed", tokens_in=0, tokens_out=0),
    ]
    for name, records in (
        (log_name("daemon"), calls),
        (expanded_segment(0), [filled("expanded", pick="1-a", index=0)]),
    ):
        with closing(LogWriter(tmp_path / name)) as log:
            log.append(records)
    found = costs(tmp_path)
    summary = found.as_json()
    assert (found.accepted, found.variants, summary["calls"]) == (1, 2, 4)
    assert (summary["calls_per_accepted"], summary["calls_on_the_path"]) == (4.0, 2.0)
    assert summary["stages"]["plan"]["per_accepted"]["tokens_in"] == 200
    assert (
        summary["stages"]["plan"]["on_the_path"]["calls"] == 1
        and summary["stages"]["plan"]["failed"] == 1
    )
    assert found.busy == {"a": 4.0, "b": 2.0}


def test_a_run_without_calls_costs_nothing(tmp_path: Path) -> None:
    assert costs(tmp_path).as_json()["calls_per_accepted"] is None


def test_time_in_flight_side_by_side_counts_once() -> None:
    assert covered([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0), (5.2, 5.4)]) == 4.0
