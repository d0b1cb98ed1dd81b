"""The central signal: what a group of rollouts says about its task, and the zone that follows (004
§3.2). It is read from `resolved` and `expected` (or `binary`), never from `reward`, which is what
was trained on and may be shaped. These are counts, so their sums are exact integers over a common
denominator; format rewards, mapped to [0, 1], and advantages are summed by `math.fsum`. Results are
rounded to 12 decimals before any comparison: a group whose mean is exactly 1/5 must never fall
below a bound of 0.2."""

import math
from collections.abc import Iterable, Sequence
from operator import mul
from typing import Literal, NamedTuple, get_args

from rods.canonical import JsonMapping, rounded
from rods.config import Zones
from rods.faults import CUT_ENDS, INVALID_ENDS, End
from rods.observations import FORMAT_REWARDS, Group

Zone = Literal["too_hard", "boundary", "mastered", "truncated"]
ZONES: tuple[Zone, ...] = get_args(Zone)
BoundaryReward = Literal["progress", "binary"]
# A group in numbers: its step, its valid rollouts, the sum and the squares of their rewards ×
# scale, and this scale. For counts, sum and squares are integers below 2^53 and the scale is the
# common denominator; otherwise it is 1.
Entry = tuple[int, int, float, float, int]


class Moments(NamedTuple):
    """Mean and population variance over a group's valid rollouts, rounded to 12 decimals."""

    mean: float
    variance: float


class TaskSignal(NamedTuple):
    """What the latest group of a task, or its window, says. `moments` is None where that gives no
    zone (not counted, or scored by a format reward). A `truncated` task is never a seed and
    never retired as too hard. `advantage` is the variance of its advantage estimates, where the
    trainer reports them (004 Appendix K)."""

    task: str
    moments: Moments | None
    truncated: bool = False
    advantage: float | None = None


def zone_of(mean: float, zones: Zones) -> Zone:
    """The zone of a mean reward that was rounded to 12 decimals. Both bounds belong to the boundary
    (004 B.1)."""
    if mean < zones.boundary_low:
        return "too_hard"
    return "boundary" if mean <= zones.boundary_high else "mastered"


def counted_and_truncated(ends: Sequence[End]) -> tuple[bool, bool]:
    """Whether a group counts whose rollouts ended so (half of them or more are valid), and whether
    it is truncated (half of them or more were cut by length)."""
    valid = sum(end not in INVALID_ENDS for end in ends)
    cut = sum(end in CUT_ENDS for end in ends)
    return 2 * valid >= len(ends), 2 * cut >= len(ends)


def group_signal(group: Group, reward: BoundaryReward) -> TaskSignal:
    """What one group says, by its progress or by its binary reward."""
    counted, truncated = counted_and_truncated([rollout.end for rollout in group.rollouts])
    usable = counted and group.reward not in FORMAT_REWARDS
    if not usable:
        return TaskSignal(group.task, None, truncated)
    estimates = [
        rollout.advantage
        for rollout in group.rollouts
        if rollout.valid and rollout.advantage is not None
    ]
    spread = variance([(0, len(estimates), *share_sums(estimates, 0, 1))]) if estimates else None
    return TaskSignal(group.task, moments(group, reward), truncated, advantage=spread)


def moments(group: Group, reward: BoundaryReward) -> Moments | None:
    """Those of the group's progress (resolved ÷ expected turns) or binary reward; None without a
    valid rollout."""
    rollouts = [rollout for rollout in group.rollouts if rollout.valid]
    if not rollouts:
        return None
    counts = [
        (valid.binary, 1) if reward == "binary" else (valid.resolved, valid.expected)
        for valid in rollouts
    ]
    entry = (0, len(rollouts), *count_sums(*zip(*counts, strict=True)))
    return Moments(mean([entry]), variance([entry]))


def count_sums(counts: Sequence[int], limits: Sequence[int]) -> tuple[int, int, int]:
    """The sum of `counts[i] / limits[i]` and that of their squares, times their common denominator
    and its square, and that denominator. Needs one count at least."""
    scale = limits[0]
    if any(limit != scale for limit in limits):  # only other trainers report such groups
        scale = math.lcm(*limits)
        counts = [count * (scale // limit) for count, limit in zip(counts, limits, strict=True)]
    return sum(counts), sum(map(mul, counts, counts)), scale


def plain_sums(rollouts: Sequence[JsonMapping]) -> tuple[int, int, int] | None:
    """`count_sums` of the progress in a group's records, in one pass: all rollouts finished and of
    one length, as nearly every group is. None for other groups."""
    scale = rollouts[0]["expected"]
    total = squares = 0
    for rollout in rollouts:
        if rollout["end"] != "finished" or rollout["expected"] != scale:
            return None
        resolved = rollout["resolved"]
        total += resolved
        squares += resolved * resolved
    return total, squares, scale


def share_sums(rewards: Iterable[float], low: float, high: float) -> tuple[float, float, int]:
    """Sum and squares of rewards of the range [low, high], mapped to [0, 1], and the scale 1."""
    shares = [(reward - low) / (high - low) for reward in rewards]
    return math.fsum(shares), math.fsum(map(mul, shares, shares)), 1


def mean(entries: list[Entry]) -> float:
    """Over all rollouts of `entries`; 0 for none."""
    if not entries:
        return 0.0
    scale = entries[0][4]
    valid = sum(entry[1] for entry in entries)
    if all(entry[4] == scale for entry in entries):
        return rounded(math.fsum(entry[2] for entry in entries) / (valid * scale))
    return rounded(math.fsum(entry[2] / entry[4] for entry in entries) / valid)


def variance(entries: list[Entry]) -> float:
    """The population variance inside each group, averaged over groups; 0 for none."""
    if not entries:
        return 0.0
    inside = [
        (valid * squares - total * total) / (valid * scale) ** 2
        for _, valid, total, squares, scale in entries
    ]
    return max(0.0, rounded(math.fsum(inside) / len(inside)))


def pooled_variance(entries: list[Entry]) -> float:
    """The population variance over all rollouts of all groups; 0 for none."""
    if not entries:
        return 0.0
    valid = sum(entry[1] for entry in entries)
    scale = math.lcm(*(entry[4] for entry in entries))
    total = math.fsum(entry[2] * (scale // entry[4]) for entry in entries)
    squares = math.fsum(entry[3] * (scale // entry[4]) ** 2 for entry in entries)
    return max(0.0, rounded((valid * squares - total * total) / (valid * scale) ** 2))
