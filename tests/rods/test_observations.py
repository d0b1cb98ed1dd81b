"""Records of rollouts: what a trainer may report, and what is refused with a word about the
field."""

from __future__ import annotations

from typing import Any

import pytest

from rods.faults import LABELS
from rods.observations import Rollout

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
