"""What a batch is made of, by what its tasks have earned."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from bench.schedule import TRAINERS, area
from rods.family.schedule.standings import MILLION, Rules, Seen, Standings, choose

ROLLOUTS = 8


def trained(
    rules: Rules, rate: Callable[[int, int], float], steps: int, domains: Sequence[str] = ("",)
) -> tuple[Standings, list[list[tuple[str, str]]]]:
    """Forty tasks, whose pass rates are `rate(task, step)`."""
    standings = Standings(rules, {str(task): domains[task % len(domains)] for task in range(40)})
    rng = random.Random(5)
    batches = []
    for step in range(1, steps + 1):
        batch = choose(standings, step, rules.batch_tasks)
        standings.draw(step, [task for task, _ in batch])
        groups = []
        for task, _ in batch:
            passed = sum(rng.random() < rate(int(task), step) for _ in range(ROLLOUTS))
            groups.append((task, Seen(step - 1, ROLLOUTS, passed * MILLION)))
        standings.observe(step, groups)
        batches.append(batch)
    return standings, batches


def share(batches: Sequence[Sequence[tuple[str, str]]], tasks: range) -> float:
    """Of the draws, that of these tasks."""
    drawn = [int(task) in tasks for batch in batches for task, _ in batch]
    return sum(drawn) / len(drawn)


def test_what_is_solved_or_hopeless_is_hardly_drawn() -> None:
    rules = Rules(batch_tasks=8, stuck_groups=0)
    standings, batches = trained(rules, lambda task, _: (0.0, 0.5, 0.5, 1.0)[task // 10], 40)
    assert share(batches[8:], range(10, 30)) > 0.9
    retired = Counter(standings.tasks[str(task)].retired for task in range(40))
    assert retired["too_hard"] in range(10, 13)
    assert retired["mastered"] in range(10, 13)
    assert (
        share(
            trained(rules.model_copy(update={"uniform": True}), lambda *_: 0.5, 40)[1],
            range(10, 30),
        )
        == 0.5
    )


def test_uniform_draws_each_once_before_any_comes_twice() -> None:
    _, batches = trained(Rules(batch_tasks=8, uniform=True), lambda *_: 0.5, 10)
    for turn in (batches[:5], batches[5:]):
        assert len({task for batch in turn for task, _ in batch}) == 40
    assert batches[:5] != batches[5:]


def test_the_target_moves_with_the_steps() -> None:
    rules = Rules(batch_tasks=8, target=0.8, retire_rollouts=0, stuck_groups=0)
    falling = rules.model_copy(update={"target_end": 0.2, "target_steps": 30})
    high = share(trained(rules, lambda task, _: (0.2, 0.8)[task // 20], 60)[1][30:], range(20, 40))
    low = share(trained(falling, lambda task, _: (0.2, 0.8)[task // 20], 60)[1][30:], range(20))
    assert high > 0.65
    assert low > 0.65


def test_domains_have_their_shares() -> None:
    rules = Rules(batch_tasks=5, shares={"a": 0.5, "b": 0.3})
    _, batches = trained(rules, lambda *_: 0.5, 20, ("a", "b", "c", "d"))
    drawn = Counter("abcd"[int(task) % 4] for batch in batches for task, _ in batch)
    assert drawn["a"] in range(50, 55)
    assert drawn["b"] in range(30, 35)


@pytest.mark.parametrize("least", [0.0, 0.1])
def test_a_share_below_a_domains_part_holds(least: float) -> None:
    rules = Rules(batch_tasks=5, shares={"a": least})
    _, batches = trained(rules, lambda *_: 0.5, 20, ("a", "b"))
    drawn = Counter("ab"[int(task) % 2] for batch in batches for task, _ in batch)
    assert drawn["a"] in range(round(100 * least), round(100 * least) + 2)


@pytest.mark.parametrize(
    "rules",
    [
        {"plateau_gain": float("nan")},
        {"reward_range": (0.0, float("inf"))},
        {"reward_range": (1.0, 0.0)},
        {"mastered_from": 0.5, "too_hard_to": 0.5},
        {"target_steps": 5},
    ],
)
def test_rules_that_no_log_could_say_or_no_reward_fits_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Rules(**rules)


def test_unseen_and_retired_tasks_have_a_floor() -> None:
    rules = Rules(batch_tasks=8, unseen=0.25, retests=0.25, stuck_groups=0)
    _, batches = trained(rules, lambda task, _: (0.0, 0.5)[task // 20], 30)
    assert all(sum(role == "unseen" for _, role in batch) >= 2 for batch in batches[:4])
    assert all(sum(role == "retest" for _, role in batch) >= 2 for batch in batches[15:])


def test_a_retired_task_comes_back_when_its_rollouts_disagree() -> None:
    rules = Rules(batch_tasks=8, retests=0.5)
    standings, batches = trained(rules, lambda task, step: 0.5 * (step > 20), 60)
    assert all(role == "retest" for _, role in batches[15])
    assert sum(standing.retired == "too_hard" for standing in standings.tasks.values()) < 4


def test_what_never_gains_is_told_from_what_is_learnt() -> None:
    rules = Rules(batch_tasks=8, mastered_from=1.0)
    learnt = trained(rules, lambda task, step: 0.5 if task < 8 else min(0.95, step / 60), 60)[0]
    stuck = {task for task in range(40) if learnt.tasks[str(task)].retired == "stuck"}
    assert len(stuck & {*range(8)}) >= 5
    assert len(stuck - {*range(8)}) <= 3


def test_one_group_says_nothing_of_a_gain() -> None:
    standings, _ = trained(
        Rules(batch_tasks=8, stuck_groups=1, retire_rollouts=0), lambda *_: 0.5, 20
    )
    assert {each.retired for each in standings.tasks.values()} <= {"", "stuck"}


def test_on_a_plateau_all_are_seen_anew() -> None:
    rules = Rules(batch_tasks=8, window=20, stuck_groups=0)
    standings, batches = trained(rules, lambda task, _: (0.0, 0.5)[task // 20], 60)
    assert standings.profiled >= 40
    roles = Counter(role for batch in batches[40:] for _, role in batch)
    assert roles["profile"] > 20
    due = {int(task) for batch in batches[40:] for task, role in batch if role == "profile"}
    assert due & {*range(20)}  # the retired ones, too
    rising = trained(rules, lambda task, step: min(1.0, step / 60), 60)[0]
    assert rising.profiled == 0


def test_an_old_groups_weight_fades() -> None:
    rules = Rules(batch_tasks=1, window=10, unseen=0.0, retests=0.0)
    standings = Standings(rules, {"old": "", "new": ""})
    standings.observe(1, [("old", Seen(0, 8, 7 * MILLION)), ("new", Seen(0, 8, 4 * MILLION))])
    late = Counter(choose(standings, step, 1)[0][0] for step in range(12, 400))
    assert 0.4 < late["old"] / late.total() < 0.6  # nothing is known of either any more
    near = Counter(choose(_with_seed(standings, seed), 2, 1)[0][0] for seed in range(200))
    assert near["new"] > 130


def _with_seed(standings: Standings, seed: int) -> Standings:
    standings.rules = standings.rules.model_copy(update={"random_seed": seed})
    return standings


@pytest.mark.slow
def test_a_learner_gains_more_where_half_is_solved_or_hopeless() -> None:
    ratio = area("logistic", True, 0, TRAINERS["schedule"]) / area(
        "logistic", True, 0, TRAINERS["uniform"]
    )
    assert ratio > 1.25
