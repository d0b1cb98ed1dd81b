"""Which groups refill a step, and which of its groups are trained on."""

from __future__ import annotations

import pytest

from rods.buffers.audit.rederivation import refilled
from rods.observations import Group, Rollout
from rods.rules.order import EpochSlot, refilling, slots, with_replaced

SLOTS = slots(0, 0, [f"t{number}" for number in range(20)], ["r1", "r2"])


def group(task: str, *rewards: float | None) -> Group:
    played = tuple(
        Rollout(0, 1, 0, 0.0, reward, "infrastructure" if reward is None else "finished")
        for reward in rewards
    )
    return Group(task, 1, "identity", "progress", (0.0, 1.0), played)


def of(pattern: str, first: int = 0) -> list[Group]:
    """Groups of the active tasks in order: `v` one that disagrees, `u` one that does not."""
    tasks = [slot.task_id for slot in SLOTS if slot.role == "active"]
    return [group(tasks[first + at], 0.0, float(kind == "v")) for at, kind in enumerate(pattern)]


def test_a_group_disagrees_by_its_rewards_and_failures_have_none() -> None:
    assert group("t", 0.0, 1.0).disagrees
    assert (
        not group("t", 0.5, 0.5).disagrees
        and not group("t", 0.5, None).disagrees
        and not group("t", None, None).disagrees
    )
    assert not group("t", 0.1 + 0.2, 0.3).disagrees


def test_a_round_has_as_many_groups_as_are_missing_of_other_active_tasks() -> None:
    groups = of("vuuv")
    chosen = refilling(0, 1, SLOTS, groups, 4)
    assert len(chosen) == 2 and all(slot.role == "active" for slot in chosen)
    assert not {slot.task_id for slot in chosen} & {one.task for one in groups}
    assert refilling(0, 1, SLOTS, of("vvvv"), 4) == []
    assert refilling(0, 1, SLOTS, [*groups, *of("vu", 4)], 4)[0].task_id not in {
        one.task for one in of("vuuvvu")
    }
    assert len({tuple(refilling(0, step, SLOTS, groups, 4)) for step in range(8)}) > 2
    assert (
        refilling(1, 1, SLOTS, groups, 4) != chosen and refilling(0, 1, SLOTS, groups, 4) == chosen
    )
    assert (
        len(refilling(0, 1, SLOTS, of("u" * 18), 18)) == 2
        and refilling(0, 1, SLOTS, of("u" * 20), 20) == []
    )
    assert refilling(0, 1, [EpochSlot("r1", "retest")], of("u"), 1) == []


@pytest.mark.parametrize(
    ("pattern", "size", "replaced"),
    [
        ("vuuv", 4, ""),  # nothing stands in
        ("vuuvvv", 4, "12"),
        ("vuuvuv", 4, "14"),  # the first of the batch that does not disagree; another one stays
        ("uuuu", 2, "23"),  # the rounds found none that does
        ("uuuvuv", 2, "0124"),
    ],
)
def test_those_are_replaced_that_others_stand_in_for(
    pattern: str, size: int, replaced: str
) -> None:
    done = with_replaced(of(pattern), size)
    assert "".join(str(at) for at, one in enumerate(done) if one.replaced) == replaced
    assert sum(not one.replaced for one in done) == size and with_replaced(done, size) == done
    assert all(Group.from_json(one.as_json()) == one for one in done)


def test_what_refills_a_recorded_step_is_derived_round_by_round() -> None:
    groups = of("vuu")
    earned = iter("uvv")
    for _ in range(3):
        rewards = [0.0, 1.0]
        groups += [
            group(slot.task_id, *(rewards if next(earned) == "v" else [1.0, 1.0]))
            for slot in refilling(0, 7, SLOTS, groups, 3)
        ]
    assert len(groups) == 3 + 2 + 1, "the last round had nothing to do"
    assert [*refilled(0, 7, SLOTS, groups, 3, 5)] == [one.task for one in groups[3:]]
    assert [*refilled(0, 7, SLOTS, groups, 3, 1)] == [one.task for one in groups[3:5]]


def test_what_is_no_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="replaced is 1"):
        Group.from_json(group("t", 0.0).as_json() | {"replaced": 1})
