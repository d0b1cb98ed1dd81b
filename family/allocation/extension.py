"""What allocation adds to the configuration and to the core: how many rollouts each slot of the
next step has.

A step of n_i rollouts of task i, whose mean stands for the task, estimates the gradient with a
variance that is proportional to Σ v_i / n_i, v_i that of one rollout's reward (VIP, arXiv
2602.01601; for strata Neyman 1934). Of a fixed total each further rollout goes where it takes most
off that sum.
"""

import heapq
import math
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from rods.canonical import rounded
from rods.extension import Extension, Record, Section, StepFold

UNKNOWN = 0.25  # where no task is known: the largest variance that rewards between 0 and 1 can have
SMALLEST = 1e-6  # where all groups were alike


class AllocationSettings(Section):
    """The rollouts of a step, as many as with equal groups, divided by how much the rewards of each
    task have differed (docs/allocation.md). false: `rollouts.rollouts_per_task` for each."""

    enabled: bool = False  # whether they are divided so
    # rollouts that every task has, at most `rollouts.rollouts_per_task`
    least: int = Field(4, ge=2)
    # what a group counts for at its task's next one, of what it counted before
    discount: float = Field(0.5, gt=0, le=1)


class Variances(StepFold):
    """The fold. Of each task of the pool how many groups it has had, discounted, and the sum of
    their variances, unbiased, of rewards as shares of their range."""

    def __init__(self, discount: float) -> None:
        self._discount = discount
        self.known: dict[str, tuple[float, float]] = {}

    def state(self) -> dict[str, tuple[float, float]]:
        return self.known

    def load(self, state: dict[str, tuple[float, float]]) -> None:
        self.known = {task: (groups, total) for task, (groups, total) in state.items()}

    def apply(self, step: int, groups: Sequence[Record]) -> None:
        for group in groups:
            low, high = group["reward"]["range"]
            rewards = [
                rollout["reward"] for rollout in group["rollouts"] if rollout["reward"] is not None
            ]
            if group["role"] == "drawn" or len(rewards) < 2:
                continue
            shares = [(reward - low) / (high - low) for reward in rewards]
            mean = sum(shares) / len(shares)
            variance = sum((share - mean) ** 2 for share in shares) / (len(shares) - 1)
            count, total = (
                self._discount * before for before in self.known.get(group["task"], (0.0, 0.0))
            )
            self.known[group["task"]] = rounded(count + 1), rounded(total + variance)

    def estimates(self, tasks: Sequence[str]) -> list[float]:
        """Of each task the variance of one rollout's reward, above 0: that of its own groups and,
        as of one more, the mean of all tasks' groups."""
        groups, total = (
            map(math.fsum, zip(*self.known.values(), strict=True)) if self.known else (0.0, 0.0)
        )
        usual = max(total / groups, SMALLEST) if groups else UNKNOWN
        known = (self.known.get(task, (0.0, 0.0)) for task in tasks)
        return [(variance + usual) / (count + 1) for count, variance in known]


def divided(variances: Sequence[float], total: int, least: int) -> list[int]:
    """Rollouts of tasks with these `variances`: `total` in all and `least` each, by which Σ v_i /
    n_i is smallest; of equal gains the earlier task has the first."""
    sizes = [least] * len(variances)

    def gain(task: int) -> tuple[float, int]:
        return -variances[task] / (sizes[task] * (sizes[task] + 1)), task

    waiting = [gain(task) for task in range(len(sizes))]
    heapq.heapify(waiting)
    for _ in range(total - sum(sizes)):
        task = waiting[0][1]
        sizes[task] += 1
        heapq.heapreplace(waiting, gain(task))
    return sizes


class Allocation(Extension):
    name = "allocation"
    sections = {"allocation": AllocationSettings()}

    def validate(self, config: Any) -> None:
        rules = config.allocation
        rollouts = config.rollouts
        if not rules.enabled:
            return
        if rollouts.refill:
            fixed = "allocation.enabled divides a fixed number of rollouts"
            raise ValueError(f"{fixed}, which rollouts.refill does not have")
        if rules.least > rollouts.rollouts_per_task:
            raise ValueError(
                f"allocation.least is more than rollouts.rollouts_per_task "
                f"({rollouts.rollouts_per_task})"
            )

    def fold(self, config: Any) -> StepFold | None:
        return Variances(config.allocation.discount) if config.allocation.enabled else None

    def fold_key(self, config: Any) -> Any:
        return config.allocation.discount if config.allocation.enabled else None

    def sizes(self, fold: Any, tasks: Sequence[str], config: Any) -> Sequence[int] | None:
        if fold is None:
            return None
        total = len(tasks) * config.rollouts.rollouts_per_task
        return divided(fold.estimates(tasks), total, config.allocation.least)


EXTENSION = Allocation()
