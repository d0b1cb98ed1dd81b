"""Makes the episodes of an evaluation: a task with its world, ground truth, and the dialect of the chosen protocol.

In both protocols the executor is the official one's equal: hidden tools stay callable, so that the official verdict on
the outputs is the verdict on what the policy has seen.
"""

from __future__ import annotations

from evaluation.bfcl.dialects import Native, Prompted
from evaluation.bfcl.harness import harness
from evaluation.bfcl.judging import Judge
from evaluation.bfcl.traces import outputs
from evaluation.journal import Episode
from evaluation.settings import Settings
from rods import dialects
from rods.dialects.base import Dialect
from rods.episode.drivers import Job
from rods.episode.engine import MAX_STEPS, Trace
from rods.tasks import Task
from worlds.bfcl.world import Bfcl


class Maker:
    """Makes jobs for tasks, and episodes out of their traces."""

    def __init__(self, bfcl: Bfcl, settings: Settings) -> None:
        self.settings = settings
        self.judge = Judge(bfcl)
        self.harness = harness(bfcl.file)

    def job(self, task: Task) -> Job:
        official = self.settings.protocol == "official"
        return Job(
            task,
            self.judge.bfcl,
            self._dialect(task),
            self.judge.goal(task),
            max_steps=self.harness.steps if official else MAX_STEPS,
            visible_only=False,
        )

    def episode(self, job: Job, sample: int, trace: Trace, cut: int = 0) -> Episode:
        """The record of a finished job."""
        result = outputs(trace, job.dialect)
        return Episode(job.task.provenance["id"], sample, self.settings.results_form, result, trace.end, cut)

    def _dialect(self, task: Task) -> Dialect:
        settings = self.settings
        if settings.protocol != "official":
            return dialects.load(settings.protocol, settings.system_prompt)
        kind = Native if settings.form == "native" else Prompted
        return kind(self.harness, self.judge.owners(task), settings.documents)
