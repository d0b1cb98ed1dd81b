"""Records of rollouts: what a trainer may report, and what is refused with a word about the
field."""

from __future__ import annotations

from typing import Any

import pytest

from rods.faults import LABELS
from rods.observations import Group, Rollout

PLAYED = {
    "resolved": 1,
    "expected": 2,
    "binary": 0,
    "format": 0.0,
    "reward": 0.5,
    "end": "finished",
}


def test_labels_stand_in_the_record_only_where_they_are_given() -> None:
    assert Rollout.from_json(PLAYED).labels == ()
    assert Rollout.from_json(PLAYED).as_json() == PLAYED
    labelled = PLAYED | {"labels": ["pass", "state_mismatch"]}
    assert Rollout.from_json(labelled).labels == ("pass", "state_mismatch")
    assert Rollout.from_json(labelled).as_json() == labelled


@pytest.mark.parametrize("label", LABELS)
def test_every_label_can_be_recorded(label: str) -> None:
    assert Rollout.from_json(PLAYED | {"labels": [label]}).labels == (label,)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["pass", "sloth"], "unknown label 'sloth'; there are invalid_tool_call, "),
        (["pass", None], "unknown label None"),
        (["pass", ["pass"]], "unknown label"),
        ([""], "unknown label ''"),
        (["pass"] * 3, "a list of at most 2"),
        ("pass", "it must be a list"),
        ({"0": "pass"}, "it must be a list"),
        (None, "it must be a list"),
    ],
)
def test_a_label_that_no_turn_can_have_is_refused(labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rollout.from_json(PLAYED | {"labels": labels})


GROUP = {
    "task": "a" * 20,
    "stage": 1,
    "interface": "identity",
    "reward": {"kind": "progress", "range": [0, 1]},
    "rollouts": [PLAYED],
}
NO_NUMBERS: tuple[Any, ...] = (
    True,
    "1",
    None,
    [],
    {},
    -1,
    0.5,
    1 << 53,
    1 << 63,
    10**25,
    10**400,
    float("nan"),
)
NO_NAMES: tuple[Any, ...] = (
    1,
    None,
    [],
    {},
    "x" * 301,
    "x" * (1 << 20),
    "a\nb",
    "\ud800",
    "\x1b[2J",
)


@pytest.mark.parametrize("value", [0, *NO_NUMBERS])
def test_a_stage_is_a_number_from_1_that_every_reader_takes(value: Any) -> None:
    with pytest.raises(ValueError, match="stage is"):
        Group.from_json(GROUP | {"stage": value})


@pytest.mark.parametrize("name", ["replies", "calling"])
@pytest.mark.parametrize("value", [each for each in NO_NUMBERS if each is not None])
def test_a_count_is_a_number_that_every_reader_takes(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} is"):
        Rollout.from_json(PLAYED | {name: value})


@pytest.mark.parametrize("name", ["task", "interface", "lineage"])
@pytest.mark.parametrize("value", NO_NAMES)
def test_a_name_is_short_and_can_be_printed(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} is") as refused:
        Group.from_json(GROUP | {name: value})
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("value", [True, "1", [], {}, 10**400, -(10**400), 1e999, float("nan")])
def test_a_reward_and_its_range_are_finite_numbers(value: Any) -> None:
    for name in ("reward", "format", "advantage", "call_format"):
        with pytest.raises(ValueError, match=f"{name} (is|of)"):
            Rollout.from_json(PLAYED | {name: value})
    for bounds in ([0, value], [value, 1]):
        with pytest.raises(ValueError, match="range"):
            Group.from_json(GROUP | {"reward": {"kind": "value", "range": bounds}})


def test_turns_of_which_no_window_can_be_kept_are_refused() -> None:
    primes = (999_983, 999_979, 999_961)
    rollouts = [PLAYED | {"expected": prime} for prime in primes]
    with pytest.raises(ValueError, match="no common multiple"):
        Group.from_json(GROUP | {"rollouts": rollouts})
    with pytest.raises(ValueError, match="no common multiple"):
        Group.from_json(GROUP | {"rollouts": [PLAYED | {"expected": 1 << 53}]})
