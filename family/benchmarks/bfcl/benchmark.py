"""BFCL's multi-turn tasks as a benchmark (rods.family.benchmarks.benchmarks)."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from rods import dialects
from rods.dialects import Dialect
from rods.episode.drivers import Job
from rods.episode.engine import MAX_STEPS, NeedVerdict, Trace
from rods.episode.goals import GroundTruth
from rods.family.benchmarks.benchmarks import Judged, Outputs, Scores
from rods.family.benchmarks.bfcl import results, scorer
from rods.family.benchmarks.bfcl.decoding import decode, executed
from rods.family.benchmarks.bfcl.dialects import Native, Prompted
from rods.family.benchmarks.bfcl.harness import harness
from rods.family.benchmarks.folder import Episode, Form, Settings
from rods.tasks import AnyTask, Task, scripted
from rods.worlds import bfcl
from rods.worlds.bfcl.verdicts import official_verdict, strict_verdict
from rods.worlds.bfcl.world import Bfcl

# The turn that such an end has cut short does not count. One that ends after too many steps does, as in the harness.
CUT = frozenset({"length", "context"})


class BfclBenchmark:
    """See `rods.family.benchmarks.benchmarks.Benchmark`. The data are read when something of them is asked for."""

    name = "bfcl"
    tasks = staticmethod(bfcl.tasks)
    check_data = staticmethod(results.check_version)
    recorded = staticmethod(results.read)

    def identity(self) -> dict[str, Any]:
        return {"data": results.DATA, "environment": bfcl.environment().hash}

    def about(self, report: Mapping[str, Any]) -> str:
        data = report["data"]
        wheel_named = f"{data['package']} {data['version']} (sha256 {data['sha256'][:12]}…)"
        return f"BFCL multi-turn, data of {wheel_named}, environment {report['environment']}"

    def maker(self, settings: Settings) -> "EpisodeMaker":
        return EpisodeMaker(bfcl.environment(), settings)

    def judge(self, task: Task, episode: Episode) -> Judged:
        whole = episode.end not in CUT or not isinstance(episode.result, list)
        return self._judge.judge(task, episode.result if whole else episode.result[:-1], episode.form)

    @cached_property
    def _judge(self) -> "EpisodeJudge":
        return EpisodeJudge(bfcl.environment())

    def outputs(self, path: Path) -> Outputs:
        if traces := results.trace_files(path):
            return Outputs(True, traces, True)
        files = results.files(path)
        return Outputs(False, files, all(results.version_file(file) for file in files))

    def write(self, folder: Path, settings: Settings, episodes: Iterable[Episode]) -> list[Path]:
        """As the harness would have: the error alone where an episode ended early."""
        error = "Error during inference: the episode ended early ({})"
        entries = [(done.task, error.format(done.end) if done.end in CUT else done.result) for done in episodes]
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
        settings, known = self.settings, scripted(task, "BFCL's evaluation")
        dialect: Dialect
        if settings.protocol == "official":
            kind = Native if settings.form == "native" else Prompted
            dialect, steps = kind(self.harness, self.judge.owners(known), settings.documents), self.harness.steps
        else:
            dialect, steps = dialects.load(settings.protocol, settings.system_prompt), MAX_STEPS
        goal = self.judge.goal(known)
        return Job(known, self.judge.bfcl, dialect, goal, max_steps=steps, visible_only=False)

    def episode(self, job: Job, sample: int, trace: Trace, cut: int = 0) -> Episode:
        result = results.outputs(trace, job.dialect)
        return Episode(job.task.provenance["id"], sample, self.settings.results_form, result, trace.end, cut)


class EpisodeJudge:
    """The benchmark's verdicts on outputs `turns[t][s]`, one a step, which are decoded and executed again in a world of
    this project. Keeps the ground truth's worlds of the tasks that it has met.

    *official* and *strict* are those of rods.worlds.bfcl.verdicts; a turn is resolved by some call, the state, the
    results. *progress* counts every turn of the task; turns that were never reached are not resolved. As in the
    benchmark's scorer, an entry with fewer or more turns than the task has fails, an episode that ended early fails,
    and outputs that decode to nothing are skipped."""

    def __init__(self, bfcl: Bfcl) -> None:
        self.bfcl = bfcl
        self._goals: dict[str, GroundTruth] = {}

    def judge(self, task: Task, turns: Any, form: Form) -> Judged:
        """`turns` as above; anything but a list (the harness writes its error there) earns nothing."""
        expected = len(task.calls)
        if not isinstance(turns, list):
            return Judged(False, False, 0, expected)
        goal, owners, world = self.goal(task), self.owners(task), self.bfcl.reset(task.state)
        seen: list[str] = []
        verdicts = []
        for turn, steps in enumerate(turns[:expected]):
            strings = [string for step in steps for string in decode(step, form) or ()]
            seen += [world.call(executed(string, owners)).text for string in strings]
            verdicts.append(goal.verdict(world, NeedVerdict(turn, seen, len(strings))))
        whole = len(turns) == expected
        official, strict = (whole and passes(task, verdicts) for passes in (official_verdict, strict_verdict))
        return Judged(official, strict, sum(verdict.resolved for verdict in verdicts), expected)

    def goal(self, task: Task) -> GroundTruth:
        """The task's ground truth, made once."""
        if task.id not in self._goals:
            self._goals[task.id] = GroundTruth(self.bfcl, task)
        return self._goals[task.id]

    def owners(self, task: Task) -> Mapping[str, str]:
        """The class of every tool that the executor can call in the task, held-out ones included."""
        return {tool: name for name in (task.state or {})["classes"] for tool in self.bfcl.apis[name].tools}
