"""Seed selection: which tasks are picked, in which order, and which never are (004 §3.2, Appendix
R)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rods.config import Config, parse_config
from rods.errors import UserError
from rods.faults import End
from rods.observations import Group, Rollout
from rods.rules.curriculum import selects, stage_rules
from rods.rules.selection import TaskFacts, reachable_maximum, select, signals
from rods.rules.tracker import Tracker
from rods.rules.zones import TaskSignal, moments
from rods.tasks import TaskType


def config(**selection: Any) -> Config:
    return parse_config({"selection": selection}, where="test")


def group(task: str, resolved: list[int], expected: int = 4, **changes: Any) -> Group:
    ends: list[End] = changes.pop("ends", ["finished"] * len(resolved))
    rollouts = tuple(
        Rollout(count, expected, int(count == expected), 0.0, count / expected, end)
        for count, end in zip(resolved, ends, strict=True)
    )
    values: dict[str, Any] = {
        "stage": 1,
        "interface": "identity",
        "reward": "progress",
        "range": (0.0, 1.0),
    }
    return Group(task, rollouts=rollouts, **{**values, **changes})


def base(*names: str) -> dict[str, TaskFacts]:
    return {name: TaskFacts("base") for name in names}


def picked(
    groups: list[Group], active: dict[str, TaskFacts], rules: Config, step: int = 1, **last: int
) -> list[str]:
    return [
        pick.task for pick in select(step, signals(groups, rules.selection), active, last, rules)
    ]


def test_only_the_boundary_zone_is_picked_and_the_midpoint_comes_first() -> None:
    groups = [
        group("hard", [0, 0, 0, 3]),
        group("low", [0, 0, 2, 2]),
        group("middle", [1, 2, 2, 3]),
        group("high", [2, 3, 4, 4]),
        group("mastered", [4, 4, 4, 3]),
    ]
    active = base("hard", "low", "middle", "high", "mastered")
    assert picked(groups, active, config()) == ["middle", "low", "high"]


def test_the_bounds_belong_to_the_boundary_even_where_floats_would_miss_them() -> None:
    at_low = group("low", [1, 0, 0, 0, 0] * 3 + [1, 0, 0, 0, 0], expected=1)
    at_high = group("high", [1] * 17 + [0] * 3, expected=1)
    assert picked([at_low, at_high], base("low", "high"), config()) == ["low", "high"]
    assert moments(at_low, "progress").mean == 0.2  # type: ignore[union-attr]


def test_ties_are_broken_by_task_id_whatever_the_order_of_slots() -> None:
    groups = [group(name, [1, 3]) for name in ("c", "a", "b")]
    active = base("a", "b", "c")
    assert (
        picked(groups, active, config())
        == picked(groups[::-1], active, config())
        == ["a", "b", "c"]
    )


def test_variance_order_prefers_disagreement_over_the_midpoint() -> None:
    steady = group("steady", [2, 2, 2, 2, 1, 3])
    split = group("split", [0, 4, 4, 0, 4, 4])
    active = base("steady", "split")
    assert picked([steady, split], active, config(order="proxy")) == ["steady", "split"]
    assert picked([steady, split], active, config(order="variance")) == ["split", "steady"]


def test_a_group_without_variance_is_skipped_unless_the_papers_rule_is_asked_for() -> None:
    flat = [group("flat", [2, 2, 2, 2])]
    assert picked(flat, base("flat"), config()) == []
    assert picked(flat, base("flat"), config(skip_zero_variance=False)) == ["flat"]


def test_a_truncated_group_is_never_a_seed_not_even_at_random() -> None:
    cut = group("cut", [2, 1, 0, 0], ends=["finished", "finished", "length", "context"])
    for order in ("proxy", "variance", "random"):
        assert picked([cut], base("cut"), config(order=order)) == []


def test_cut_rollouts_and_infrastructure_failures_stay_out_of_the_statistics() -> None:
    mixed = group("a", [1, 3, 0, 0], ends=["finished", "finished", "finished", "infrastructure"])
    found = moments(mixed, "progress")
    assert found is not None and found.mean == round(4 / 12, 12)
    broken = group("b", [1, 3, 0, 0, 0], ends=["finished", "finished", *["infrastructure"] * 3])
    assert picked([broken], base("b"), config()) == []


def test_binary_boundary_reads_whole_tasks_instead_of_turns() -> None:
    partial = group("partial", [2, 2, 3, 3])  # progress 0.625, never a whole task
    whole = group("whole", [4, 0, 4, 0])
    active = base("partial", "whole")
    assert set(picked([partial, whole], active, config())) == {"partial", "whole"}
    assert picked([partial, whole], active, config(boundary="binary")) == ["whole"]


def test_retests_and_retired_tasks_are_no_candidates() -> None:
    groups = [group("retest", [1, 3], role="retest"), group("gone", [1, 3]), group("here", [1, 3])]
    assert picked(groups, base("retest", "here"), config()) == ["here"]


def test_format_rewards_are_no_evidence_of_a_boundary() -> None:
    assert (
        picked([group("a", [1, 3], reward="format", range=(0.0, 2.0))], base("a"), config()) == []
    )
    stages = [
        {"expand": True, "reward": "format", "epochs": 1},
        {"expand": False, "epochs": 1},
        {"expand": True},
    ]
    rules = parse_config({"curriculum": {"stages": stages}}, where="test")
    assert [selects(stage_rules(rules.curriculum, number)) for number in (1, 2, 3, 9)] == [
        False,
        False,
        True,
        True,
    ]


def test_each_group_of_types_has_its_quota_and_unused_places_are_not_passed_on() -> None:
    active = {f"b{i}": TaskFacts("base") for i in range(5)} | {
        f"l{i}": TaskFacts("long_context") for i in range(5)
    }
    active |= {"f0": TaskFacts("miss_func")}
    groups = [group(name, [1, 3]) for name in active]
    # ceil(6 / 3) = 2 a group
    assert picked(groups, active, config(seeds_per_step=6)) == ["b0", "b1", "f0"]
    passed = picked(groups, active, config(seeds_per_step=6, pass_on_quota=True))
    assert len(passed) == 6 and "f0" in passed
    assert len(picked(groups, active, config(seeds_per_step=16, quota=4))) == 5


def test_quotas_that_round_up_never_exceed_the_seeds_of_a_step() -> None:
    types: list[TaskType] = ["base", "miss_func", "miss_param"]
    active = {f"{kind}{i}": TaskFacts(kind) for kind in types for i in range(9)}
    groups = [group(name, [1, 3]) for name in active]
    assert len(picked(groups, active, config())) == 16  # 3 × ceil(16 / 3) = 18


def test_a_task_rests_for_the_exclusion_window() -> None:
    groups = [group("a", [1, 3])]
    rules = config(exclusion_steps=13)
    assert picked(groups, base("a"), rules, step=14, a=1) == []
    assert picked(groups, base("a"), rules, step=15, a=1) == ["a"]
    assert picked(groups, base("a"), config(exclusion_steps=0), step=2, a=1) == ["a"]


PPO: dict[str, Any] = {
    "training": {"advantage_scale": "batch"},
    "selection": {"order": "advantage"},
}


def estimated(task: str, resolved: list[int], advantages: list[float], **changes: Any) -> Group:
    made = group(task, resolved, **changes)
    rollouts = zip(made.rollouts, advantages, strict=True)
    return replace(
        made, rollouts=tuple(replace(one, advantage=advantage) for one, advantage in rollouts)
    )


def test_advantage_order_ranks_by_what_is_trained_on_whatever_the_rewards_variance() -> None:
    """A critic may know what the rewards do not show; the boundary stays the mean reward's (004
    Appendix K)."""
    groups = [
        estimated("known", [0, 4, 0, 4], [0.0, 0.0, 0.0, 0.0]),
        estimated("doubtful", [2, 2, 2, 2], [3.0, -3.0, 3.0, -3.0]),
        estimated("less so", [0, 4, 0, 4], [1.0, -1.0, 1.0, -1.0]),
        estimated("mastered", [4, 4, 4, 4], [1.0, -1.0, 1.0, -1.0]),
        group("unreported", [0, 4, 0, 4]),
    ]
    active = base(*(one.task for one in groups))
    rules = parse_config(PPO, where="test")
    assert picked(groups, active, rules) == ["doubtful", "less so"]
    (first, _) = select(1, signals(groups, rules.selection), active, {}, rules)
    assert first.score == 0.9 and first.why["advantage_variance"] == 9.0
    assert picked(groups, active, config(order="variance")) == ["known", "less so", "unreported"]


def test_advantages_of_single_rollouts_are_read_from_the_window() -> None:
    values = {**PPO, "zones": {"probe": "window"}, "rollouts": {"rollouts_per_task": 1}}
    values["pool"] = {"burn_in": False, "drift": False}
    values["training"] = {"advantage_baseline": "batch", "advantage_scale": "batch"}
    rules = parse_config(values, where="test")
    tracker = Tracker(rules.zones)
    for step, (wild, calm) in enumerate(
        [(2.0, 0.1), (-2.0, -0.1), (2.0, 0.1), (-2.0, -0.1)], start=1
    ):
        for made in (
            estimated("wild", [2], [wild]),
            estimated("calm", [2], [calm]),
            group("unreported", [2]),
        ):
            tracker.apply([{"kind": "group", "step": step, **made.as_json()}])
    windows = [
        window for task in ("wild", "calm", "unreported") if (window := tracker.window(task))
    ]
    found = [window.signal("window") for window in windows]
    assert [signal.advantage for signal in found] == [4.0, 0.01, None]
    again = Tracker(rules.zones)
    again.restore(tracker.snapshot())
    assert list(again.windows()) == list(tracker.windows())
    picks = select(9, found, base("wild", "calm", "unreported"), {}, rules)
    assert [pick.task for pick in picks] == ["wild", "calm"]
    # its advantages have none
    assert [window.zone for window in tracker.windows("wild")].count("boundary") == 1


def test_advantages_divided_by_their_group_s_deviation_say_nothing() -> None:
    with pytest.raises(UserError, match="1 for every group that disagrees"):
        config(order="advantage")
    hooked = {**PPO, "training": {"advantage_hook": "a:b"}}
    assert parse_config(hooked, where="test").training.advantage_scale == "group"


def test_seeds_lie_below_the_generation_limit() -> None:
    active = {
        "old": TaskFacts("base", 0),
        "young": TaskFacts("base", 1),
        "last": TaskFacts("base", 2),
    }
    groups = [group(name, [1, 3]) for name in active]
    assert picked(groups, active, config(max_generation=2)) == ["old", "young"]
    assert picked(groups, active, config(max_generation=1)) == ["old"]
    assert picked(groups, active, config(max_generation=0)) == ["last", "old", "young"]  # no limit


def test_random_selection_ignores_rewards_and_depends_on_nothing_but_its_key() -> None:
    groups = [group("mastered", [4, 4]), group("hard", [0, 0]), group("boundary", [1, 3])]
    active = base("mastered", "hard", "boundary", "unseen")
    rules = config(order="random", seeds_per_step=3, groups=[["base"]])
    assert set(picked(groups, active, rules)) == {"mastered", "hard", "boundary"}
    unseen = [*signals(groups, rules.selection), TaskSignal("unseen", None)]
    wide = config(order="random", candidates="pool", seeds_per_step=4, groups=[["base"]])
    assert {pick.task for pick in select(1, unseen, active, {}, wide)} == set(active)
    assert picked(groups, active, rules) == picked(groups[::-1], active, rules)
    orders = {tuple(picked(groups, active, rules, step=step)) for step in range(1, 20)}
    assert len(orders) > 3
    other = parse_config(
        {"selection": rules.selection.model_dump(), "random_seeds": {"daemon": 1}}, where="test"
    )
    assert any(
        picked(groups, active, rules, step) != picked(groups, active, other, step)
        for step in range(1, 9)
    )


def test_random_seeds_have_the_types_of_the_pool_and_no_quotas() -> None:
    kinds: list[TaskType] = ["base", "base", "long_context", "long_context", "miss_func"]
    active = {f"t{number}": TaskFacts(kinds[number % 5]) for number in range(100)}
    active |= {f"never{number}": TaskFacts("miss_param") for number in range(100)}
    unseen = [TaskSignal(task, None) for task in active]
    rules = config(
        order="random",
        candidates="pool",
        seeds_per_step=10,
        groups=[["base", "long_context"], ["miss_func"]],
    )
    drawn = Counter(
        pick.type for step in range(200) for pick in select(step, unseen, active, {}, rules)
    )
    assert sum(drawn.values()) == 2000 and drawn["miss_param"] == 0
    assert abs(drawn["miss_func"] / 2000 - 0.2) < 0.03, (
        "a fifth of the tasks, half of them by quotas"
    )


def test_a_task_that_occurs_twice_is_read_by_its_last_group_and_picked_once() -> None:
    twice = [group("a", [4, 4]), group("a", [1, 3])]
    assert picked(twice, base("a"), config()) == ["a"]
    assert picked(twice[::-1], base("a"), config()) == []


def test_the_whole_pool_is_read_from_the_trackers_windows() -> None:
    rules = config(candidates="pool")
    tracker = Tracker(rules.zones)
    cut: list[End] = ["length"] * 2
    for step, one in enumerate(
        [group("a", [4, 4]), group("a", [1, 3]), group("b", [0, 0]), group("c", [1, 3])], 1
    ):
        tracker.apply([{"kind": "group", "step": step, **one.as_json()}])
    tracker.apply([{"kind": "group", "step": 5, **group("c", [1, 3], ends=cut).as_json()}])
    candidates = [window.signal() for window in tracker.windows()]
    assert [pick.task for pick in select(6, candidates, base("a", "b", "c"), {}, rules)] == ["a"]


def test_with_the_window_as_probe_tasks_of_one_rollout_a_step_become_seeds() -> None:
    rules = parse_config(
        {
            "rollouts": {"rollouts_per_task": 1},
            "training": {"advantage_baseline": "batch", "advantage_scale": "batch"},
            "zones": {"probe": "window"},
            "pool": {"burn_in_observations": 8, "drift_observations": 8},
        },
        where="test",
    )
    tracker = Tracker(rules.zones)
    for step, (a, b) in enumerate([(4, 4), (0, 4), (4, 4)], 1):
        for one in (group("a", [a]), group("b", [b])):
            tracker.apply([{"kind": "group", "step": step, **one.as_json()}])
    seen = [window for task in ("a", "b") if (window := tracker.window(task))]
    picks = select(
        4, [window.signal(rules.zones.probe) for window in seen], base("a", "b"), {}, rules
    )
    assert [(pick.task, pick.why["variance"]) for pick in picks] == [("a", round(2 / 9, 12))]
    assert select(4, [window.signal() for window in seen], base("a", "b"), {}, rules) == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(7, 9)), min_size=1, max_size=16),
    st.booleans(),
)
def test_selection_and_tracker_read_a_group_alike(
    drawn: list[tuple[int, int]], whole: bool
) -> None:
    rollouts = tuple(
        Rollout(done, of, int(done == of), 0.0, done / of, "finished") for done, of in drawn
    )
    one = Group("a", 1, "identity", "progress", (0.0, 1.0), rollouts)
    rules = config(boundary="binary" if whole else "progress")
    tracker = Tracker(rules.zones, rules.selection.boundary)
    tracker.apply([{"kind": "group", "step": 1, **one.as_json()}])
    window = tracker.window("a")
    assert window is not None
    assert signals([one], rules.selection) == [window.signal()]


def test_a_pick_says_why() -> None:
    rules = config()
    (pick,) = select(
        7,
        signals([group("a", [1, 3])], rules.selection),
        {"a": TaskFacts("miss_func", 1)},
        {},
        rules,
    )
    assert pick.id == "7-a" and pick.type == "miss_func" and pick.score == 1.0
    assert pick.why == {
        "order": "proxy",
        "reward": "progress",
        "mean": 0.5,
        "variance": 0.0625,
        "generation": 1,
    }


@pytest.mark.parametrize(
    ("types", "changes", "reachable"),
    [
        (["base"], {}, 6),
        (["base", "long_context"], {}, 6),
        (["base", "miss_func", "miss_param"], {}, 16),
        (["base"], {"pass_on_quota": True}, 16),
        (["base", "miss_func"], {"quota": 4}, 8),
        (["base"], {"seeds_per_step": 0}, 0),
        ([], {"pass_on_quota": True}, 0),
        (["base", "miss_func"], {"order": "random"}, 16),
    ],
)
def test_the_reachable_maximum_is_what_full_batches_of_these_types_yield(
    types: list[TaskType], changes: dict[str, Any], reachable: int
) -> None:
    rules = config(**changes)
    assert reachable_maximum(rules.selection, types) == reachable
    active = {f"{kind}{i}": TaskFacts(kind) for kind in types for i in range(40)}
    assert len(picked([group(name, [1, 3]) for name in active], active, rules)) == reachable


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.lists(st.integers(0, 3), min_size=2, max_size=6)),
        max_size=40,
    ),
    st.integers(1, 6),
    st.booleans(),
)
def test_any_step_yields_distinct_active_boundary_tasks_within_the_limits(
    drawn: list[tuple[int, list[int]]], seeds: int, pass_on: bool
) -> None:
    kinds: list[TaskType] = ["base", "miss_func", "long_context"]
    active = {f"t{i}": TaskFacts(kinds[i % 3], i % 4) for i in range(0, 30, 2)}
    groups = [group(f"t{number}", resolved, expected=3) for number, resolved in drawn]
    rules = config(seeds_per_step=seeds, pass_on_quota=pass_on)
    picks = select(5, signals(groups, rules.selection), active, {}, rules)
    assert len(picks) <= seeds and len({pick.task for pick in picks}) == len(picks)
    assert [pick.score for pick in picks] == sorted((pick.score for pick in picks), reverse=True)
    for pick in picks:
        assert pick.task in active and 0.2 <= pick.why["mean"] <= 0.85 and pick.why["variance"] > 0
        assert active[pick.task].generation < 2
