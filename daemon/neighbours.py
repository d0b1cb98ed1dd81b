"""The tasks that a new variant must not nearly repeat (DESIGN §5.6).

In `sync=free` these are the originals, the generated part of the pool, and staging, which grows in the same breath in
which a variant is accepted. In lockstep staging is left out: what two seeds write must not depend on which of them was
quicker, so the merge refuses near duplicates among candidates.
"""

from __future__ import annotations

from collections.abc import Iterable

from rods.gates import SimilarityIndex, duplicates
from rods.tasks import Task


class Neighbours:
    """Originals, indexed once, and what has been generated, indexed anew at every epoch so that it stays small."""

    def __init__(self, originals: Iterable[Task], *, staging: bool) -> None:
        self._originals = SimilarityIndex()
        for task in originals:
            self._originals.add(task)
        self._staging = staging
        self._begin((), ())

    @property
    def admitted(self) -> int:
        """How many were admitted here. What is admitted is written in the same breath, so whoever reads the logs
        afterwards meets it there."""
        return len(self._admitted)

    def renewed(self, generated: Iterable[Task], read: int) -> Neighbours:
        """The neighbours after a merge. `generated` are the active variants and, in `sync=free`, the staged ones. Of
        those admitted here, the first `read` were written before the logs were read: which of them are not among
        `generated` have left. The later ones stay neighbours."""
        other = object.__new__(Neighbours)
        other._originals, other._staging = self._originals, self._staging
        other._begin(generated, self._admitted[read:])
        return other

    def _begin(self, generated: Iterable[Task], admitted: Iterable[Task]) -> None:
        self._generated = SimilarityIndex()
        for task in generated:
            self._generated.add(task)
        self._admitted = [task for task in admitted if task.id not in self._generated]
        for task in self._admitted:
            self._generated.add(task)

    def admit(self, task: Task) -> list[str]:
        """Why `task` is nothing new. Without reasons, and where staging counts, it is a neighbour from now on."""
        if task.id in self._originals or task.id in self._generated:
            return [f"it is task {task.id} itself"]
        reasons = duplicates(task, self._originals) or duplicates(task, self._generated)
        if self._staging and not reasons:
            self._generated.add(task)
            self._admitted.append(task)
        return reasons
