"""Scoring with local weights: the trainer's rollout engine on a checkpoint's policy folder (torch)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from evaluation.engines import Scored
from rods import dialects
from rods.canonical import keyed_random
from rods.config import Config
from rods.environments.loading import Environments
from rods.episode.drivers import Job
from rods.episode.engine import Trace
from rods.episode.goals import SharedGroundTruth
from rods.episode.rewards import score
from rods.tasks import Task
from trainer.engines.local import LocalEngine

BATCH = 256  # rollouts in lock-step; a constant, because the draws of a rollout are keyed by its place in a batch


class LocalWeights:
    """A causal language model with its tokenizer, on a GPU if there is one, in the number format of `[operation]`."""

    def __init__(self, config: Config, folder: Path, environments: Environments) -> None:
        self.config, self.environments = config, environments
        self.engine = LocalEngine.load_alone(folder, config.rollouts, config.operation, config.policy.kind)

    def rollouts(self, tasks: Sequence[Task], count: int) -> Iterator[tuple[Task, list[Scored]]]:
        policy, seed = self.config.policy, self.config.random_seeds.rollouts
        dialect = dialects.load(policy.dialect, self.config.curriculum.stages[-1].prompt)
        per_batch = max(1, BATCH // count)
        for first in range(0, len(tasks), per_batch):
            part = tasks[first : first + per_batch]
            jobs = []
            for task in part:
                environment = self.environments.load(task.environment.name)
                goal = SharedGroundTruth(environment, task)
                job = Job(task, environment, dialect, goal, max_steps=self.config.rollouts.max_steps)
                jobs += [job] * count
            key = keyed_random(seed, "held_out", first).getrandbits(63)
            samples = self.engine.rollouts(jobs, random_seed=key)
            for index, task in enumerate(part):
                traces = [sample.trace for sample in samples[index * count : (index + 1) * count]]
                yield task, [Scored(score(trace, "progress"), _official(task, trace)) for trace in traces]


def _official(task: Task, trace: Trace) -> bool | None:
    if task.environment.name != "bfcl":
        return None
    from evaluation.bfcl.verdicts import of_trace

    return of_trace(task, trace)["official"]
