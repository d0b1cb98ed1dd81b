"""The pool as a fold of decisions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest

from rods.buffers.folds.attempts import known_starts
from rods.buffers.folds.pool import Member, Pool, initial
from rods.buffers.log.tail import Tail
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS, POOL
from rods.stored_tasks import Columns, Tasks

STRANGE = ({"origin": "variant"}, {"origin": "variant", "generation": "two"})


def injected(task: str, seq: int, epoch: int, step: int) -> dict[str, Any]:
    variant = {"type": "base", "generation": 1, "pick": "p"}
    return {
        "kind": "injected",
        "task": task,
        "expanded": seq,
        "epoch": epoch,
        "step": step,
        **variant,
    }


def retired(task: str, rule: str, epoch: int, step: int) -> dict[str, Any]:
    return {"kind": "retired", "task": task, "rule": rule, "epoch": epoch, "step": step}


def closing(epoch: int, step: int, **made: int) -> dict[str, Any]:
    return {"kind": "epoch", "attempt": 1, "epoch": epoch, "step": step, "stage": 1, "counts": made}


def pool(*records: dict[str, Any]) -> Pool:
    found = Pool([Member("original", "base", 0)])
    for record in records:
        found.apply(record)
    return found


def test_what_was_injected_is_active_since_its_merge() -> None:
    found = pool(injected("v", 7, epoch=2, step=30), closing(2, 30, injected=1))
    assert found.active["v"] == Member("v", "base", 1, epoch=2, since=30, seq=7)
    assert [member.task_id for member in found.generated] == ["v"]
    assert (len(found.active), len(found.generated)) == (2, 1)
    assert (found.injected, found.decided, found.epochs[-1].step) == ({"v": 7}, {7}, 30)


def test_what_was_refused_is_decided_about_and_nothing_else() -> None:
    found = pool({"kind": "refused", "task": "", "expanded": 3, "epoch": 1, "step": 9})
    assert (found.decided, found.injected, list(found.active)) == ({3}, {}, ["original"])


@pytest.mark.parametrize(
    "rule", ["burn_in", "drift_too_hard", "drift_mastered", "truncated", "unsampled", "capacity"]
)
def test_what_was_too_hard_may_come_back_and_the_rest_is_gone(rule: str) -> None:
    found = pool(
        injected("v", 7, 1, 10), retired("v", rule, 2, 20), closing(2, 20, injected=1, retired=1)
    )
    again = rule in ("burn_in", "drift_too_hard")
    assert (
        "v" not in found.active
        and ("v" in found.revivable) is again
        and found.gone("v") is not again
    )
    assert found.retired == 1 and found.injected == {"v": 7}
    if again:
        found.apply({"kind": "revived", "task": "v", "epoch": 3, "step": 30})
        # seen since it was retired
        assert found.active["v"] == Member("v", "base", 1, epoch=3, since=20, seq=7)
        assert not found.revivable and not found.gone("v")
    assert not found.gone("original") and not found.gone("never seen")


def test_a_copy_goes_its_own_way() -> None:
    one = pool(injected("v", 7, 1, 10))
    other = one.copy()
    for record in (
        retired("v", "burn_in", 2, 20),
        injected("w", 8, 2, 20),
        closing(2, 20, injected=1),
    ):
        other.apply(record)
    assert (list(one.active), one.revivable, one.injected, one.decided) == (
        ["original", "v"],
        {},
        {"v": 7},
        {7},
    )
    assert one.epochs == [] and one.latest is None and not one.totals


def test_a_given_variant_stays_a_variant(past: Run) -> None:
    original, *_ = past.training.values()
    provenance = {"origin": "variant", "generation": 2}
    inherited = dataclasses.replace(original, provenance=provenance)
    others = [dataclasses.replace(original, provenance=made) for made in STRANGE]
    lines = [(0, b"", task) for task in (original, inherited, *others)]
    run = dataclasses.replace(past, tasks=Tasks(Columns.of(past.path, lines)))
    assert [member.generation for member in initial(run)] == [0, 2, 0, 0]


def folded(run: Run, merges: Iterable[tuple[dict[str, Any], list[dict[str, Any]]]]) -> Pool:
    found = Pool(initial(run))
    for closing, decisions in merges:
        for record in (*decisions, closing):
            found.apply(record)
    return found


def test_merges_end_in_their_epoch_records_and_dropped_ones_are_left_out(past: Run) -> None:
    every = list(Tail(past.path / POOL).groups())
    assert all(closing["kind"] == "epoch" for closing, _ in every)
    starts = known_starts(past.path / OBSERVATIONS)
    live = [(closing, decisions) for closing, decisions in every if starts.counts(closing)]
    assert len(live) < len(every)
    assert [closing["epoch"] for closing, _ in live] == list(range(len(live)))
    found = folded(past, live)
    assert len(found.epochs) == len(live) and found.latest == live[-1][0]
    said = live[-1][0]["counts"]
    assert (len(found.active), len(found.generated)) == (said["active"], said["generated"])
