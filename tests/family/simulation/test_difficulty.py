"""Difficulty follows the rewards of the batch, levels follow difficulty, and draws depend on
nothing but their keys."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rods.family.simulation.difficulty import (
    RANGES,
    SOFT,
    Difficulty,
    Faced,
    batch_mean,
    level,
    levels,
)
from rods.family.simulation.settings import DIMENSIONS, DifficultyRules
from tests.family.simulation.conversations import ABLATIONS

HARD = DifficultyRules(soft=0.0)


def group(*earned: int, of: int = 2, end: str = "finished") -> dict[str, Any]:
    return {
        "role": "drawn",
        "rollouts": [{"resolved": one, "expected": of, "end": end} for one in earned],
    }


def at(value: int) -> Difficulty:
    difficulty = Difficulty(DifficultyRules())
    difficulty.load([value, None])
    return difficulty


@pytest.mark.parametrize(
    ("difficulty", "expected"),
    [  # tools, calls, turns, system, persona, ambiguity, criteria
        (1, (1, 1, 0, 0, 0, 0, 0)),
        (49, (5, 1, 0, 1, 0, 0, 1)),
        (50, (5, 2, 1, 1, 1, 1, 2)),
        (99, (9, 2, 1, 2, 1, 1, 3)),
        (100, (10, 3, 2, 3, 2, 2, 4)),
    ],
)
def test_the_levels_of_every_dimension(difficulty: int, expected: tuple[int, ...]) -> None:
    found = levels(HARD, difficulty, 0, 1, 0)
    assert (
        tuple(getattr(found, dimension) for dimension in DIMENSIONS) == expected and not found.soft
    )


def test_no_cap_keeps_a_task_from_being_solved() -> None:
    """One call a turn of tools, and one answer to each turn of the user."""
    for slot in range(300):
        found = levels(DifficultyRules(), 100, 5, 1, slot)
        user, tools, agent = found.caps
        assert (
            1 <= found.expected_turns == user <= 3
            and found.calls <= tools <= 3
            and agent == user + tools <= 6
        )
    assert levels(HARD, 1, 0, 1, 0).caps == (1, 1, 2) and levels(HARD, 100, 0, 1, 0).caps == (
        3,
        3,
        6,
    )


@pytest.mark.parametrize(("most_turns", "caps"), [(1, (1, 3, 4)), (3, (3, 3, 6)), (5, (5, 5, 10))])
def test_the_most_turns_move_the_caps(most_turns: int, caps: tuple[int, int, int]) -> None:
    """001 D.6, but that a conversation always has room for its expected calls."""
    rules = DifficultyRules(soft=0.0, most_turns=most_turns)
    assert levels(rules, 100, 0, 1, 0).caps == caps and levels(rules, 1, 0, 1, 0).caps == (1, 1, 2)


def test_the_paper_s_example_of_three_levels() -> None:
    found = [level(difficulty, 0, 2) for difficulty in range(1, 101)]
    assert found == [0] * 49 + [1] * 50 + [2]


@pytest.mark.parametrize(
    ("earned", "moved"),
    [
        ((2, 2, 2, 1), 3),
        ((2, 2, 1, 1), 0),
        ((2, 0, 1, 1), 0),
        ((1, 1, 1, 0), -3),
        ((0, 0, 0, 0), -3),
    ],
)
def test_difficulty_moves_beyond_the_thresholds_only(earned: tuple[int, ...], moved: int) -> None:
    difficulty = at(40)
    difficulty.apply(7, [group(*earned)])
    assert difficulty.value == 40 + moved
    assert difficulty.faced == Faced(7, 40, 1, sum(earned) / 4 - 1)
    again = Difficulty(DifficultyRules())
    again.load(difficulty.state())
    assert (again.value, again.faced) == (difficulty.value, difficulty.faced)
    told = difficulty.as_json()
    assert told["next"] == 40 + moved and told["last"]["levels"]["tools"] == 4


def test_difficulty_stays_between_1_and_100_and_reaches_both() -> None:
    difficulty = Difficulty(DifficultyRules())
    seen = [difficulty.value]
    for earned in [2] * 40 + [0] * 40:
        difficulty.apply(1, [group(earned)])
        seen.append(difficulty.value)
    assert seen[:34] == list(range(1, 101, 3)) and max(seen) == 100 and seen[-1] == 1
    with pytest.raises(ValueError, match="from 1 to 100"):
        difficulty.load([0, None])


def test_an_exact_threshold_is_not_crossed_by_rounding() -> None:
    """0.5 stands for 3 of 4 earned: summed as floats in thirds and sevenths it may come out on
    either side."""
    groups = [group(*([2] * 7), of=3), group(*([5] * 4 + [6] * 3), of=7)]
    assert batch_mean([group(3, of=4)] * 7) == 0.5
    assert batch_mean(groups) == pytest.approx(2 * (14 / 3 + 38 / 7) / 14 - 1, abs=1e-12)


def test_rollouts_that_say_nothing_move_nothing() -> None:
    mixed = group(2) | {"rollouts": group(2)["rollouts"] + group(0, 0, end="length")["rollouts"]}
    for groups, value in (
        ([], 40),
        ([group(0, 0, end="infrastructure")], 40),
        ([group(0, 0, end="length"), group(2, 2)], 43),
        ([mixed], 40),  # one of three is valid: the group does not count
        # what the pool's tasks earn is not asked
        ([group(0, 0) | {"role": "active"}, group(2, 2)], 43),
    ):
        difficulty = at(40)
        difficulty.apply(1, groups)
        assert difficulty.value == value


def test_without_the_curriculum_everything_is_hardest_and_stays_so() -> None:
    rules = DifficultyRules(adaptive=False)
    difficulty = Difficulty(rules)
    difficulty.apply(1, [group(0, 0)])
    assert difficulty.value == 100
    for slot in range(50):
        found = levels(rules, difficulty.value, 3, 1, slot)
        assert all(getattr(found, dimension) == RANGES[dimension][1] for dimension in DIMENSIONS)


@pytest.mark.parametrize("ablated", ABLATIONS)
def test_an_ablated_dimension_is_hardest_and_leaves_the_others_alone(ablated: str) -> None:
    whole = DifficultyRules()
    without = DifficultyRules(hardest=ABLATIONS[ablated])
    for slot in range(200):
        one = levels(whole, 60, 0, 1, slot)
        other = levels(without, 60, 0, 1, slot)
        for dimension in DIMENSIONS:
            expected = (
                RANGES[dimension][1] if dimension in ABLATIONS[ablated] else getattr(one, dimension)
            )
            assert getattr(other, dimension) == expected


def test_half_of_the_draws_are_soft_and_spread_evenly_below_the_difficulty() -> None:
    drawn = [levels(DifficultyRules(), 100, 11, slot // 16, slot % 16) for slot in range(10_000)]
    soft = [one for one in drawn if one.soft]
    assert len(soft) / len(drawn) == pytest.approx(0.5, abs=0.015)
    for dimension in DIMENSIONS:
        low, high = RANGES[dimension]
        values = [getattr(one, dimension) for one in soft]
        if dimension not in SOFT:
            assert set(values) == {high}
            continue
        for value in range(low, high + 1):
            assert values.count(value) / len(values) == pytest.approx(
                1 / (high - low + 1), abs=0.02
            )
    assert all(
        getattr(one, name) == RANGES[name][1]
        for one in drawn
        if not one.soft
        for name in DIMENSIONS
    )


def test_a_draw_depends_on_seed_step_and_slot_alone() -> None:
    keys = [(seed, step, slot) for seed in range(3) for step in range(5) for slot in range(16)]
    first = {key: levels(DifficultyRules(), 80, *key) for key in keys}
    random.Random(0).shuffle(keys)
    assert {key: levels(DifficultyRules(), 80, *key) for key in keys} == first
    assert len(set(first.values())) > 60


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"soft": 1.5}, "less than or equal to 1"),
        ({"up_above": -0.1}, "must not lie above"),
        ({"hardest": ("luck",)}, "should be 'tools', 'calls'"),
    ],
)
def test_impossible_rules_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        DifficultyRules(**wrong)
    with pytest.raises(ValueError, match="between 1 and 100"):
        levels(DifficultyRules(), 101, 0, 1, 0)
