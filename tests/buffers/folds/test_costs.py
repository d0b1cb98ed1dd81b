"""Calls added up by stage, for accepted variants and for all."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from buffers.folds.costs import costs, covered
from buffers.log.writer import LogWriter, record
from rods.runfolder import expanded_segment, usage


def call(number: int, stage: str, account: str, **fields: Any) -> dict[str, Any]:
    facts = {"outcome": "stop", "backbone": "a", "tokens_in": 100, "tokens_out": 10, "seconds": 2.0, "time": 100.0}
    return record("call", process="daemon", number=number, stage=stage, account=account, **{**facts, **fields})


def test_failures_are_paid_by_the_variants_that_were_accepted(tmp_path: Path) -> None:
    calls = [
        call(1, "plan", "1-a#0"),
        call(2, "judge", "1-a#0", time=103.0),
        call(3, "plan", "1-b#0", backbone="b"),
        call(4, "plan", "1-b#0", backbone="b", outcome="failed", tokens_in=0, tokens_out=0),
    ]
    for name, records in (
        (usage("daemon"), calls),
        (expanded_segment(0), [record("expanded", pick="1-a", index=0)]),
    ):
        with closing(LogWriter(tmp_path / name)) as log:
            log.append(records)
    found = costs(tmp_path)
    summary = found.as_json()
    assert (found.accepted, found.variants, summary["calls"]) == (1, 2, 4)
    assert (summary["calls_per_accepted"], summary["calls_on_the_path"]) == (4.0, 2.0)
    assert summary["stages"]["plan"]["per_accepted"]["tokens_in"] == 200
    assert summary["stages"]["plan"]["on_the_path"]["calls"] == 1 and summary["stages"]["plan"]["failed"] == 1
    assert found.busy == {"a": 4.0, "b": 2.0}


def test_a_run_without_calls_costs_nothing(tmp_path: Path) -> None:
    assert costs(tmp_path).as_json()["calls_per_accepted"] is None


def test_time_in_flight_side_by_side_counts_once() -> None:
    assert covered([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0), (5.2, 5.4)]) == 4.0
