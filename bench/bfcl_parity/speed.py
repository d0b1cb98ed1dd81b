"""The speeds of our executor and scoring compared with the official ones, over the 800 ground
truths.

Two worker processes of the same kind take turns; compared is the CPU time of each, as the median
over rounds. Both do the same work: every rollout in a fresh world, the same calls in the same
order, a text for each result. Tasks are gone through as training does, a group of rollouts of each
in a row; *one rollout a task* goes through all tasks before it returns to the first, so that
neither side finds anything in the processor's caches. Ours keeps the objects of initial states
between episodes, as it does in training; *fresh states* is the same with nothing kept.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from rods.calls import parse_python_call
from rods.environments.base import opened
from rods.environments.workers.worker import Worker, WorkerSpec
from rods.episode.engine import NeedVerdict
from rods.episode.goals import GroundTruth
from rods.tasks import TASK_TYPES
from rods.worlds.bfcl.tasks import records, tasks
from rods.worlds.bfcl.world import environment

TARGET = "bench.bfcl_parity.speed:answer"
GROUP = 4  # rollouts of a task
_HOUR = 3_600.0
# our measurement; the official one, and how many rollouts of a task it does in a row; the unit
_COMPARED = {
    "calls, parsed": ("calls", ("executor", GROUP), "calls/s"),
    "calls, one rollout a task": ("spread", ("executor", 1), "calls/s"),
    "calls, fresh states": ("fresh", ("executor", 1), "calls/s"),
    "calls, from text": ("text", ("executor", GROUP), "calls/s"),
    "scored rollouts": ("scoring", ("checker", GROUP), "rollouts/s"),
}


def compare(
    oracle: Worker, file: Path, rounds: int, names: Collection[str] | None = None
) -> dict[str, Any]:
    """The figures by name: {"ours", "official", "ratio", "unit", "rounds"}; of `names` alone,
    by default all."""
    compared = {name: _COMPARED[name] for name in names or _COMPARED}
    ours = Worker(WorkerSpec(TARGET, seconds=_HOUR, memory=1 << 33))
    mine: dict[str, list[float]] = {}
    theirs: dict[tuple[str, int], list[float]] = {}
    try:
        counts = ours.call({"do": "counts", "wheel": str(file)})
        for _ in range(rounds + 1):
            official: dict[tuple[str, int], float] = {}
            for name, asked, _unit in compared.values():
                if asked not in official:
                    do, group = asked
                    cpu, _wall = oracle.call({"do": do, "group": group, "wheel": str(file)})
                    official[asked] = cpu / group
                    theirs.setdefault(asked, []).append(official[asked])
                mine.setdefault(name, []).append(ours.call({"do": name, "wheel": str(file)})[0])
    finally:
        ours.close()
    figures = {}
    for title, (name, asked, unit) in compared.items():
        # the first round warms up
        one = mine[name][1:]
        other = theirs[asked][1:]
        figures[title] = {
            "ours": counts[unit] / statistics.median(one),
            "official": counts[unit] / statistics.median(other),
            "ratio": statistics.median(other) / statistics.median(one),
            "unit": unit,
            "rounds": rounds,
        }
    return figures


class _Ours:
    def __init__(self, file: Path) -> None:
        self.bfcl = environment(file.parent)
        self.tasks = tasks(file.parent)
        self.texts = [truth for kind in TASK_TYPES for truth in records(file, kind)[1]]
        self.parameters = self.bfcl.parameters()
        self.goals = [GroundTruth(self.bfcl, task) for task in self.tasks]

    def counts(self) -> dict[str, int]:
        calls = sum(len(turn) for task in self.tasks for turn in task.calls)
        return {"calls/s": calls, "rollouts/s": len(self.tasks)}

    def calls(self) -> None:
        self._in_groups(self._parsed)

    def spread(self) -> None:
        for _ in range(GROUP):
            for index in range(len(self.tasks)):
                self._parsed(index)

    def fresh(self) -> None:
        for _ in range(GROUP):
            self.bfcl._built.cache_clear()  # the objects kept for initial states
            for index in range(len(self.tasks)):
                self._parsed(index)

    def text(self) -> None:
        self._in_groups(self._from_text)

    def scoring(self) -> None:
        """Reset, all calls, and the comparison after every turn, for a rollout that copies the
        ground truth."""
        self._in_groups(self._scored)

    def _in_groups(self, rollout: Callable[[int], None]) -> None:
        for index in range(len(self.tasks)):
            for _ in range(GROUP):
                rollout(index)

    def _parsed(self, index: int) -> None:
        task = self.tasks[index]
        world = opened(self.bfcl, task)
        for turn in task.calls:
            for call in turn:
                world.call(call)

    def _from_text(self, index: int) -> None:
        world = opened(self.bfcl, self.tasks[index])
        for turn in self.texts[index]:
            for call in turn:
                world.call(parse_python_call(call, self.parameters))

    def _scored(self, index: int) -> None:
        task = self.tasks[index]
        goal = self.goals[index]
        world = opened(self.bfcl, task)
        results: list[str] = []
        for turn, calls in enumerate(task.calls):
            for call in calls:
                results.append(world.call(call).text)
            goal.verdict(world, NeedVerdict(turn, results, len(calls)))


_ours: _Ours | None = None


def answer(request: dict[str, Any]) -> Any:
    """{"do": "counts" | "calls" | "spread" | "fresh" | "text" | "scoring", "wheel": path} → counts,
    or CPU and wall seconds for one rollout of every task."""
    global _ours
    if _ours is None:
        _ours = _Ours(Path(request["wheel"]))
    found = {
        "counts": _ours.counts,
        "calls": _ours.calls,
        "spread": _ours.spread,
        "fresh": _ours.fresh,
        "text": _ours.text,
        "scoring": _ours.scoring,
    }[request["do"]]
    start = time.process_time(), time.perf_counter()
    counts = found()
    if counts is not None:
        return counts
    return [(time.process_time() - start[0]) / GROUP, (time.perf_counter() - start[1]) / GROUP]
