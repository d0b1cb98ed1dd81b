"""Each layer of retirement at its bounds (004 §3.4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rods.config import PoolRules
from rods.rules.retirement import burn_in, capacity, drift, revived, truncated, unsampled
from rods.rules.tracker import Standing

RULES = PoolRules()


def standing(
    mean: float, groups: int = 2, variance: float = 0.1, latest: str | None = "boundary"
) -> Standing:
    entries = tuple((step, 1, mean, mean**2, 1) for step in range(groups))
    return Standing(groups, mean, variance, latest, entries=entries)  # type: ignore[arg-type]


def test_burn_in_judges_a_variant_once_by_its_first_rewards() -> None:
    assert burn_in("v", standing(0.1, groups=1), 0, RULES) is not None
    assert burn_in("v", standing(0.2, groups=1), 0, RULES) is None
    assert burn_in("v", standing(0.1, groups=2), 1, RULES) is None
    assert burn_in("v", standing(0.0, groups=0), 0, RULES) is None
    assert burn_in("v", standing(0.1, groups=1), 0, PoolRules(burn_in=False)) is None
    two = PoolRules(burn_in_observations=2)
    assert burn_in("v", standing(0.1, groups=1), 0, two) is None
    assert burn_in("v", standing(0.1, groups=2), 1, two) is not None


def test_another_interface_makes_no_variant_new() -> None:
    lowest = standing(0.0, groups=1)
    assert burn_in("v", lowest, 0, RULES) is not None
    assert burn_in("v", replace(lowest, switched=True), 0, RULES) is None


def test_drift_retires_both_ends_after_enough_groups() -> None:
    found = drift("v", standing(0.951), RULES)
    assert found is not None
    assert (found.rule, found.mean, found.groups) == ("drift_mastered", 0.951, 2)
    found = drift("v", standing(0.199), RULES)
    assert found is not None
    assert found.rule == "drift_too_hard"
    for mean in (0.2, 0.5, 0.95):
        assert drift("v", standing(mean), RULES) is None
    assert drift("v", standing(0.99, groups=1), RULES) is None
    assert drift("v", standing(0.99), PoolRules(drift=False)) is None


def test_drift_looks_at_the_last_groups_and_not_at_what_they_followed() -> None:
    def seen(*means: float, pooled: bool = False) -> Standing:
        entries = tuple((step, 4, 4 * mean, 0.0, 1) for step, mean in enumerate(means, 1))
        return Standing(
            len(means), sum(means) / len(means), 0.1, "mastered", entries=entries, pooled=pooled
        )

    assert drift("v", seen(0.5, 1.0, 1.0), RULES) is None
    found = drift("v", seen(0.5, 1.0, 1.0, 1.0), RULES)
    assert found is not None and (found.rule, found.groups, found.mean) == (
        "drift_mastered",
        3,
        1.0,
    )
    paper = PoolRules(drift_groups=8)
    assert drift("v", seen(0.5, *[1.0] * 7), paper) is None
    assert drift("v", seen(*[1.0] * 7, 0.5), PoolRules(drift_groups=1)) is None
    assert drift("v", seen(0.5, 1.0, 1.0, 1.0, pooled=True), RULES) is None, (
        "one rollout a group says nothing"
    )


def test_a_truncated_task_is_never_retired_as_too_hard() -> None:
    assert burn_in("v", standing(0.0, groups=1, latest="truncated"), 0, RULES) is None
    assert drift("v", standing(0.0, latest="truncated"), RULES) is None
    assert drift("v", standing(1.0, latest="truncated"), RULES) is not None


def test_what_was_cut_three_times_in_a_row_goes() -> None:
    seen = standing(0.5, latest="truncated")
    decision = truncated("v", replace(seen, cut=3), RULES)
    assert decision is not None
    assert (decision.rule, decision.groups, decision.mean) == ("truncated", 2, 0.5)
    assert truncated("v", replace(seen, cut=2), RULES) is None
    assert truncated("v", replace(seen, cut=9), PoolRules(truncated_groups=0)) is None
    assert truncated("v", replace(seen, cut=1), PoolRules(truncated_groups=1)) is not None
    assert truncated("v", standing(0.0), PoolRules(truncated_groups=1)) is None


@pytest.mark.parametrize(
    ("latest", "back"),
    [("boundary", True), ("too_hard", False), ("mastered", False), (None, False)],
)
def test_only_a_boundary_result_revives(latest: str | None, back: bool) -> None:
    assert (revived("v", standing(0.5, latest=latest)) is not None) == back


def test_what_was_active_for_three_epochs_without_a_group_goes() -> None:
    nothing = standing(0, groups=0, latest=None)
    assert unsampled("v", nothing, 2, None, 5, 41, RULES) is not None
    assert unsampled("v", nothing, 3, None, 5, 41, RULES) is None
    assert unsampled("v", nothing, 2, 40, 5, 41, RULES) is not None
    assert unsampled("v", nothing, 2, 41, 5, 41, RULES) is None


def test_over_capacity_the_lowest_variance_goes_first_and_ties_go_by_id() -> None:
    observed = [
        (name, standing(0.5, variance=variance))
        for name, variance in (("c", 0.1), ("a", 0.2), ("b", 0.1))
    ]
    assert [decision.task for decision in capacity(observed, 2)] == ["b", "c"]
    assert capacity(observed, 0) == capacity(observed, -3) == []
