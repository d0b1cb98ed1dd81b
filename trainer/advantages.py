"""Advantages: the reward of a rollout against a baseline, and the hook that may reweight it.
docs/training.md says what the combinations of baseline and scale are known as (GRPO, Dr. GRPO,
RLOO, REINFORCE++).

An infrastructure failure has no reward (NaN): it counts in no mean and gets the advantage 0.

A hook, `training.advantage_hook = "package.module:function"`, is called once a step with an
AdvantageEstimate and returns new advantages, one a rollout or one a token: the place for
diagnosis-guided weights (002).
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rods.canonical import frozen, rounded
from rods.config import Config
from rods.episode.engine import Trace
from rods.errors import UserError
from rods.functions import named_function
from rods.observations import Group, Role, Rollout
from rods.tasks import AnyTask

Array = NDArray[np.float64]
Baseline = Literal["group", "leave_one_out", "batch"]
Scale = Literal["group", "batch", "none"]
EPSILON = 1e-4  # added to a standard deviation before dividing, as TRL does
_HOOK = "training.advantage_hook"


@frozen
class RolloutView:
    """One rollout as a hook gets it. `trace` holds calls, results, error kinds and verdicts of its
    turns; `turns` are the [start, end) of each turn's replies in tokens of the completion, which
    has `tokens` of them, `replies` those of each reply."""

    task: AnyTask
    role: Role
    rollout: Rollout
    trace: Trace
    turns: tuple[tuple[int, int], ...]
    tokens: int
    replies: tuple[tuple[int, int], ...] = ()


@frozen
class AdvantageEstimate:
    """A step before the hook. `rewards` (NaN: none) and `advantages` are [groups, rollouts], in the
    order of `rollouts`."""

    rewards: Array
    advantages: Array
    rollouts: tuple[RolloutView, ...]


# New advantages: an array [groups, rollouts], or one array a rollout with a value for each token of
# its completion.
Hook = Callable[[AdvantageEstimate], Array | Sequence[Array]]


def advantages(rewards: Array, baseline: Baseline, scale: Scale) -> Array:
    """Advantages of `rewards` [groups, rollouts]; 0 where a reward is NaN, and where fewer than two
    are compared. Standard deviations are the unbiased ones."""
    # groups without a reward have no mean
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        centred = rewards - _baseline(rewards, baseline)
        if scale != "none":
            axis = 1 if scale == "group" else None
            centred = centred / (np.nanstd(rewards, axis=axis, ddof=1, keepdims=True) + EPSILON)
    return np.nan_to_num(centred, nan=0.0, posinf=0.0, neginf=0.0)


def _baseline(rewards: Array, baseline: Baseline) -> Array:
    if baseline != "leave_one_out":
        return np.asarray(
            np.nanmean(rewards, axis=1 if baseline == "group" else None, keepdims=True)
        )
    scored = ~np.isnan(rewards)
    total = np.nansum(rewards, axis=1, keepdims=True)
    others = scored.sum(axis=1, keepdims=True) - 1
    return np.asarray(
        (total - np.where(scored, rewards, 0.0)) / np.where(others > 0, others, np.nan)
    )


def load_hook(name: str) -> Hook | None:
    """The hook called `name`; None for an empty name. Raises UserError when there is no such
    function."""
    return named_function(name, where=_HOOK) if name else None


def of_groups(groups: Sequence[Group], config: Config) -> AdvantageEstimate:
    """The estimate of the groups that are trained on, by a run's settings; no views."""
    settings = config.training
    earnings = [
        [rollout.reward for rollout in group.rollouts] for group in groups if not group.replaced
    ]
    rewards = np.array(earnings, dtype=np.float64)  # None becomes NaN
    values = advantages(rewards, settings.advantage_baseline, settings.advantage_scale)
    return AdvantageEstimate(rewards, values, ())


def reweighted(estimate: AdvantageEstimate, hook: Hook | None) -> list[Array]:
    """The advantages to train on, one array a rollout: of length 1 (the same for all tokens) or one
    value a token. Raises UserError when the hook answers with another shape, or with anything but
    finite numbers."""
    if hook is None:
        return list(estimate.advantages.reshape(-1, 1))
    answer = hook(estimate)
    if isinstance(answer, np.ndarray) and answer.shape == estimate.advantages.shape:
        answer = answer.reshape(-1, 1)
    by_rollout = [np.asarray(part, dtype=np.float64) for part in answer]
    if len(by_rollout) != len(estimate.rollouts) or any(
        part.shape not in ((1,), (seen.tokens,))
        for part, seen in zip(by_rollout, estimate.rollouts, strict=True)
    ):
        shapes = "an array [groups, rollouts] or with one array a rollout, of one value a token"
        raise UserError(f"the hook must answer with {shapes}", where=_HOOK)
    if not all(np.isfinite(part).all() for part in by_rollout):
        raise UserError("the hook answered with NaN or infinity", where=_HOOK)
    return by_rollout


def padded(rows: Sequence[Array], width: int) -> Array:
    """What `reweighted` gives as one array: a value a rollout, or where one of them has a value a
    token, [rollouts, width]."""
    if all(len(row) == 1 for row in rows):
        return np.concatenate(rows)
    return np.stack(
        [
            np.full(width, row[0]) if len(row) == 1 else np.pad(row, (0, width - len(row)))
            for row in rows
        ]
    )


def with_advantages(groups: Sequence[Group], advantages: Sequence[Array]) -> list[Group]:
    """The groups with each rollout's advantage as it is trained on, the mean over its tokens; 0 in
    groups that were replaced. `advantages` lists all rollouts of the others."""
    means = (rounded(float(values.mean())) for values in advantages)

    def of_group(group: Group) -> Group:
        rollouts = (
            replace(rollout, advantage=0.0 if group.replaced else next(means))
            for rollout in group.rollouts
        )
        return replace(group, rollouts=tuple(rollouts))

    return list(map(of_group, groups))


def turn_spans(trace: Trace, replies: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The [start, end) of each turn's replies, from those of all replies in order. Empty for a turn
    that ended before a word was written."""
    spans: list[tuple[int, int]] = []
    rest = list(replies)
    for turn in trace.turns:
        own = rest[: len(turn.steps)]
        rest = rest[len(turn.steps) :]
        at = spans[-1][1] if spans else 0
        spans.append((own[0][0], own[-1][1]) if own else (at, at))
    return tuple(spans)
