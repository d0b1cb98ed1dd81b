"""The central signal: mean and variance are exact, whatever the rewards, and the bounds belong to
the boundary."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from rods.config import Zones
from rods.faults import End
from rods.observations import Group, Rollout
from rods.rules.zones import (
    counted_and_truncated,
    group_signal,
    mean,
    moments,
    pooled_variance,
    share_sums,
    zone_of,
)

FINISHED: End = "finished"


def group(
    drawn: list[tuple[int, int]], ends: list[End] | None = None, reward: str = "progress"
) -> Group:
    """One rollout for each (resolved, expected) turns."""
    rollouts = tuple(
        Rollout(done, of, int(done == of), 0.0, done / of, end)
        for (done, of), end in zip(drawn, ends or [FINISHED] * len(drawn), strict=True)
    )
    return Group("a", 1, "identity", reward, (0.0, 1.0), rollouts)  # type: ignore[arg-type]


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(7, 9)), min_size=1, max_size=16))
def test_moments_are_those_of_exact_fractions(drawn: list[tuple[int, int]]) -> None:
    values = [Fraction(done, of) for done, of in drawn]
    middle = sum(values, Fraction()) / len(values)
    spread = sum(((value - middle) ** 2 for value in values), Fraction()) / len(values)
    found = moments(group(drawn), "progress")
    assert found is not None
    assert found.mean == round(float(middle), 12) and found.variance == pytest.approx(
        float(spread), abs=1e-12
    )


@pytest.mark.parametrize(
    ("value", "zone"),
    [
        (0.199999999999, "too_hard"),
        (0.2, "boundary"),
        (0.5, "boundary"),
        (0.85, "boundary"),
        (0.850000000001, "mastered"),
    ],
)
def test_both_bounds_belong_to_the_boundary(value: float, zone: str) -> None:
    assert zone_of(value, Zones()) == zone


def test_a_mean_of_exactly_a_fifth_is_in_the_boundary_whatever_the_order_of_summation() -> None:
    for count in range(5, 41, 5):
        found = moments(
            group([(1, 1)] * (count // 5) + [(0, 1)] * (count - count // 5)), "progress"
        )
        assert (
            found is not None and found.mean == 0.2 and zone_of(found.mean, Zones()) == "boundary"
        )


@pytest.mark.parametrize(
    ("ends", "counted", "truncated"),
    [
        (["finished"] * 4, True, False),
        (["finished", "step_limit", "length", "context"], True, True),
        (["finished", "length", "length", "context"], False, True),
        (["finished", "infrastructure", "infrastructure", "infrastructure"], False, False),
        (["finished", "finished", "infrastructure", "length"], True, False),
    ],
)
def test_half_of_the_rollouts_decide_whether_a_group_counts_and_whether_it_is_truncated(
    ends: list[End], counted: bool, truncated: bool
) -> None:
    assert counted_and_truncated(ends) == (counted, truncated)
    signal = group_signal(group([(1, 2)] * 4, ends), "progress")
    assert (signal.moments is not None, signal.truncated) == (counted, truncated)


def test_rollouts_that_are_not_valid_stay_out_of_the_moments() -> None:
    found = moments(group([(2, 2), (0, 2), (0, 2)], ["finished", "finished", "length"]), "progress")
    assert found == (0.5, 0.25)
    assert moments(group([(2, 2)], ["length"]), "progress") is None


def test_a_binary_reward_counts_whole_tasks_and_a_format_reward_says_nothing() -> None:
    assert moments(group([(2, 2), (1, 2)]), "binary") == (0.5, 0.25)
    assert group_signal(group([(1, 2)] * 4, reward="format"), "progress").moments is None


def test_rewards_of_a_range_are_mapped_to_shares() -> None:
    total, squares, scale = share_sums([0.0, 1.0, 2.0], 0.0, 2.0)
    assert (total, squares, scale) == (1.5, 1.25, 1)
    assert mean([(1, 3, total, squares, scale)]) == 0.5


def test_groups_of_one_differ_only_when_they_are_pooled() -> None:
    entries: list[tuple[int, int, float, float, int]] = [(1, 1, 2, 4, 2), (2, 1, 0, 0, 3)]
    assert (
        mean(entries) == 0.5
        and pooled_variance(entries) == 0.25
        and mean([]) == pooled_variance([]) == 0.0
    )
