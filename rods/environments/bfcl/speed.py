"""The speeds of our executor and scoring beside the official ones, over the 800 ground truths.

Two worker processes, started alike, take turns; what is compared is the CPU time of each, and the figure is the median
over rounds. In a round our side goes through the tasks several times, so that both work for about as long. It keeps the
objects of initial states between episodes, as it does in training; `fresh states` is the same without anything kept.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from rods.calls import parse_python_call
from rods.environments.bfcl.tasks import records, tasks
from rods.environments.bfcl.world import environment
from rods.environments.worker import Worker
from rods.episodes import NeedVerdict
from rods.goals import GroundTruth
from rods.tasks import TASK_TYPES

TARGET = "rods.environments.bfcl.speed:answer"
PASSES = 5  # of ours in a round
_HOUR = 3_600.0
# our measurement, the official one, unit, and whether the unit is calls or rollouts
_COMPARED = {
    "calls, parsed": ("calls", "executor", "calls/s"),
    "calls, fresh states": ("fresh", "executor", "calls/s"),
    "calls, from text": ("text", "executor", "calls/s"),
    "scored rollouts": ("scoring", "checker", "rollouts/s"),
}


def compare(oracle: Worker, file: Path, rounds: int) -> dict[str, Any]:
    """The figures by name: {"ours", "official", "ratio", "unit", "rounds"}."""
    ours = Worker(TARGET, seconds=_HOUR, memory=1 << 33)
    seconds: dict[str, list[float]] = {}
    try:
        counts = ours.call({"do": "counts", "wheel": str(file)})
        for _ in range(rounds + 1):
            for name, worker in (
                ("executor", oracle),
                ("calls", ours),
                ("fresh", ours),
                ("text", ours),
                ("checker", oracle),
                ("scoring", ours),
            ):
                cpu, _wall = worker.call({"do": name, "wheel": str(file)})
                seconds.setdefault(name, []).append(cpu)
    finally:
        ours.close()
    median = {name: statistics.median(values[1:]) for name, values in seconds.items()}  # the first round warms up
    return {
        name: {
            "ours": counts[unit] / median[mine],
            "official": counts[unit] / median[theirs],
            "ratio": median[theirs] / median[mine],
            "unit": unit,
            "rounds": rounds,
        }
        for name, (mine, theirs, unit) in _COMPARED.items()
    }


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
        for task in self.tasks:
            world = self.bfcl.reset(task.state)
            for turn in task.calls:
                for call in turn:
                    world.call(call)

    def fresh(self) -> None:
        self.bfcl.forget()
        self.calls()

    def text(self) -> None:
        for task, truth in zip(self.tasks, self.texts, strict=True):
            world = self.bfcl.reset(task.state)
            for turn in truth:
                for call in turn:
                    world.call(parse_python_call(call, self.parameters))

    def scoring(self) -> None:
        """Reset, all calls, and the comparison after every turn, for a rollout that copies the ground truth."""
        for task, goal in zip(self.tasks, self.goals, strict=True):
            world = self.bfcl.reset(task.state)
            results: list[str] = []
            for turn, calls in enumerate(task.calls):
                for call in calls:
                    results.append(world.call(call).text)
                goal.verdict(world, NeedVerdict(turn, results, len(calls)))


_ours: _Ours | None = None


def answer(request: dict[str, Any]) -> Any:
    """{"do": "counts" | "calls" | "fresh" | "text" | "scoring", "wheel": path} → counts, or CPU and wall seconds a
    pass."""
    global _ours
    if _ours is None:
        _ours = _Ours(Path(request["wheel"]))
    if request["do"] == "counts":
        return _ours.counts()
    work = {"calls": _ours.calls, "fresh": _ours.fresh, "text": _ours.text, "scoring": _ours.scoring}[request["do"]]
    start = time.process_time(), time.perf_counter()
    for _ in range(PASSES):
        work()
    return [(time.process_time() - start[0]) / PASSES, (time.perf_counter() - start[1]) / PASSES]
