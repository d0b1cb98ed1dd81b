"""Advantage estimators, and the hook that may reweight them."""

import numpy as np
import pytest

from rods.episode.engine import StepTrace, Trace, TurnTrace
from rods.errors import UserError
from rods.observations import Rollout
from rods.trainer.advantages import (
    AdvantageEstimate,
    RolloutView,
    advantages,
    load_hook,
    reweighted,
    turn_spans,
)
from tests.trainer.nano_parts import tasks

NAN = float("nan")
REWARDS = np.array([[0.0, 0.5, 1.0, 0.5], [1.0, 1.0, 1.0, 0.0]])


def test_group_advantages_have_mean_zero_and_unit_deviation_in_every_group():
    found = advantages(REWARDS, "group", "group")
    assert np.allclose(found.mean(axis=1), 0)
    assert np.allclose(found.std(axis=1, ddof=1), 1, atol=1e-3)


def test_unscaled_advantages_keep_the_emphasis_on_groups_that_disagree_most():
    found = advantages(REWARDS, "group", "none")
    assert np.abs(found[1]).max() > np.abs(found[0]).max()


@pytest.mark.parametrize("baseline", ["group", "leave_one_out", "batch"])
@pytest.mark.parametrize("scale", ["batch", "none"])
def test_without_a_hook_groups_rank_by_the_variance_of_advantages_as_by_that_of_rewards(
    baseline, scale
):
    """What docs/configuration.md says of `selection.order`; a hook may tell more."""
    rewards = np.random.default_rng(1).integers(0, 5, (40, 8)) / 4
    by_rewards, by_advantages = (
        part.var(axis=1) for part in (rewards, advantages(rewards, baseline, scale))
    )
    assert np.ptp(by_rewards) > 0.05
    assert np.allclose(by_advantages / by_advantages.max(), by_rewards / by_rewards.max())


def test_leave_one_out_compares_with_the_others_only():
    found = advantages(REWARDS, "leave_one_out", "none")
    assert found[0, 2] == pytest.approx(1.0 - 1.0 / 3)
    assert np.allclose(found, advantages(REWARDS, "group", "none") * 4 / 3)


def test_the_batch_baseline_lets_a_whole_group_be_better_than_another():
    found = advantages(np.array([[1.0, 1.0], [0.0, 0.0]]), "batch", "batch")
    assert (found[0] > 0.8).all() and (found[1] < -0.8).all()
    assert not advantages(np.array([[1.0, 1.0], [0.0, 0.0]]), "group", "batch").any()


@pytest.mark.parametrize("baseline", ["group", "leave_one_out", "batch"])
@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_an_infrastructure_failure_counts_for_nobody(baseline, scale):
    without = advantages(np.array([[0.0, 1.0, 0.5], [0.0, 0.0, 1.0]]), baseline, scale)
    given = np.array([[0.0, 1.0, 0.5, NAN], [0.0, 0.0, 1.0, NAN], [NAN] * 4, [NAN, NAN, NAN, 0.5]])
    found = advantages(given, baseline, scale)
    assert (found[:, 3][:3] == 0).all() and (found[2] == 0).all()
    if baseline != "batch" and scale != "batch":
        assert np.allclose(found[:2, :3], without)
        assert found[3, 3] == 0  # alone in its group: nothing to compare with


def _seen(tokens: int) -> RolloutView:
    trace = Trace("t", (TurnTrace((StepTrace("a"),)),), "finished", 1)
    return RolloutView(
        tasks()[0], "active", Rollout(1, 1, 1, 0.0, 1.0, "finished"), trace, ((0, tokens),), tokens
    )


def twice(estimate: AdvantageEstimate) -> np.ndarray:
    return estimate.advantages * 2


def last_token_only(estimate: AdvantageEstimate) -> list[np.ndarray]:
    return [
        np.eye(seen.tokens)[-1] * value
        for seen, value in zip(estimate.rollouts, estimate.advantages.ravel(), strict=True)
    ]


def infinite(estimate: AdvantageEstimate) -> np.ndarray:
    return estimate.advantages / 0.0


ESTIMATE = AdvantageEstimate(REWARDS[:1, :2], np.array([[-0.5, 0.5]]), (_seen(3), _seen(2)))


def test_a_hook_may_answer_by_rollout_or_by_token():
    assert [row.tolist() for row in reweighted(ESTIMATE, None)] == [[-0.5], [0.5]]
    hook = load_hook("tests.trainer.test_advantages:twice")
    assert [row.tolist() for row in reweighted(ESTIMATE, hook)] == [[-1.0], [1.0]]
    assert [row.tolist() for row in reweighted(ESTIMATE, last_token_only)] == [
        [0, 0, -0.5],
        [0, 0.5],
    ]


def test_a_hook_with_a_wrong_answer_is_named():
    with pytest.raises(UserError, match="one value a token"):
        reweighted(ESTIMATE, lambda estimate: [np.zeros(9), np.zeros(9)])
    with np.errstate(divide="ignore"), pytest.raises(UserError, match="NaN or infinity"):
        reweighted(ESTIMATE, infinite)
    with pytest.raises(UserError, match="has no 'missing'"):
        load_hook("tests.trainer.test_advantages:missing")


def test_turn_spans_cover_the_replies_of_each_turn():
    steps = (StepTrace("a"), StepTrace("b"))
    trace = Trace("t", (TurnTrace(steps), TurnTrace(steps[:1]), TurnTrace(steps[:1])), "context", 3)
    assert turn_spans(trace, [(0, 4), (9, 12), (20, 25)]) == ((0, 12), (20, 25), (25, 25))
