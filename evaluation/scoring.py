"""Statistics of held-out scores: means with intervals, and differences paired over the same tasks.

The task is the unit: rollouts of one task are averaged first, and the standard error is taken over tasks. Pairing the
same tasks (and the same rollout seeds) at both ends removes what makes tasks easy or hard. Intervals are 95 %, from
Student's t, of which there is none below two tasks; those of verdicts are Wilson's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NORMAL = 1.959964  # the 0.975 quantile of the normal distribution


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `tasks` tasks, its standard error, and its 95 % interval [low, high]."""

    mean: float
    standard_error: float
    low: float
    high: float
    tasks: int

    def as_json(self) -> dict[str, Any]:
        """JSON has no infinity: the interval of a single task is null."""
        known = math.isfinite(self.standard_error)
        return {
            "mean": self.mean,
            "standard_error": self.standard_error if known else None,
            "interval": [self.low, self.high] if known else None,
            "tasks": self.tasks,
        }


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of `values`, one a task. Below two tasks the interval is infinite. Raises ValueError for none."""
    if not values:
        raise ValueError("no task to average")
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean, math.inf, -math.inf, math.inf, count)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
    half = t_quantile(count - 1) * error
    return Estimate(mean, error, mean - half, mean + half, count)


def share(values: Sequence[float]) -> Estimate:
    """The mean of verdicts (0 or 1, or their mean over a task's samples), one a task, with Wilson's interval, which
    has a width even where all are 0. Raises ValueError for none."""
    if not values:
        raise ValueError("no task to average")
    count, square = len(values), NORMAL**2
    mean = math.fsum(values) / count
    middle = (mean + square / (2 * count)) / (1 + square / count)
    half = NORMAL / (1 + square / count) * math.sqrt(mean * (1 - mean) / count + square / (4 * count**2))
    error = math.sqrt(mean * (1 - mean) / count)
    return Estimate(mean, error, max(0.0, middle - half), min(1.0, middle + half), count)


def paired(before: Mapping[str, float], after: Mapping[str, float]) -> Estimate:
    """The mean of after − before over tasks. Raises ValueError when the two do not score the same tasks."""
    if before.keys() != after.keys():
        raise ValueError(f"not paired: {len(before.keys() ^ after.keys())} tasks were scored only once")
    return estimate([after[task] - before[task] for task in sorted(before)])


def t_quantile(freedom: int) -> float:
    """The 0.975 quantile of Student's t with `freedom` ≥ 1 degrees of freedom."""
    from scipy.special import stdtrit  # late: 0.2 s that a command line's help need not take

    return float(stdtrit(freedom, 0.975))
