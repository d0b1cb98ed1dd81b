"""The tasks of a file as a benchmark: any environment's, as in training, without hints, in a
training dialect. Verdicts are those of training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rods.canonical import JsonMapping, JsonObject, content_id
from rods.environments.base import reference
from rods.environments.loading import Environments
from rods.episode.drivers import Job
from rods.episode.engine import MAX_STEPS, Trace
from rods.episode.rewards import score
from rods.errors import UserError
from rods.evaluation import card
from rods.family.benchmarks import folder as folders
from rods.family.benchmarks.contract import Benchmark
from rods.family.benchmarks.episodes import Maker
from rods.family.benchmarks.folder import Episode, Part, Score, Settings
from rods.observations import Rollout
from rods.players import Players
from rods.tasks import TASK_TYPES, AnyTask, read_tasks


class TaskMaker(Maker):
    """The `Maker` of such tasks. What they earned is recorded with the conversation, which
    `rods-train sft --teacher` imitates."""

    def __init__(self, benchmark: "TaskFile", settings: Settings) -> None:
        super().__init__(benchmark, settings)
        assert benchmark.environments is not None
        self._players = Players(benchmark.environments)
        self._dialect = self.trained()
        self._jobs: dict[str, Job] = {}  # the samples of a task share its ground truth

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        if task.id not in self._jobs:
            self._jobs[task.id] = self._players.job(task, self._dialect, max_steps=MAX_STEPS)
        return self._jobs[task.id]

    def result(self, job: Job, trace: Trace) -> Any:
        earned = score(trace, "progress").as_json()
        return {"type": job.task.type, "rollout": earned, "trace": trace.as_json()}


class TaskFile(Benchmark):
    """The benchmark (rods.family.benchmarks.contract). What was played is `described` in an
    evaluation's folder; a file at `path` is played in the worlds of `environments`."""

    name = "tasks"
    kinds: Sequence[str] = TASK_TYPES
    measures: Sequence[str] = ("progress", "solved")
    protocols: Sequence[folders.Protocol] = ("hermes", "tags", "compact", "native")
    parts: Mapping[Part, str] = {"all": "the file's tasks"}
    makes = TaskMaker

    def __init__(
        self,
        described: JsonMapping,
        path: Path | None = None,
        environments: Environments | None = None,
    ) -> None:
        self.described = described
        self.path = path
        self.environments = environments

    def tasks(self) -> list[AnyTask]:
        assert self.path is not None
        return read_tasks(self.path)

    def kind(self, task: AnyTask) -> str:
        return task.type

    def identifier(self, task: AnyTask) -> str:
        return task.id

    def identity(self, tasks: Sequence[AnyTask]) -> JsonObject:
        for task in tasks:
            assert self.environments is not None
            installed = self.environments.load(task.environment.name)
            written = task.environment
            if reference(installed) != written:
                what = (
                    f"was written for version {written.hash} of {written.name!r}, but "
                    f"{installed.hash} is installed"
                )
                remedy = "install that version, or `rods data rehash FILE --trust`"
                raise UserError(what, where=f"task {task.id}", remedy=remedy)
        names = sorted({card.version(task) for task in tasks})
        digest = content_id(sorted(task.id for task in tasks))
        return {"tasks": {"count": len(tasks), "hash": digest, "environments": names}}

    def about(self) -> str:
        names = ", ".join(self.described["environments"])
        return f"{self.described['count']} tasks ({self.described['hash']}), environments {names}"

    def expected(self, settings: Settings) -> int:
        return int(self.described["count"])

    def score(self, episode: Episode) -> Score:
        play = Rollout.from_json(episode.result["rollout"])
        measures = {"progress": play.resolved / play.expected, "solved": float(play.binary)}
        return Score(episode.result["type"], measures)
