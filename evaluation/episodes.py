"""The episodes of an evaluation: a task with its world, ground truth, and the dialect of the chosen protocol.

On BFCL the executor is the official one's equal in all protocols: hidden tools stay callable, so that the official
verdict on the outputs is the verdict on what the policy was shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from evaluation.bfcl.dialects import Native, Prompted
from evaluation.bfcl.harness import harness
from evaluation.bfcl.judging import EpisodeJudge
from evaluation.bfcl.results import outputs
from evaluation.folder import Episode, Settings
from rods import dialects
from rods.canonical import keyed_random
from rods.dialects.base import Dialect
from rods.environments.loading import Environments
from rods.episode.drivers import Job
from rods.episode.engine import MAX_STEPS, Trace
from rods.episode.rewards import score
from rods.players import Players
from rods.tasks import AnyTask, Task, scripted
from worlds.bfcl.world import Bfcl

if TYPE_CHECKING:
    from trainer.engines.local import LocalEngine

RANDOM_SEED = 0  # of all draws; a task's samples are keyed by their number
Slot = tuple[AnyTask, int]  # a task and the number of its sample


class Maker(Protocol):
    """Makes jobs for tasks, and episodes out of their traces."""

    settings: Settings

    def job(self, task: AnyTask) -> Job: ...

    def episode(self, job: Job, sample: int, trace: Trace, cut: int = 0) -> Episode:
        """The record of a finished job; `cut` of its outputs were taken although they were cut."""


def task_job(task: AnyTask, dialect: Dialect, environments: Environments) -> Job:
    """An episode of a task of any environment, as in training, without hints."""
    return Players(environments).job(task, dialect, max_steps=MAX_STEPS)


class TaskMaker:
    """The `Maker` of tasks of any environment, in a training dialect. Verdicts are those of training, and recorded
    with the conversation, which `rods-train sft --teacher` imitates."""

    def __init__(self, environments: Environments, settings: Settings) -> None:
        assert settings.protocol != "official"
        self.settings, self._environments = settings, environments
        self._dialect = dialects.load(settings.protocol, settings.system_prompt)
        self._jobs: dict[str, Job] = {}  # the samples of a task share its ground truth

    def job(self, task: AnyTask) -> Job:
        if task.id not in self._jobs:
            self._jobs[task.id] = task_job(task, self._dialect, self._environments)
        return self._jobs[task.id]

    def episode(self, job: Job, sample: int, trace: Trace, cut: int = 0) -> Episode:
        earned = score(trace, "progress").as_json()
        result = {"type": job.task.type, "rollout": earned, "trace": trace.as_json()}
        return Episode(job.task.id, sample, self.settings.results_form, result, trace.end, cut)


class EpisodeMaker:
    """The `Maker` of BFCL's tasks."""

    def __init__(self, bfcl: Bfcl, settings: Settings) -> None:
        self.settings = settings
        self.judge = EpisodeJudge(bfcl)
        self.harness = harness(bfcl.file)

    def job(self, task: AnyTask) -> Job:
        official, known = self.settings.protocol == "official", scripted(task, "BFCL's evaluation")
        return Job(
            known,
            self.judge.bfcl,
            self._dialect(known),
            self.judge.goal(known),
            max_steps=self.harness.steps if official else MAX_STEPS,
            visible_only=False,
        )

    def episode(self, job: Job, sample: int, trace: Trace, cut: int = 0) -> Episode:
        result = outputs(trace, job.dialect)
        return Episode(job.task.provenance["id"], sample, self.settings.results_form, result, trace.end, cut)

    def _dialect(self, task: Task) -> Dialect:
        settings = self.settings
        if settings.protocol != "official":
            return dialects.load(settings.protocol, settings.system_prompt)
        kind = Native if settings.form == "native" else Prompted
        return kind(self.harness, self.judge.owners(task), settings.documents)


def play_batches(
    engine: LocalEngine,
    maker: Maker,
    slots: Sequence[Slot],
    in_flight: int,
    done: Callable[[Episode], None],
    asked: Callable[[], bool],
) -> None:
    """Plays `slots` with local weights in batches of `in_flight` and hands every finished episode to `done`. Begins no
    other batch when `asked` says to stop. Native tool calls are parsed by servers, so there are none here."""
    for first in range(0, len(slots), in_flight):
        if asked():
            return
        part = slots[first : first + in_flight]
        jobs = [maker.job(task) for task, _ in part]
        key = keyed_random(RANDOM_SEED, "evaluation", *(f"{task.id} {sample}" for task, sample in part)).getrandbits(63)
        played = engine.rollouts(jobs, random_seed=key, greedy=maker.settings.greedy)
        for job, (_, sample), one in zip(jobs, part, played, strict=True):
            if one.trace.end != "infrastructure":
                done(maker.episode(job, sample, one.trace))
