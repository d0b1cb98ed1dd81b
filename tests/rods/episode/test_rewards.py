"""Rewards follow their formulas (000 §3.2 and §3.4, 004 Appendix H)."""

import pytest

from rods.calls import Call
from rods.environments.base import Result
from rods.episode.engine import StepTrace, Trace, TurnTrace, Verdict
from rods.episode.rewards import score

OK, REFUSED = Result("ok"), Result("no", error="tool")
UNKNOWN, WRONG, BROKEN = (Result("x", error=kind) for kind in ("unknown_tool", "bad_arguments", "infrastructure"))
YES, NO = Verdict(True, True), Verdict(True, False)


def step(*results, error=None, in_call=False):
    return StepTrace("text", tuple(Call("f") for _ in results), results, error, in_call)


def trace(*turns, end="finished", expected=None):
    return Trace("id", tuple(TurnTrace(tuple(steps), verdict) for steps, verdict in turns), end, expected or len(turns))


def test_progress_counts_expected_turns_not_closed_ones():
    cut = trace(([step(OK)], YES), ([step()], None), end="length", expected=4)
    rollout = score(cut, "progress")
    assert (rollout.resolved, rollout.expected, rollout.binary, rollout.reward) == (1, 4, 0, 0.25)
    assert not rollout.valid


def test_binary_needs_every_turn():
    assert score(trace(([step(OK)], YES), ([step(OK)], YES)), "binary").reward == 1.0
    assert score(trace(([step(OK)], YES), ([step(OK)], NO)), "binary").reward == 0.0


def test_infrastructure_failures_have_no_reward_under_any_kind():
    broken = trace(([step(BROKEN)], None), end="infrastructure", expected=2)
    assert [score(broken, kind).reward for kind in ("progress", "binary", "format", "format_codes")] == [None] * 4


@pytest.mark.parametrize(
    ("steps", "format_reward", "codes"),
    [
        ([step()], 0.0, 0.0),  # no call was made
        ([step(OK), step()], 2.0, 2.0),
        ([step(OK), step(error="bad")], 0.5 + 1.0, 0.5 + 1.0),
        ([step(OK), step(error="bad JSON", in_call=True)], 0.5 + 1.0, 1.0 + 0.5),  # a schema error (004 Appendix H)
        ([step(error="bad JSON", in_call=True)], 0.0, 1.0 + 0.0),  # a call was tried
        ([step(OK, WRONG), step()], 1.0 + 0.5, 1.0 + 0.0),
        ([step(REFUSED), step()], 1.0 + 1.0, 1.0 + 0.0),  # a refused call is well formed, but did not execute
        ([step(UNKNOWN), step()], 1.0 + 0.0, 1.0 + 0.0),  # neither correct nor wrong arguments: 0/0 is 0
    ],
)
def test_format_rewards(steps, format_reward, codes):
    episode = trace((steps, YES))
    assert score(episode, "format").reward == format_reward
    assert score(episode, "format_codes").reward == codes
