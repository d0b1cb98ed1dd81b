"""The rewards of an episode. A kind of reward names its function and its range in `REWARDS`; there
is no other way in.

- progress: resolved turns ÷ expected turns (000 §3.4). The denominator counts the turns that the
  task *has*, so an episode that was cut after one good turn does not score 1. Where an episode is
  judged as a whole, its checks count in place of turns, or the points that a rubric gives.
- binary: every expected turn was resolved.
- format, format_codes, toolrl, exact_calls: of the form of replies and of their calls
  (rods.episode.form_rewards).
- progress_format (000 §4.3, the baseline of direct GRPO), range 0–1: 0.9 · progress + 0.1 · (N −
  malformed)/N, the first term of eq. 1.
- rubric (001 §2.2.3), range −1–1: 2 · progress − 1, so −1, 0 and 1 for the 0, 1 and 2 of 2 that a
  rubric gives."""

from collections.abc import Callable, Mapping

from rods.canonical import frozen
from rods.episode.engine import Trace
from rods.episode.form_rewards import (
    Terms,
    Truth,
    exact_calls,
    format_codes,
    format_reward,
    toolrl,
    well_formed,
)
from rods.observations import FORMAT_REWARDS, EpisodeReward, Rollout

PROGRESS_SHARE = 0.9  # of progress_format; the rest is the format's (000 §4.3)


def score(trace: Trace, kind: EpisodeReward, truth: Truth = ()) -> Rollout:
    """The record of an episode; `kind` chooses what is trained on. None is the reward of an
    infrastructure failure. `truth` is for kinds that compare calls. Raises ValueError for an
    unknown kind, and for a `truth` that lacks turns which the kind needs."""
    reward = REWARDS.get(kind)
    if reward is None:
        raise ValueError(f"unknown reward kind {kind!r}; there are {', '.join(REWARDS)}")
    form = reward.form(trace)
    return Rollout(
        resolved=trace.resolved,
        expected=trace.expected,
        binary=trace.binary,
        format=sum(form),
        reward=None if trace.end == "infrastructure" else reward.of(trace, truth),
        end=trace.end,
        call_format=form[1] if kind in FORMAT_REWARDS else None,
    )


def progress(trace: Trace) -> float:
    """000 §3.4, in [0, 1]."""
    return trace.resolved / trace.expected


@frozen
class Reward:
    """A kind of reward: its (lowest, highest) value, what an episode earns, and what its record has
    as `format`, in two parts: of replies and of calls."""

    range: tuple[float, float]
    of: Callable[[Trace, Truth], float]
    form: Callable[[Trace], Terms] = format_reward


def _of_replies(trace: Trace) -> Terms:
    return well_formed(trace), 0.0


REWARDS: Mapping[EpisodeReward, Reward] = {
    "progress": Reward((0.0, 1.0), lambda trace, truth: progress(trace)),
    "binary": Reward((0.0, 1.0), lambda trace, truth: float(trace.binary)),
    "format": Reward((0.0, 2.0), lambda trace, truth: sum(format_reward(trace))),
    "format_codes": Reward((0.0, 2.0), lambda trace, truth: sum(format_codes(trace)), format_codes),
    "progress_format": Reward(
        (0.0, 1.0),
        lambda trace, truth: (
            PROGRESS_SHARE * progress(trace) + (1 - PROGRESS_SHARE) * well_formed(trace)
        ),
        _of_replies,
    ),
    "toolrl": Reward((-3.0, 4.0), toolrl, _of_replies),
    "exact_calls": Reward((0.0, 1.0), exact_calls, _of_replies),
    "rubric": Reward((-1.0, 1.0), lambda trace, truth: 2 * progress(trace) - 1),
}
# kinds that need ground-truth calls
COMPARES_CALLS: frozenset[EpisodeReward] = frozenset({"toolrl", "exact_calls"})
RANGES: Mapping[EpisodeReward, tuple[float, float]] = {
    kind: reward.range for kind, reward in REWARDS.items()
}
