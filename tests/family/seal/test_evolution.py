"""Which components an evolving interface shows: thresholds, one change a step, and the same from
the same labels."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, get_args

import orjson
import pytest

from rods.config import Curriculum, Stage
from rods.family.seal.evolution import ANSWERS, Change, Evolution
from rods.family.seal.settings import Component
from rods.faults import LABELS, SUCCESSES

FULL = Curriculum(stages=(Stage(interface="seal-full", evolve="all"),), evolve_steps=3)


def step(*labels: str, stage: int = 1) -> list[dict[str, Any]]:
    """The groups of a step, as they stand in the log: two rollouts a group."""
    half = len(labels) // 2
    rollouts: list[dict[str, Any]] = [
        {"labels": list(part)} for part in (labels[:half], labels[half:])
    ]
    return [{"stage": stage, "rollouts": rollouts}, {"stage": stage, "rollouts": [{}]}]


def shares(label: str, share: float, of: int = 100) -> list[str]:
    many = round(share * of)
    return [label] * many + ["pass"] * (of - many)


def folded(
    curriculum: Curriculum, steps: Sequence[Sequence[dict[str, Any]]]
) -> tuple[Evolution, list[Change | None]]:
    evolution = Evolution(curriculum)
    changes = []
    for groups in steps:
        before = evolution.shown
        told = evolution.closing(groups).get("evolved")
        evolution.apply(1, groups)
        change = None if told is None else Change(**told)
        assert evolution.shown == before ^ ({change.component} if change else set())
        changes.append(change)
    return evolution, changes


def test_a_component_appears_at_one_threshold_and_goes_below_another() -> None:
    steps = [
        step(*shares("instance_mismatch", share)) for share in (0.09, 0.11, 0.07, 0.03, 0.03, 0.03)
    ]
    evolution, changes = folded(FULL, steps)
    # over three steps: 9, 10, 9, 7, 13/3, 3 %
    assert changes == [
        None,
        Change("scope", True, 0.1, 200),
        None,
        None,
        Change("scope", False, 0.043333333333, 300),
        None,
    ]
    assert evolution.shown == frozenset()


@pytest.mark.parametrize("label", [label for label in LABELS if label not in SUCCESSES])
def test_every_failure_brings_what_answers_it_one_a_step(label: str) -> None:
    steps = [step(*shares(label, 1.0))] * 14
    evolution, changes = folded(FULL, steps)
    assert (
        evolution.shown
        == {name for name, labels in ANSWERS.items() if label in labels}
        != frozenset()
    )
    assert [change is not None for change in changes] == [True] * len(evolution.shown) + [False] * (
        14 - len(evolution.shown)
    )


def test_guidelines_answer_table_6_one_to_one() -> None:
    """002 Table 6: each of its failures has a guideline of its own, and each guideline a
    failure."""
    table = {
        "spurious_tool_call",
        "empty_turn_model_response",
        "state_mismatch",
        "instance_mismatch",
        "response_mismatch",
    }
    stage = Stage(interface="seal-full")
    assert len(stage.evolving) == len(table)
    assert sorted(next(iter(ANSWERS[name] & table)) for name in stage.evolving) == sorted(table)
    assert set(ANSWERS) == set(get_args(Component))


def test_the_share_farthest_beyond_its_threshold_goes_first() -> None:
    labels = ["instance_mismatch"] * 30 + ["state_mismatch"] * 50 + ["pass"] * 20
    _, changes = folded(FULL, [step(*labels)] * 2)
    assert [change and change.component for change in changes] == ["state_aware", "scope"]


def test_steps_without_labels_change_nothing() -> None:
    evolution, changes = folded(FULL, [[{"stage": 1, "rollouts": [{}]}], step(), []])
    assert changes == [None, None, None] and evolution.shown == frozenset()


def test_only_what_the_stage_lets_come_and_go_may_change() -> None:
    stages = (
        Stage(epochs=1),
        Stage(interface="seal-full", without=("scope",), epochs=1),
        Stage(interface="seal-full"),
    )
    bad = shares("instance_mismatch", 0.5)
    evolution, changes = folded(
        Curriculum(stages=stages),
        [step(*bad), step(*bad, stage=2), step(*bad, stage=3), step(*bad, stage=1)],
    )
    assert [change and change.component for change in changes] == [None, None, "scope", None]
    fixed = Stage(interface="seal-full", evolve="none")
    assert folded(Curriculum(stages=(fixed,)), [step(*bad)] * 3)[0].shown == frozenset()
    assert evolution.shown == {"scope"}


def test_the_same_labels_give_the_same_versions_wherever_a_fold_begins() -> None:
    chance = random.Random(5)
    steps = []
    for _ in range(300):
        weights = [chance.random() ** 4 for _ in LABELS]
        steps.append(step(*chance.choices(LABELS, weights, k=40)))
    whole, changes = folded(FULL, steps)
    assert sum(change is not None for change in changes) > 50
    for cut in (1, 17, 150, 299):
        first, _ = folded(FULL, steps[:cut])
        second = Evolution(FULL)
        second.load(orjson.loads(orjson.dumps(first.state())))
        for groups in steps[cut:]:
            second.apply(1, groups)
        assert (second.shown, second.state()) == (whole.shown, whole.state())
