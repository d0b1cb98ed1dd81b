"""Why a merge refuses a variant: reasons that are functions of manifest, tasks.jsonl and logs alone (DESIGN §4).

Nothing that was ever in the pool comes in again. Near duplicates are looked for among the given tasks, the active
variants, and those that a re-test may bring back: a revival must not bring two of a kind together. What has left for
good is nobody's neighbour any more, so that memory does not grow with history.

Nothing is executed here; `rods verify --replay` does that.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, Literal, NamedTuple

from buffers.run.run import Run
from rods.gates.similarity import SimilarityIndex
from rods.tasks import Task

Reason = Literal["schema", "split", "unknown_environment", "duplicate", "near_duplicate", "contaminated"]


class Refusal(NamedTuple):
    reason: Reason
    detail: str


class Admission:
    """Follows the pool: `admitted` and `left` tell it what has changed."""

    def __init__(self, run: Run, injected: Container[str] = (), neighbours: Iterable[Task] = ()) -> None:
        """`injected`: ids of the variants that were ever injected; `neighbours`: of these the ones that are active or
        may be revived."""
        self._environments: dict[str, str] = run.manifest["environments"]
        self._gates = run.config.gates
        self._pool, self._held_out = SimilarityIndex(), SimilarityIndex()
        self._given = {task.id for task in run.tasks}
        self._injected = injected
        for task in run.tasks:
            (self._pool if task.split == "train" else self._held_out).add(task)
        for task in neighbours:
            self._pool.add(task)

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
        if task.id in self._given or task.id in self._pool or task.id in self._injected:
            return Refusal("duplicate", f"task {task.id} is known")
        if self._gates.duplicates and (match := self._pool.find(task)):
            return Refusal("near_duplicate", str(match))
        if self._gates.contamination and (match := self._held_out.find(task)):
            return Refusal("contaminated", str(match))
        return task

    def admitted(self, task: Task) -> None:
        """`task` is in the pool from now on."""
        self._pool.add(task)

    def left(self, task_id: str) -> None:
        """That variant has left the pool for good. Given ones stay neighbours: there are only so many."""
        if task_id not in self._given:
            self._pool.remove(task_id)
