"""Staging: what waits, in which order, and contents from the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from rods.buffers.folds.pool import Staging
from rods.buffers.log.record_bytes import record
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, expanded_segment
from tests.buffers.histories import records
from tests.buffers.world import variants

PICKS = [(3, 1, 0), (1, 1, 0), (2, 0, 1), (2, 0, 0), (1, 0, 0)]  # step, rank, index


def staged(folder: Path) -> Staging:
    writer = LogWriter(folder / expanded_segment(0), log=folder / EXPANDED)
    for (step, rank, index), task in zip(PICKS, variants(len(PICKS)), strict=True):
        pick = {"pick": f"{step}-{rank}", "index": index, "step": step, "rank": rank}
        writer.append([record("expanded", **pick, task=task.as_json(), time=0.0)])
    writer.close()
    return Staging(folder)


def seqs(staging: Staging, upto: int = 99, *, by_pick: bool = False) -> list[int]:
    return [one.seq for one in staging.candidates(upto, by_pick=by_pick)]


def test_what_waits_comes_in_the_order_of_the_log_or_of_the_picks(tmp_path: Path) -> None:
    staging = staged(tmp_path)
    assert (len(staging), staging.seq) == (0, 0)
    staging.poll()
    assert (len(staging), staging.seq) == (5, 5)
    assert seqs(staging) == [1, 2, 3, 4, 5] and seqs(staging, 3) == [1, 2, 3]
    assert seqs(staging, by_pick=True) == [5, 2, 4, 3, 1] and seqs(staging, 4, by_pick=True) == [
        2,
        4,
        3,
        1,
    ]


def test_what_is_decided_waits_no_more_whether_it_was_read_before_or_after(tmp_path: Path) -> None:
    early = staged(tmp_path)
    late = Staging(tmp_path)
    early.poll()
    for seq in (2, 4, 77):
        early.decide(seq)
    late.poll({2, 4, 77})
    assert seqs(early) == seqs(late) == [1, 3, 5] and len(late) == 3


def test_contents_are_read_from_the_log_decided_or_not(tmp_path: Path) -> None:
    staging = staged(tmp_path)
    staging.poll({2})
    assert [staging.task(seq).id for seq in range(1, 6)] == [task.id for task in variants(5)]
    assert [one.content["id"] for one in staging.candidates(99, by_pick=False)] == [
        task.id for place, task in enumerate(variants(5)) if place != 1
    ]
    with pytest.raises(KeyError):
        staging.task(6)


@settings(
    max_examples=25, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(st.data())
def test_it_comes_to_the_same_however_often_it_looked(
    past: Run, tmp_path_factory: Any, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("staging")
    parts = sorted(past.path.glob(EXPANDED))
    follower = Staging(folder)
    decided = {one["expanded"] for one in records(past, "pool.jsonl") if "expanded" in one}
    for part in parts:
        content = part.read_bytes()
        for size in sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=3))):
            (folder / part.name).write_bytes(content[:size])
            follower.poll()
        (folder / part.name).write_bytes(content)
    follower.poll()
    for seq in decided:
        follower.decide(seq)
    once = Staging(past.path)
    once.poll(decided)
    assert follower.seq == once.seq == len(records(past, EXPANDED))
    for by_pick in (False, True):
        assert seqs(follower, by_pick=by_pick) == seqs(once, by_pick=by_pick)
