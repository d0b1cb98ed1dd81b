"""The benchmark's verdicts on outputs `turns[t][s]`, one a step, which are decoded and executed again in a world of
this project.

*official*: every turn with ground-truth calls is resolved (some call, the state, the results); turns without are
skipped, so junk calls there pass. *strict* also wants no call in those. *progress* counts every turn of the task; turns
that were never reached are not resolved. As in the benchmark's scorer, an entry with fewer or more turns than the task
has fails, an episode that ended early fails, and outputs that decode to nothing are skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rods.episode.engine import NeedVerdict, Trace, Verdict
from rods.episode.goals import GroundTruth
from rods.evaluation.benchmarks import Judged
from rods.evaluation.bfcl.decoding import decode, executed
from rods.evaluation.protocol import Form
from rods.tasks import Task
from rods.worlds.bfcl.world import Bfcl


def official_verdict(task: Task, verdicts: Sequence[Verdict | None]) -> bool:
    """`verdicts` by turn, as `GroundTruth` gives them; None or missing: the turn was not finished."""
    return len(verdicts) == task.expected and all(
        verdict is not None and (not calls or verdict.resolved)
        for calls, verdict in zip(task.calls, verdicts, strict=True)
    )


def strict_verdict(task: Task, verdicts: Sequence[Verdict | None]) -> bool:
    return len(verdicts) == task.expected and all(verdict is not None and verdict.resolved for verdict in verdicts)


def trace_verdicts(task: Task, trace: Trace) -> dict[str, bool]:
    """Both verdicts of an episode: {"official": …, "strict": …}."""
    verdicts = [turn.verdict for turn in trace.turns]
    finished = trace.end == "finished"
    return {
        "official": finished and official_verdict(task, verdicts),
        "strict": finished and strict_verdict(task, verdicts),
    }


class EpisodeJudge:
    """Judges episodes; keeps the ground truth's worlds of the tasks that it has met."""

    def __init__(self, bfcl: Bfcl) -> None:
        self.bfcl = bfcl
        self._goals: dict[str, GroundTruth] = {}
        self._owners: dict[tuple[str, ...], dict[str, str]] = {}

    def judge(self, task: Task, turns: Any, form: Form) -> Judged:
        """`turns` as above; anything but a list (the harness writes its error there) earns nothing."""
        expected = len(task.calls)
        verdicts = self._verdicts(task, turns[:expected], form) if isinstance(turns, list) else []
        whole = isinstance(turns, list) and len(turns) == expected
        return Judged(
            whole and official_verdict(task, verdicts),
            whole and strict_verdict(task, verdicts),
            sum(verdict.resolved for verdict in verdicts),
            expected,
        )

    def goal(self, task: Task) -> GroundTruth:
        """The task's ground truth, made once."""
        if task.id not in self._goals:
            self._goals[task.id] = GroundTruth(self.bfcl, task)
        return self._goals[task.id]

    def owners(self, task: Task) -> Mapping[str, str]:
        """The class of every tool that the executor can call in the task, held-out ones included."""
        classes = tuple((task.state or {})["classes"])
        if classes not in self._owners:
            self._owners[classes] = {tool: name for name in classes for tool in self.bfcl.apis[name].tools}
        return self._owners[classes]

    def _verdicts(self, task: Task, turns: Sequence[Sequence[Any]], form: Form) -> list[Verdict]:
        goal, owners = self.goal(task), self.owners(task)
        world = self.bfcl.reset(task.state)
        seen: list[str] = []
        verdicts = []
        for turn, steps in enumerate(turns):
            attempted = 0
            for step in steps:
                for string in decode(step, form) or ():
                    attempted += 1
                    seen.append(world.call(executed(string, owners)).text)
            verdicts.append(goal.verdict(world, NeedVerdict(turn, seen, attempted)))
        return verdicts
