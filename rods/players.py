"""Who plays a task's world, user and judge while its episodes run.

Ground truth, checks and scripts need nobody, and a persona is played by the procedural user.
Whatever else is played, a feature plays (`PLAYERS`)."""

from collections.abc import Callable, Iterable
from typing import Protocol

from rods import dialects
from rods.canonical import Texts
from rods.config import Config, Stage
from rods.dialects import Dialect
from rods.environments.loading import Environments
from rods.episode.drivers import Job, Parts
from rods.episode.goals import goal_of
from rods.extension import Door
from rods.interfaces import IDENTITY, Interface
from rods.tasks import AnyTask


class Player(Protocol):
    """What a feature plays of the episodes of one run, or of one evaluation."""

    @property
    def outside(self) -> Texts:
        """The parts that somebody outside of the process plays, a model say."""

    def parts(self, task: AnyTask) -> Parts:
        """The fields of a `Job` of `task` that it plays. Raises UserError where it cannot."""


# by environments and configuration (None: defaults) (001)
PLAYERS: Door[Callable[[Environments, Config | None], Player]] = Door("players")


class Players:
    """Those of one run, or of one evaluation. `environments`: its worlds; `config` says who plays
    (None: defaults)."""

    def __init__(self, environments: Environments, config: Config | None = None) -> None:
        self.environments = environments
        self.others = [player(environments, config) for player in PLAYERS]

    @property
    def outside(self) -> Texts:
        return tuple(part for player in self.others for part in player.outside)

    def job(
        self, task: AnyTask, dialect: Dialect, *, interface: Interface = IDENTITY, max_steps: int
    ) -> Job:
        """The episode of `task`, with whoever plays it. Raises UserError where nobody can."""
        environment = self.environments.load(task.environment.name)
        parts: Parts = {}
        for player in self.others:
            parts.update(player.parts(task))
        if "goal" not in parts:
            parts["goal"] = goal_of(environment, task)
        return Job(task, environment, dialect, interface=interface, max_steps=max_steps, **parts)

    def jobs(
        self, tasks: Iterable[AnyTask], config: Config, stage: Stage, interface: Interface
    ) -> list[Job]:
        """The episodes of a batch of `tasks`, `rollouts.rollouts_per_task` of each, by the prompt
        of its stage."""
        dialect = _dialect(config, stage)
        limits = config.rollouts
        jobs = [
            self.job(task, dialect, interface=interface, max_steps=limits.max_steps)
            for task in tasks
        ]
        return [job for job in jobs for _ in range(limits.rollouts_per_task)]

    def scored(self, task: AnyTask, config: Config) -> Job:
        """An episode of `task` as scoring, validation and gates play it: last stage's prompt,
        identity interface."""
        dialect = _dialect(config, config.curriculum.stages[-1])
        return self.job(task, dialect, max_steps=config.rollouts.max_steps)


def _dialect(config: Config, stage: Stage) -> Dialect:
    policy = config.policy
    return dialects.load(policy.dialect, stage.prompt, policy.model, policy.family)
