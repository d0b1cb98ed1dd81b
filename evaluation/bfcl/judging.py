"""What recorded outputs are worth: the official verdict, the abstention-strict one, and progress.

Outputs are `turns[t][s]`, one output a step, in the form of BFCL's result files. They are decoded, carried out in a
world of our own, and judged turn by turn. The *official* verdict follows the benchmark's scorer: an entry whose turns
are not as many as the task's was given up and fails; outputs that decode to nothing are passed over, wherever they
stand in a turn; turns without ground truth are not judged. *strict* also wants no call in those. *progress* counts
every turn of the task; turns that were never reached are not resolved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.bfcl.decoding import Form, decode, executed
from rods.episode.engine import NeedVerdict, Verdict
from rods.episode.goals import GroundTruth
from rods.tasks import Task
from worlds.bfcl.world import Bfcl


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts of one episode. `resolved` of `expected` turns."""

    official: bool
    strict: bool
    resolved: int
    expected: int

    @property
    def progress(self) -> float:
        return self.resolved / self.expected


class Judge:
    """Judges episodes; keeps the ground truth's worlds of the tasks that it has met."""

    def __init__(self, bfcl: Bfcl) -> None:
        self.bfcl = bfcl
        self._goals: dict[str, GroundTruth] = {}
        self._owners: dict[tuple[str, ...], dict[str, str]] = {}

    def judge(self, task: Task, turns: Any, form: Form) -> Judged:
        """`turns` as above; anything but a list (the harness writes its error there) earns nothing."""
        truth = task.calls
        verdicts = self._verdicts(task, turns[: len(truth)], form) if isinstance(turns, list) else []
        whole = isinstance(turns, list) and len(turns) == len(truth)
        official = whole and all(v.resolved for v, calls in zip(verdicts, truth, strict=True) if calls)
        strict = official and all(verdict.resolved for verdict in verdicts)
        return Judged(official, strict, sum(verdict.resolved for verdict in verdicts), len(truth))

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
