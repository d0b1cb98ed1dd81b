"""BFCL's multi-turn tasks as a benchmark (rods.family.benchmarks.benchmarks)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from rods import dialects
from rods.dialects.base import Dialect
from rods.episode.drivers import Job
from rods.episode.engine import MAX_STEPS, Trace
from rods.family.benchmarks.benchmarks import Judged, Outputs, Scores
from rods.family.benchmarks.bfcl import results, scorer
from rods.family.benchmarks.bfcl.dialects import Native, Prompted
from rods.family.benchmarks.bfcl.harness import harness
from rods.family.benchmarks.bfcl.judging import EpisodeJudge
from rods.family.benchmarks.folder import Episode, Settings
from rods.family.benchmarks.protocol import Form
from rods.tasks import AnyTask, Task, scripted
from rods.worlds import bfcl
from rods.worlds.bfcl.world import Bfcl


class BfclBenchmark:
    """See `rods.family.benchmarks.benchmarks.Benchmark`. The data are read when something of them is asked for."""

    name = "bfcl"

    def tasks(self) -> list[Task]:
        return bfcl.tasks()

    def identity(self) -> dict[str, Any]:
        return {"data": results.data_version(), "environment": bfcl.environment().hash}

    def check_data(self, found: Mapping[str, Any], where: Path) -> None:
        results.check_version(found, where)

    def about(self, report: Mapping[str, Any]) -> str:
        data = report["data"]
        wheel_named = f"{data['package']} {data['version']} (sha256 {data['sha256'][:12]}…)"
        return f"BFCL multi-turn, data of {wheel_named}, environment {report['environment']}"

    def maker(self, settings: Settings) -> EpisodeMaker:
        return EpisodeMaker(bfcl.environment(), settings)

    def judge(self, task: Task, episode: Episode) -> Judged:
        return self._judge.judge(task, results.scored_turns(episode.result, episode.end), episode.form)

    @cached_property
    def _judge(self) -> EpisodeJudge:
        return EpisodeJudge(bfcl.environment())

    def outputs(self, path: Path) -> Outputs:
        if results.are_traces(path):
            return Outputs(True, results.trace_files(path), True)
        files = results.files(path)
        return Outputs(False, files, all(results.version_file(file) for file in files))

    def recorded(self, path: Path, tasks: Mapping[str, Task], form: Form) -> Iterator[tuple[str, Any, str]]:
        return results.read(path, tasks, form)

    def write(self, folder: Path, settings: Settings, episodes: Iterable[Episode]) -> list[Path]:
        entries = [(episode.task, results.official_result(episode.result, episode.end)) for episode in episodes]
        return results.write(folder, settings.policy["name"], entries, settings.results_form)

    def scored(self, samples: Sequence[tuple[int, Sequence[Path]]], form: Form, package: Path | None) -> Scores:
        return scorer.verdicts(samples, form, scorer.known_wheel(package))


class EpisodeMaker:
    """The `Maker` of BFCL's tasks. The executor is the official one's equal in all protocols: hidden tools stay
    callable, so that the official verdict on the outputs is the verdict on what the policy was shown."""

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
        result = results.outputs(trace, job.dialect)
        return Episode(job.task.provenance["id"], sample, self.settings.results_form, result, trace.end, cut)

    def _dialect(self, task: Task) -> Dialect:
        settings = self.settings
        if settings.protocol != "official":
            return dialects.load(settings.protocol, settings.system_prompt)
        kind = Native if settings.form == "native" else Prompted
        return kind(self.harness, self.judge.owners(task), settings.documents)
