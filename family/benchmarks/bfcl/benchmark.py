"""BFCL's multi-turn tasks as a benchmark (rods.family.benchmarks.benchmarks)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from rods.canonical import JsonObject, frozen
from rods.dialects import Dialect
from rods.episode.drivers import Job
from rods.episode.engine import MAX_STEPS, NeedVerdict, Trace
from rods.episode.goals import GroundTruth
from rods.family.benchmarks.bfcl import results, scorer
from rods.family.benchmarks.bfcl.decoding import decode, executed
from rods.family.benchmarks.bfcl.dialects import FORMS, Native
from rods.family.benchmarks.bfcl.harness import harness
from rods.family.benchmarks.contract import Benchmark, Scores
from rods.family.benchmarks.episodes import Maker
from rods.family.benchmarks.folder import Documents, Episode, Form, Protocol, Score, Settings
from rods.tasks import TASK_TYPES, AnyTask, Task, scripted
from rods.worlds import bfcl
from rods.worlds.bfcl.verdicts import official_verdict, strict_verdict
from rods.worlds.bfcl.world import Bfcl


@frozen
class Judged:
    """The verdicts on one episode. `resolved` of `expected` turns."""

    official: bool
    strict: bool
    resolved: int
    expected: int

    @property
    def progress(self) -> float:
        return self.resolved / self.expected


# The turn that such an end has cut short does not count. One that ends after too many steps does,
# as in the harness.
CUT = frozenset({"length", "context"})


class ResultFiles(Benchmark):
    """A benchmark of the wheel, which has result files and a scorer. The data are read when
    something of them is asked for."""

    data = results.DATA

    @property
    def environment(self) -> str:
        return bfcl.environment().hash

    @property
    def categories(self) -> Sequence[str]:
        """Of its result files."""
        return self.kinds

    def recorded(
        self, path: Path, tasks: Mapping[str, AnyTask], form: Form
    ) -> Iterator[results.Recorded]:
        by_name = {name: scripted(task, self.name) for name, task in tasks.items()}
        return results.read(path, by_name, form, self.categories)

    def outputs(self, path: Path) -> Mapping[Path, bool]:
        files = results.files(path, self.categories)
        return {file: results.version_file(file) is not None for file in files}

    def write(self, folder: Path, settings: Settings, episodes: Iterable[Episode]) -> list[Path]:
        entries = [(done.task, self.written(done)) for done in episodes]
        return results.write(folder, settings.policy["name"], entries, settings.results_form)

    def written(self, episode: Episode) -> Any:
        """The result as the harness would have written it: the error alone where the episode ended
        early."""
        ended = f"Error during inference: the episode ended early ({episode.end})"
        return ended if episode.end in CUT else episode.result

    def scored(self, samples: Sequence[tuple[int, Sequence[Path]]], form: Form) -> Scores:
        return scorer.verdicts(samples, form)


class EpisodeMaker(Maker):
    """The `Maker` of BFCL's tasks. The executor is the official one's equal in all protocols:
    hidden tools stay callable, so that the official verdict on the outputs is the verdict on what
    the policy was shown."""

    benchmark: "BfclBenchmark"

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        settings = self.settings
        judge = self.benchmark.judge
        script = scripted(task, "BFCL's evaluation")
        dialect: Dialect
        if settings.protocol == "official":
            words = harness(judge.bfcl.file)
            dialect = FORMS[settings.form](words, judge.owners(script), settings.documents)
            steps = words.steps
        else:
            dialect = self.trained()
            steps = MAX_STEPS
        goal = judge.goal(script)
        return Job(script, judge.bfcl, dialect, goal, max_steps=steps, visible_only=False)

    def returned(self, job: Job, turn: int) -> list[JsonObject]:
        if not isinstance(job.dialect, Native):
            return []
        later = sorted(job.task.later_tools.items())
        names = [name for at, tools in later if at <= turn for name in tools]
        return job.dialect.tools(names, returned=True)

    def result(self, job: Job, trace: Trace) -> Any:
        return results.outputs(trace, job.dialect)


class EpisodeJudge:
    """The benchmark's verdicts on outputs `turns[t][s]`, one a step, which are decoded and executed
    again in a world of this project. Keeps the ground truth's worlds of the tasks that it has met.

    *official* and *strict* are those of rods.worlds.bfcl.verdicts; a turn is resolved by some call,
    the state, the results. *progress* counts every turn of the task; turns that were never reached
    are not resolved. As in the benchmark's scorer, an entry with fewer or more turns than the task
    has fails, an episode that ended early fails, and outputs that decode to nothing are skipped."""

    def __init__(self, bfcl: Bfcl) -> None:
        self.bfcl = bfcl
        self._goals: dict[str, GroundTruth] = {}

    def judge(self, task: Task, turns: Any, form: Form) -> Judged:
        """`turns` as above; anything but a list (the harness writes its error there) earns
        nothing."""
        expected = len(task.calls)
        if not isinstance(turns, list):
            return Judged(False, False, 0, expected)
        goal = self.goal(task)
        owners = self.owners(task)
        world = self.bfcl.reset(task.state)
        seen: list[str] = []
        verdicts = []
        for turn, steps in enumerate(turns[:expected]):
            strings = [string for step in steps for string in decode(step, form) or ()]
            seen += [world.call(executed(string, owners)).text for string in strings]
            verdicts.append(goal.verdict(world, NeedVerdict(turn, seen, len(strings))))
        whole = len(turns) == expected
        official, strict = (
            whole and passes(task, verdicts) for passes in (official_verdict, strict_verdict)
        )
        return Judged(official, strict, sum(verdict.resolved for verdict in verdicts), expected)

    def goal(self, task: Task) -> GroundTruth:
        """The task's ground truth, made once."""
        if task.id not in self._goals:
            self._goals[task.id] = GroundTruth(self.bfcl, task)
        return self._goals[task.id]

    def owners(self, task: Task) -> Mapping[str, str]:
        """The class of every tool that the executor can call in the task, held-out ones
        included."""
        return {
            tool: name
            for name in (task.state or {})["classes"]
            for tool in self.bfcl.apis[name].tools
        }


class BfclBenchmark(ResultFiles):
    """The benchmark (rods.family.benchmarks.contract)."""

    name = "bfcl"
    title = "BFCL multi-turn"
    kinds = TASK_TYPES
    measures: Sequence[str] = ("official", "strict", "progress")
    protocols: Sequence[Protocol] = ("official", "native", "tags", "hermes", "compact")
    documents: Sequence[Documents] = ("full", "signatures")
    makes = EpisodeMaker
    part = "held-out"
    parts = {
        "held-out": "held-out (the papers' 400)",
        "test": "unseen by any stage (300)",
        "train": "training tasks",
    }

    @property
    def categories(self) -> Sequence[str]:
        return [f"multi_turn_{kind}" for kind in self.kinds]

    @cached_property
    def by_id(self) -> Mapping[str, Task]:
        return {self.identifier(task): task for task in bfcl.tasks()}

    def kind(self, task: AnyTask) -> str:
        return task.type

    def score(self, episode: Episode) -> Score:
        task = self.by_id[episode.task]
        whole = episode.end not in CUT or not isinstance(episode.result, list)
        outputs = episode.result if whole else episode.result[:-1]
        judged = self.judge.judge(task, outputs, episode.form)
        return Score(
            task.type, {name: float(getattr(judged, name)) for name in self.measures}, task.split
        )

    @cached_property
    def judge(self) -> EpisodeJudge:
        return EpisodeJudge(bfcl.environment())
