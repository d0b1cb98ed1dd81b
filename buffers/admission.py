"""Why a merge refuses a variant: reasons that are functions of manifest, tasks.jsonl and logs alone (DESIGN §4).

Nothing is executed here; `rods verify --replay` does that.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from buffers.run import Run
from rods.gates.similarity import SimilarityIndex
from rods.tasks import Task

Reason = Literal["schema", "split", "unknown_environment", "duplicate", "near_duplicate", "contaminated"]


class Refusal(NamedTuple):
    reason: Reason
    detail: str


class Admission:
    """Knows everything that was ever in the pool, and the held-out tasks. Near duplicates are looked for among retired
    tasks too: a revival must not bring two of a kind together."""

    def __init__(self, run: Run) -> None:
        self._environments: dict[str, str] = run.manifest["environments"]
        self._gates = run.config.gates
        self._pool, self._held_out = SimilarityIndex(), SimilarityIndex()
        self._ids = {task.id for task in run.tasks}
        for task in run.tasks:
            (self._pool if task.split == "train" else self._held_out).add(task)

    def refuse(self, content: Any) -> Refusal | Task:
        """The variant, or why it is refused."""
        try:
            task = Task.from_json(content)
        except ValueError as error:
            return Refusal("schema", str(error))
        generation = task.provenance.get("generation")
        if not isinstance(generation, int) or generation < 1:
            return Refusal("schema", f"'provenance.generation' is {generation!r}; a variant's is at least 1")
        if task.split != "train":
            return Refusal("split", f"its split is {task.split!r}, its seed's is 'train'")
        if self._environments.get(task.environment.name) != task.environment.hash:
            return Refusal("unknown_environment", f"{task.environment.name} {task.environment.hash}")
        if task.id in self._ids:
            return Refusal("duplicate", f"task {task.id} is known")
        if self._gates.duplicates and (match := self._pool.find(task)):
            return Refusal("near_duplicate", str(match))
        if self._gates.contamination and (match := self._held_out.find(task)):
            return Refusal("contaminated", str(match))
        return task

    def add(self, task: Task) -> None:
        """`task` is in the pool from now on."""
        self._ids.add(task.id)
        self._pool.add(task)
