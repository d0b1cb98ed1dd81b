"""Windows and zones against a slow model with exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rods.config import PoolRules, Zones
from rods.rules.retirement import drift
from rods.rules.tracker import Tracker
from rods.rules.zones import zone_of

ZONES = Zones(window=3)


def record(
    step: int, rollouts: list[tuple[int, int, str]], task: str = "t", **changes: Any
) -> dict[str, Any]:
    content = {
        "kind": "group",
        "task": task,
        "step": step,
        "interface": "identity",
        "reward": {"kind": "progress", "range": [0.0, 1.0]},
        "rollouts": [
            {
                "resolved": done,
                "expected": expected,
                "binary": int(done == expected),
                "format": 0.5,
                "end": end,
            }
            for done, expected, end in rollouts
        ],
    }
    return {**content, **changes}


def played(done: list[int], expected: int = 5) -> list[tuple[int, int, str]]:
    return [(one, expected, "finished") for one in done]


def fold(*records: dict[str, Any], zones: Zones = ZONES, reward: Any = "progress") -> Tracker:
    tracker = Tracker(zones, reward)
    tracker.apply(records)
    return tracker


def test_a_mean_of_exactly_one_fifth_lies_in_the_boundary_whatever_the_group() -> None:
    """Summed as floats, of 16 rollouts some such groups fall below 0.2."""
    for shape in ([1] * 16, [0, 1, 2, 1] * 4, [5, 5, 5, 1] + [0] * 12, [4, 4, 4, 4] + [0] * 12):
        assert sum(shape) == 16
        window = fold(record(1, played(shape))).window("t")
        assert window is not None
        assert (window.latest_mean, window.zone) == (0.2, "boundary")


@pytest.mark.parametrize(
    ("done", "zone"),
    [(19, "too_hard"), (20, "boundary"), (85, "boundary"), (86, "mastered"), (0, "too_hard")],
)
def test_zones_have_their_bounds_inside_the_boundary(done: int, zone: str) -> None:
    assert fold(record(1, [(done, 100, "finished")])).zone("t") == zone


def test_the_zone_reads_the_latest_group_and_the_mean_the_window() -> None:
    window = fold(
        record(1, played([5, 5])), record(2, played([0, 0])), record(7, played([2, 4]))
    ).window("t")
    assert window is not None
    assert window.zone == "boundary"
    assert (window.mean, window.latest_mean, window.last_step, window.count) == (
        round(8 / 15, 12),
        0.6,
        7,
        3,
    )
    assert window.trend == round(0.6 - 1, 12)


def test_variance_is_that_inside_groups_so_a_task_that_moved_on_has_none() -> None:
    window = fold(record(1, played([0, 0])), record(2, played([5, 5]))).window("t")
    assert window is not None
    assert window.variance == 0
    window = fold(record(1, played([0, 5])), record(2, played([5, 5]))).window("t")
    assert window is not None
    assert window.variance == 0.125


def test_a_group_with_fewer_than_half_of_its_rollouts_valid_changes_no_statistics() -> None:
    broken = [(0, 5, "infrastructure")] * 3 + [(0, 5, "finished")]
    tracker = fold(record(1, played([4, 4, 4, 4])), record(2, broken))
    window = tracker.window("t")
    assert window is not None
    assert (window.mean, window.zone, window.last_step) == (0.8, "boundary", 1)
    assert tracker.last_step("t") == 2


def test_rollouts_cut_by_length_are_left_out_and_half_of_them_make_the_task_truncated() -> None:
    cut = (0, 5, "length")
    window = fold(record(1, [*played([5, 3, 4]), cut])).window("t")
    assert window is not None
    assert (window.latest_mean, window.zone) == (0.8, "boundary")
    half = fold(record(1, [*played([0, 0]), cut, (0, 5, "context")]))
    assert half.zone("t") == "truncated"
    assert half.standing("t", 0).latest == "truncated"
    most = fold(record(1, played([5] * 4)), record(2, [cut, cut, cut, *played([0])]))
    assert most.zone("t") == "truncated"
    assert most.standing("t", 0).groups == 1
    assert fold(record(1, [cut] * 4), record(2, played([2] * 4))).zone("t") == "boundary"


def test_format_rewards_have_windows_of_their_own_and_no_zone() -> None:
    formatted = {"kind": "format", "range": [0.0, 2.0]}
    tracker = fold(record(1, played([0, 0]), reward=formatted))
    assert tracker.window("t") is None
    assert tracker.zone("t") is None
    assert tracker.last_step("t") == 1
    [window] = tracker.windows("t")
    assert (window.reward, window.mean, window.zone) == ("format", 0.25, None)


def test_what_is_no_count_of_turns_opens_another_window_and_begins_anew() -> None:
    value, judged = ({"kind": kind, "range": [-1.0, 1.0]} for kind in ("value", "rubric"))
    half = record(2, played([500_000] * 4, 1_000_000), reward=value)
    cut = record(3, [*played([0] * 3, 1_000_000), (0, 1_000_000, "infrastructure")], reward=value)
    rubric = record(4, played([2, 1], 2), reward=judged)
    binary = record(5, played([5, 4]), reward={"kind": "binary", "range": [0.0, 1.0]})
    tracker = fold(record(1, played([5, 5])), half, cut)
    window = tracker.window("t")
    assert window is not None
    assert (window.reward, window.mean, window.count, window.best) == (
        "value",
        0.285714285714,
        2,
        0.5,
    )
    assert (tracker.zone("t"), tracker.standing("t", 0).groups) == ("too_hard", 2), (
        "the mastered group is another's"
    )
    for later, kind, average, count in ((rubric, "rubric", 0.75, 1), (binary, "progress", 0.95, 2)):
        tracker.apply([later])
        window = tracker.window("t")
        assert window is not None and (window.reward, window.mean, window.count) == (
            kind,
            average,
            count,
        )
        assert window.zone == tracker.zone("t") is not None
    again = Tracker(ZONES)
    again.restore(tracker.snapshot())
    again.apply([half])
    kept = [(one.reward, one.groups) for one in again.windows("t")]
    assert kept == [("progress", 2), ("value", 3), ("rubric", 1)]


def test_the_boundary_can_be_read_from_binary_success() -> None:
    groups = record(1, played([5, 5, 5, 4]))
    window = fold(groups, reward="binary").window("t")
    assert window is not None
    assert (window.reward, window.mean, window.zone) == ("binary", 0.75, "boundary")
    assert fold(groups).zone("t") == "mastered", "as the same group's progress says"


def test_binary_success_finds_the_boundary_only_and_retirement_still_reads_progress() -> None:
    groups = record(1, played([4, 4, 4, 4])), record(2, played([5, 3, 3, 3]))
    plain = fold(*groups)
    binary = fold(*groups, reward="binary")
    for after in (0, 1):
        one = plain.standing("t", after)
        other = binary.standing("t", after)
        assert (one.groups, one.mean, one.variance) == (other.groups, other.mean, other.variance)
    assert binary.standing("t", 1).latest == binary.zone("t") == "boundary"
    assert [(window.reward, window.zone) for window in binary.windows("t")] == [
        ("binary", "boundary"),
        ("progress", None),
    ]
    assert fold(groups[0], reward="binary").standing("t", 0).latest == "too_hard"


def test_another_interface_opens_another_window() -> None:
    tracker = fold(record(1, played([5, 5])), record(2, played([1, 1]), interface="hints-1"))
    window = tracker.window("t")
    assert window is not None
    assert (window.lineage, window.count, window.mean) == ("hints-1", 1, 0.2)
    assert len(list(tracker.windows("t"))) == 2


def test_versions_of_one_lineage_share_a_window_and_retire_what_one_version_would() -> None:
    """40 variants that the policy masters, 25 groups each: 1,000 versions of one lineage, and one
    version."""
    rules = PoolRules()
    tasks = [f"t{number:02d}" for number in range(40)]
    plays = [
        (step, tasks[step % 40], played([5, 5, 4 if step < 400 else 5])) for step in range(1, 1001)
    ]
    many, one, split = (
        fold(*(record(step, done, task, **shown(step)) for step, task, done in plays))
        for shown in (
            lambda step: {"interface": f"seal:{step}", "lineage": "seal"},
            lambda step: {"interface": "seal"},
            lambda step: {"interface": f"seal:{step}"},
        )
    )
    standings = [[tracker.standing(task, 0) for task in tasks] for tracker in (many, one)]
    assert standings[0] == standings[1] and not any(standing.switched for standing in standings[0])
    retired = [
        [drift(task, tracker.standing(task, 0), rules) for task in tasks]
        for tracker in (many, one, split)
    ]
    assert retired[0] == retired[1] and None not in retired[0]
    assert retired[2] == [None] * 40, "each version by itself has seen a single group"
    assert [len(tracker.snapshot()["rows"]) for tracker in (many, one)] == [40, 40]
    taken = Tracker(ZONES)
    taken.restore(many.snapshot())
    assert list(taken.windows()) == list(many.windows()) == list(one.windows())


def test_another_lineage_opens_another_window_whatever_its_version() -> None:
    tracker = fold(
        record(1, played([5, 5]), interface="seal:a", lineage="seal"),
        record(2, played([1, 1]), interface="seal:a", lineage="seal+hints-1"),
    )
    assert [window.lineage for window in tracker.windows("t")] == ["seal", "seal+hints-1"]
    assert tracker.standing("t", 0).switched and tracker.standing("t", 0).groups == 1


def test_a_standing_counts_only_later_steps() -> None:
    tracker = fold(record(3, played([5, 5])), record(4, played([0, 0])), record(9, played([1, 4])))
    assert tracker.standing("t", 4).groups == 1
    assert (tracker.standing("t", 4).mean, tracker.standing("t", 4).latest) == (0.5, "boundary")
    assert tracker.standing("t", 9) == tracker.standing("nobody", 0)


def test_many_tasks_keep_their_own_windows() -> None:
    tracker = fold(
        *(record(step, played([step % 6]), task=f"t{step % 500}") for step in range(1, 2001))
    )
    for number in range(500):
        window = tracker.window(f"t{number}")
        assert window is not None
        steps = [step for step in range(1, 2001) if step % 500 == number][-3:]
        assert window.mean == round(sum(step % 6 for step in steps) / 15, 12)


groups = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from(["finished", "finished", "step_limit", "length", "infrastructure"]),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(groups, min_size=1, max_size=8), st.sampled_from([4, 5, 7]))
def test_statistics_are_those_of_a_slow_exact_model(history: list[Any], expected: int) -> None:
    records = [
        record(step, [(done, expected, end) for done, end in rollouts])
        for step, rollouts in enumerate(history, 1)
    ]
    window = fold(*records).window("t")
    counted: list[list[Fraction]] = []
    truncated = False
    any_zone = False
    for rollouts in history:
        valid = [
            Fraction(done, expected) for done, end in rollouts if end in ("finished", "step_limit")
        ]
        cut = sum(end == "length" for _, end in rollouts)
        is_counted = 2 * len(valid) >= len(rollouts)
        is_truncated = 2 * cut >= len(rollouts)
        if is_counted:
            counted.append(valid)
        if is_counted or is_truncated:
            truncated = is_truncated
            any_zone = True
    if not any_zone:
        assert window is None
        return
    assert window is not None
    kept = counted[-3:]
    pooled = [value for values in kept for value in values]
    assert window.mean == (round(float(sum(pooled) / len(pooled)), 12) if pooled else 0)
    inside = []
    for values in kept:
        mean = sum(values) / len(values)
        inside.append(sum((value - mean) ** 2 for value in values) / len(values))
    assert window.variance == pytest.approx(
        float(sum(inside) / len(inside)) if inside else 0, abs=1.1e-12
    )
    if truncated:
        assert window.zone == "truncated"
    else:
        latest = sum(kept[-1]) / len(kept[-1])
        low = Fraction(1, 5)
        high = Fraction(17, 20)
        assert window.zone == (
            "too_hard" if latest < low else "boundary" if latest <= high else "mastered"
        )


def test_uneven_expectations_in_one_group_are_averaged_exactly() -> None:
    window = fold(record(1, [(1, 2, "finished"), (2, 3, "finished")])).window("t")
    assert window is not None
    assert window.mean == round(7 / 12, 12)


WINDOW = Zones(window=3, probe="window")
single = st.tuples(st.integers(0, 4), st.integers(4, 5))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(single, min_size=1, max_size=3), min_size=1, max_size=7))
def test_the_window_probe_reads_all_rollouts_of_the_window(
    groups: list[list[tuple[int, int]]],
) -> None:
    made = [[(done, of, "finished") for done, of in group] for group in groups]
    window = fold(
        *(record(step, group) for step, group in enumerate(made, 1)), zones=WINDOW
    ).window("t")
    assert window is not None
    values = [Fraction(done, of) for group in groups[-3:] for done, of in group]
    mean = sum(values) / Fraction(len(values))
    variance = sum((value - mean) ** 2 for value in values) / Fraction(len(values))
    assert window.mean == round(float(mean), 12) and window.variance == pytest.approx(
        float(variance), abs=1e-11
    )
    assert window.zone == zone_of(window.mean, WINDOW)


def test_groups_of_one_have_no_variance_but_their_window_has() -> None:
    """004 Appendix K: what one rollout a task and step says of a boundary, its task's last steps
    say together."""
    ones = [record(step, played([done])) for step, done in enumerate([5, 0, 5], 1)]
    group, window = (fold(*ones, zones=zones) for zones in (ZONES, WINDOW))
    for tracker, zone, variance in (
        (group, "mastered", 0.0),
        (window, "boundary", round(2 / 9, 12)),
    ):
        found = tracker.window("t")
        assert found is not None
        assert (found.zone, found.variance, found.latest_mean) == (zone, variance, 1.0)
        standing = tracker.standing("t", 0)
        assert (standing.latest, standing.variance, standing.groups) == (zone, variance, 3)
    assert window.standing("t", 2).latest == "mastered"  # of what came after step 2 alone


def test_a_standing_tells_that_a_task_was_shown_otherwise_before() -> None:
    groups = (
        record(2, played([1, 1]), interface="hints-1"),
        record(5, played([1, 1])),
        record(5, played([1]), task="u"),
    )
    whole = fold(*groups)
    taken = Tracker(ZONES)
    taken.restore(whole.snapshot())
    for tracker in (whole, taken):
        assert [tracker.standing("t", after).switched for after in (0, 1, 2)] == [True, True, False]
        assert (tracker.standing("t", 0).groups, tracker.standing("u", 0).switched) == (1, False)
