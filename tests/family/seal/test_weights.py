"""SEAL's weights: their formula, what they refuse, and that an update with them is that of scaled
advantages."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rods.episode.engine import Trace
from rods.errors import UserError
from rods.family.seal.weights import UTILITY, weight, weighted
from rods.faults import LABELS, Label
from rods.observations import Rollout
from rods.trainer import batches
from rods.trainer.advantages import AdvantageEstimate, load_hook, reweighted
from tests.trainer.nano_parts import saved
from tests.trainer.test_advantages import ESTIMATE
from tests.trainer.test_updates import ROLLOUTS, TASKS, train

LABELLED: list[tuple[Label, ...]] = [
    (),
    ("pass", "pass", "spurious_tool_call"),
    ("empty_turn_model_response",),
    ("instance_mismatch", "response_mismatch"),
    ("correct_abstention", "pass"),
]
BY_HAND = (1.0, 4 / 3, 1.5, 0.75, 1.4)


def test_a_weight_is_the_mean_utility_of_the_labels() -> None:
    assert [weight(labels) for labels in LABELLED] == pytest.approx(BY_HAND)
    assert set(UTILITY) == set(LABELS)


def test_the_clip_binds_with_other_utilities_alone() -> None:
    assert all(0.6 <= value <= 2.0 for value in UTILITY.values())
    extreme = {**UTILITY, "pass": 9.0, "instance_mismatch": 0.0}
    assert weight(("pass",), extreme) == 2.0
    assert weight(("instance_mismatch",), extreme) == 0.5
    assert weight(("pass", *("instance_mismatch",) * 5), extreme) == 1.5


def test_successes_are_weighted_and_no_sign_changes() -> None:
    estimate = _estimate([("correct_abstention",), ("instance_mismatch",)])
    assert [
        row.tolist() for row in reweighted(estimate, load_hook("rods.family.seal.weights:seal"))
    ] == [[-0.9], [0.3]]
    never = weighted(**dict.fromkeys(LABELS, 0.0))
    # not even then
    assert [row.tolist() for row in reweighted(estimate, never)] == [[-0.25], [0.25]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sloth": 1.0}, "unknown label 'sloth' → there are invalid_tool_call, "),
        ({"pass": -0.5}, "the weight of pass is -0.5 → give a finite number"),
        ({"pass": float("nan")}, "the weight of pass is nan"),
        ({"pass": float("inf")}, "the weight of pass is inf"),
        ({"pass": "2"}, "the weight of pass is '2'"),
        ({"pass": True}, "the weight of pass is True"),
    ],
)
def test_a_utility_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        weighted(**changes)


def _estimate(labels: list[tuple[Label, ...]]) -> AdvantageEstimate:
    views = tuple(
        replace(seen, rollout=replace(seen.rollout, labels=given))
        for seen, given in zip(ESTIMATE.rollouts, labels, strict=True)
    )
    return replace(ESTIMATE, rollouts=views)


even = weighted(**dict.fromkeys(LABELS, 1.0))


def by_hand(estimate: AdvantageEstimate) -> np.ndarray:
    """The advantages of `home`'s rollouts, scaled by what their labels weigh."""
    weights = [BY_HAND[place % len(LABELLED)] for place in range(estimate.advantages.size)]
    return np.asarray(estimate.advantages * np.array(weights).reshape(estimate.advantages.shape))


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rewards that differ, and labels of different weights: an untrained policy earns neither."""
    places = cycle(range(TASKS * ROLLOUTS))

    def earned(trace: Trace, *given: object, **options: object) -> Rollout:
        place = next(places)
        labels = LABELLED[place % len(LABELLED)]
        return Rollout(0, trace.expected, 0, 0.0, place * 7 % 11 / 11, "finished", labels=labels)

    monkeypatch.setattr(batches, "rollout_record", earned)
    folder = tmp_path_factory.mktemp("weights")
    saved(folder / "policy")
    return folder


@pytest.mark.numeric
@pytest.mark.slow
def test_an_update_with_weights_is_that_of_scaled_advantages_bit_for_bit(home: Path) -> None:
    def updated(name: str, hook: str) -> dict[str, torch.Tensor]:
        train(home / name, advantage_hook=hook, passes=1)
        last = sorted((home / name / "checkpoints").glob("step_*"))[-1]
        return load_file(last / "policy" / "model.safetensors")

    def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
        return all(torch.equal(tensor, other[name]) for name, tensor in one.items())

    plain = updated("plain", "")
    hooked = updated("seal", "rods.family.seal.weights:seal")
    assert not equal(plain, hooked)
    assert equal(hooked, updated("by_hand", f"{__name__}:by_hand"))
    assert equal(plain, updated("even", f"{__name__}:even"))  # all utilities 1
