"""The order of an epoch and its batches."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rods.rules.order import batch, keyed_order, order_hash, slots, steps_per_epoch

IDS = [f"t{number}" for number in range(40)]


def test_an_order_depends_on_seed_and_epoch_only() -> None:
    assert keyed_order(1, 2, IDS) == keyed_order(1, 2, reversed(IDS))
    assert sorted(keyed_order(1, 2, IDS)) == sorted(IDS)
    assert (
        len({tuple(keyed_order(seed, epoch, IDS)) for seed in range(3) for epoch in range(3)}) == 9
    )


def test_a_task_that_comes_or_goes_does_not_reshuffle_the_others() -> None:
    without = [one for one in keyed_order(1, 2, IDS) if one != "t7"]
    assert keyed_order(1, 2, [one for one in IDS if one != "t7"]) == without


def test_re_tests_are_mixed_in_and_marked() -> None:
    found = slots(1, 0, IDS, ["r1", "r2"])
    assert {slot.task_id for slot in found if slot.role == "retest"} == {"r1", "r2"}
    assert [slot.task_id for slot in found] == keyed_order(1, 0, [*IDS, "r1", "r2"])
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
