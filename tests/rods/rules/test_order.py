"""The order of an epoch and its batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.config import Config
from rods.rules.order import batch, head_start, order, order_hash, slots, steps_per_epoch
from rods.rules.tracker import Tracker

IDS = [f"t{number}" for number in range(40)]


def test_an_order_depends_on_seed_and_epoch_only() -> None:
    assert order(1, 2, IDS) == order(1, 2, reversed(IDS))
    assert sorted(order(1, 2, IDS)) == sorted(IDS)
    assert len({tuple(order(seed, epoch, IDS)) for seed in range(3) for epoch in range(3)}) == 9


def test_a_task_that_comes_or_goes_does_not_reshuffle_the_others() -> None:
    without = [one for one in order(1, 2, IDS) if one != "t7"]
    assert order(1, 2, [one for one in IDS if one != "t7"]) == without


def test_re_tests_are_mixed_in_and_marked() -> None:
    found = slots(1, 0, IDS, ["r1", "r2"])
    assert {slot.task_id for slot in found if slot.role == "retest"} == {"r1", "r2"}
    assert [slot.task_id for slot in found] == order(1, 0, [*IDS, "r1", "r2"])
    assert order_hash(found) != order_hash(slots(1, 0, [*IDS, "r1"], ["r2"]))


@given(st.integers(1, 60), st.integers(1, 20))
def test_the_last_batch_is_filled_from_the_front(count: int, size: int) -> None:
    items = list(range(count))
    batches = [batch(items, size, index) for index in range(steps_per_epoch(count, size))]
    assert all(len(one) == size for one in batches)
    visited = [item for one in batches for item in one]
    assert visited[:count] == items
    assert visited[count:] == (items * size)[: len(visited) - count]
    if count >= size:
        assert all(len(set(one)) == size for one in batches)
    with pytest.raises(IndexError):
        batch(items, size, len(batches))


def test_every_other_time_a_task_that_was_too_hard_gets_a_head_start() -> None:
    tracker = Tracker(Config().zones)

    def play(step: int, resolved: int, head: int = 0) -> None:
        rollouts = [{"resolved": resolved, "expected": 4, "binary": 0, "format": 0.0, "reward": 0.0, "end": "finished"}]
        tracker.apply([
            {"kind": "group", "task": "a", "step": step, "interface": "identity", "role": "active", "stage": 1,
             "head": head, "reward": {"kind": "progress", "range": [0, 1]}, "rollouts": rollouts * 2}
        ])  # fmt: skip

    def due(turns: int = 4, share: float = 0.5) -> int:
        return head_start(turns, tracker.window("a"), tracker.last_step("a"), share)

    assert due() == 0  # never met
    play(1, 0)
    assert due() == 2 and due(share=0.0) == 0
    assert (due(3, 0.1), due(3, 0.9), due(1)) == (1, 2, 0)
    play(2, 4, head=2)
    assert due() == 0 and tracker.zone("a") == "too_hard"  # what was earned after a head start is no zone
    play(3, 0)
    assert due() == 2
    play(4, 2)
    assert due() == 0 and tracker.zone("a") == "boundary"
