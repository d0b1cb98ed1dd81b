"""How a saved policy is rolled out for scoring: by its own engine, always through the identity interface.

An engine yields, task by task, the scored rollouts of a policy. Draws depend on the run's random seed
for rollouts, the task's place and the rollout's index, never on the checkpoint: scores of two checkpoints are paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rods.config import Config
from rods.environments.loading import Environments
from rods.observations import Rollout
from rods.tasks import Task
from trainer import simulated


@dataclass(frozen=True, slots=True)
class Scored:
    """One rollout. `official` is the benchmark's own verdict, where the task belongs to one and a trace was made: it
    skips turns in which no call is right, `rollout.binary` demands abstention there."""

    rollout: Rollout
    official: bool | None = None


class Engine(Protocol):
    """A policy at rest."""

    def rollouts(self, tasks: Sequence[Task], count: int) -> Iterator[tuple[Task, list[Scored]]]:
        """`count` rollouts of each task, in the order of `tasks`."""
        ...


def load(config: Config, policy: Path, environments: Environments) -> Engine:
    """The engine for the files that a checkpoint holds in `policy`. Raises UserError when they do not fit."""
    if config.policy.kind == "simulated":
        return Simulated(config, policy)
    from evaluation.local_weights import LocalWeights  # torch only where weights are

    return LocalWeights(config, policy, environments)


class Simulated:
    """The simulated policy's chances, drawn like its training rollouts but never with their keys."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.policy = simulated.SimulatedPolicy(config)
        self.policy.load(folder)

    def rollouts(self, tasks: Sequence[Task], count: int) -> Iterator[tuple[Task, list[Scored]]]:
        seed = self.policy.config.random_seeds.rollouts
        for task in tasks:
            chance = simulated.turn_chance(task, self.policy.skill)
            keys = [(seed, "held_out", task.id, index) for index in range(count)]
            yield task, [Scored(simulated.rollout(task, chance, "progress", *key)) for key in keys]
