"""Rewards follow their formulas (000 §3.2 and §3.4, 004 Appendix H)."""

import pytest

from rods.calls import Call
from rods.environments.base import Result
from rods.episode.engine import StepTrace, Trace, TurnTrace, Verdict
from rods.episode.rewards import RANGES, REWARDS, score
from rods.observations import REWARD_KINDS, Rollout

OK = Result("ok")
REFUSED = Result("no", error="tool")
UNKNOWN, WRONG, BROKEN = (
    Result("x", error=kind) for kind in ("unknown_tool", "bad_arguments", "infrastructure")
)
YES = Verdict(True, True)
NO = Verdict(True, False)


def step(*results, error=None, in_call=False):
    return StepTrace("text", tuple(Call("f") for _ in results), results, error, in_call)


def trace(*turns, end="finished", expected=None):
    return Trace(
        "id",
        tuple(TurnTrace(tuple(steps), verdict) for steps, verdict in turns),
        end,
        expected or len(turns),
    )


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
    assert [
        score(broken, kind).reward for kind in ("progress", "binary", "format", "format_codes")
    ] == [None] * 4


@pytest.mark.parametrize(
    ("steps", "format_reward", "codes"),
    [
        ([step()], 0.0, 0.0),  # no call was made
        ([step(OK), step()], 2.0, 2.0),
        ([step(OK), step(error="bad")], 0.5 + 1.0, 0.5 + 1.0),
        # a schema error (004 Appendix H)
        ([step(OK), step(error="bad JSON", in_call=True)], 0.5 + 1.0, 1.0 + 0.5),
        ([step(error="bad JSON", in_call=True)], 0.0, 1.0 + 0.0),  # a call was tried
        ([step(OK, WRONG), step()], 1.0 + 0.5, 1.0 + 0.0),
        # a refused call is well formed, but did not execute
        ([step(REFUSED), step()], 1.0 + 1.0, 1.0 + 0.0),
        # neither correct nor wrong arguments: 0/0 is 0
        ([step(UNKNOWN), step()], 1.0 + 0.0, 1.0 + 0.0),
    ],
)
def test_format_rewards(steps, format_reward, codes):
    episode = trace((steps, YES))
    for rollout, earned in (
        (score(episode, "format"), format_reward),
        (score(episode, "format_codes"), codes),
    ):
        assert rollout.reward == rollout.format == earned
        assert rollout.call_format is not None and 0 <= rollout.call_format <= 1
        assert Rollout.from_json(rollout.as_json()) == rollout
    assert score(episode, "progress").call_format is None


def test_what_replies_and_what_calls_earned_by_their_form_are_kept_apart():
    episode = trace(([step(OK, WRONG), step(error="bad")], NO))
    of_arguments = score(episode, "format")
    of_codes = score(episode, "format_codes")
    assert (of_arguments.format, of_arguments.call_format) == (0.5 + 0.5, 0.5)
    assert (of_codes.format, of_codes.call_format) == (0.5 + 0.0, 0.0)
    mute = score(trace(([step()], NO)), "format")
    assert (mute.format, mute.call_format) == (0.0, 0.0)


@pytest.mark.parametrize("end", ["length", "context"])
def test_a_reply_that_was_cut_is_malformed_whatever_rewards_form(end):
    cut = trace(([step(OK), step()], None), end=end)
    assert score(cut, "format").reward == score(cut, "format_codes").reward == 0.5 + 1.0
    assert score(cut, "progress_format").reward == pytest.approx(0.1 * 0.5)
    assert score(cut, "toolrl", ((),)).reward == pytest.approx(0 + 6 * 0 / 1 - 3)
    # no call was tried
    assert score(trace(([step()], None), end=end), "format_codes").reward == 0.0


def test_every_kind_names_its_function_and_range_and_no_other_is_scored():
    # that one is a trainer's own
    assert set(REWARDS) == set(RANGES) == set(REWARD_KINDS) - {"value"}
    played = trace(([step(OK)], YES))
    for kind, (low, high) in RANGES.items():
        reward = score(played, kind, ((Call("f"),),)).reward
        assert reward is not None and low <= reward <= high
    with pytest.raises(
        ValueError, match="unknown reward kind 'praise'; there are progress, binary, "
    ):
        score(played, "praise")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown reward kind 'value'"):
        score(played, "value")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("turns", "reward"),
    [
        ([([step(OK)], YES), ([step(OK)], YES)], 1.0),
        ([([step(OK)], YES), ([step(OK)], NO)], 0.9 * 0.5 + 0.1),
        ([([step(OK), step(error="bad")], YES), ([step(OK), step()], NO)], 0.9 * 0.5 + 0.1 * 0.75),
        ([([step(error="bad")], NO), ([step(error="bad")], NO)], 0.0),
    ],
)
def test_progress_with_a_tenth_of_format(turns, reward):
    found = score(trace(*turns), "progress_format")
    assert found.reward == pytest.approx(reward)


F = Call("f", {"a": 1, "b": 2})
G = Call("g", {"c": 3})


@pytest.mark.parametrize(
    ("made", "truth", "matched", "most"),
    [
        ([F], [F], 1 + 1 + 2, 4),
        ([F, G], [F, G], 1 + 2 + 3, 6),
        ([G, F], [F, G], 6, 6),  # in whatever order
        ([Call("f", {"a": 1, "b": 9})], [F], 1 + 1 + 1, 4),
        ([Call("f", {"a": 1})], [F], 1 + 1 / 2 + 1, 4),
        ([G], [F], 0, 4),
        ([], [F], 0, 4),
        ([F, G], [F], 1 / 2 + 1 + 2, 4),
        # the better of two, and one name too many
        ([Call("f", {"a": 7}), F], [F], 1 / 2 + 1 + 2, 4),
        ([], [], 1, 1),
        ([F], [], 0, 1),
    ],
)
def test_toolrl_pairs_calls_with_the_ground_truth(made, truth, matched, most):
    steps = (StepTrace("text", tuple(made), tuple(OK for _ in made)), StepTrace("done"))
    (turn,) = [TurnTrace(steps, YES)]
    assert score(Trace("id", (turn,), "finished", 1), "toolrl", (truth,)).reward == pytest.approx(
        1 + 6 * matched / most - 3
    )


def test_toolrl_counts_turns_that_were_never_reached_and_malformed_text():
    turn = TurnTrace((StepTrace("text", (F,), (OK,)), StepTrace("?", error="bad")), YES)
    cut = Trace("id", (turn,), "step_limit", 2)
    assert score(cut, "toolrl", ((F,), (G,))).reward == pytest.approx(0 + 6 * 4 / (4 + 3) - 3)
    with pytest.raises(ValueError, match="needs the ground truth of 2 turns, not of 0"):
        score(cut, "toolrl")


@pytest.mark.parametrize(
    ("made", "truth", "reward"),
    [
        ([F, G], [F, G], 1.0),
        ([G, F], [F, G], 1.0),
        ([Call("f", {"b": 2, "a": 1})], [F], 1.0),
        ([], [], 1.0),
        ([Call("f", {"a": 1, "b": 9})], [F], 0.0),
        ([F, F], [F], 0.0),
        ([F], [F, F], 0.0),
        ([F, G], [F], 0.0),
        ([], [F], 0.0),
        ([F], [], 0.0),
    ],
)
def test_exact_calls_are_those_of_the_ground_truth_and_none_besides(made, truth, reward):
    steps = (StepTrace("text", tuple(made), tuple(OK for _ in made)), StepTrace("done"))
    trace = Trace("id", (TurnTrace(steps, YES),), "finished", 1)
    assert score(trace, "exact_calls", (truth,)).reward == reward


def test_exact_calls_need_every_turn_and_no_malformed_reply():
    turn = TurnTrace((StepTrace("text", (F,), (OK,)), StepTrace("done")), YES)
    bad = TurnTrace((*turn.steps, StepTrace("?", error="bad")), YES)
    both = ((F,), (F,))
    assert score(Trace("id", (turn, turn), "finished", 2), "exact_calls", both).reward == 1.0
    assert score(Trace("id", (turn,), "step_limit", 2), "exact_calls", both).reward == 0.0
    assert score(Trace("id", (turn, bad), "finished", 2), "exact_calls", both).reward == 0.0
    assert score(Trace("id", (turn,), "finished", 2), "exact_calls", ((F,), ())).reward == 0.0
    with pytest.raises(ValueError, match="exact_calls needs the ground truth of 2 turns, not of 0"):
        score(Trace("id", (turn, turn), "finished", 2), "exact_calls")
