"""The benchmark's verdicts on outputs `turns[t][s]`, one a step, which are decoded and executed again in a world of
this project.

*official* and *strict* are those of rods.worlds.bfcl.verdicts; a turn is resolved by some call, the state, the results.
*progress* counts every turn of the task; turns that were never reached are not resolved. As in the benchmark's scorer,
an entry with fewer or more turns than the task has fails, an episode that ended early fails, and outputs that decode to
nothing are skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rods.episode.engine import NeedVerdict
from rods.episode.goals import GroundTruth
from rods.family.benchmarks.benchmarks import Judged
from rods.family.benchmarks.bfcl.decoding import decode, executed
from rods.family.benchmarks.protocol import Form
from rods.tasks import Task
from rods.worlds.bfcl.verdicts import official_verdict, strict_verdict
from rods.worlds.bfcl.world import Bfcl


class EpisodeJudge:
    """Judges episodes; keeps the ground truth's worlds of the tasks that it has met."""

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
