"""The gate against leaking held-out tasks into training (DESIGN §5.6), and the list of given overlaps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rods.gates.reason import Reason
from rods.gates.similarity import Match, SimilarityIndex
from rods.tasks import HELD_OUT_SPLITS, Task


@dataclass(frozen=True, slots=True)
class Overlap:
    """A training task that matches a held-out one in the data as given: listed for the user, never an error."""

    task: str
    match: Match

    def as_json(self) -> dict[str, Any]:
        return {"task": self.task, "rule": self.match.rule, "held_out": self.match.other, "turn": self.match.turn}


def held_out_index(tasks: Iterable[Task]) -> SimilarityIndex:
    """An index of those of `tasks` that belong to a held-out split."""
    index = SimilarityIndex()
    for task in tasks:
        if task.split in HELD_OUT_SPLITS:
            index.add(task)
    return index


def contamination(task: Task, held_out: SimilarityIndex) -> list[Reason]:
    """Why `task` would teach a held-out task; empty when it would not. A task that is held out itself matches too."""
    if task.id in held_out:
        return [Reason(f"it is the held-out task {task.id}")]
    match = held_out.find(task)
    return [] if match is None else [Reason(f"held out: {match}")]


def overlaps(tasks: Iterable[Task]) -> list[Overlap]:
    """Every match between a training task and a held-out one among `tasks`, in the order of the training tasks."""
    tasks = list(tasks)
    index = held_out_index(tasks)
    training = [task for task in tasks if task.split not in HELD_OUT_SPLITS]
    return [Overlap(task.id, match) for task in training for match in index.matches(task)]
