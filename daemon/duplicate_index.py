"""The tasks that a new variant must not nearly repeat.

In `sync=free` these are the originals, the generated part of the pool, and staging, to which
`admit` adds a variant at once, without awaiting anything in between. In lockstep staging is left
out: what two seeds write must not depend on which of them was quicker, so the merge refuses near
duplicates among candidates."""

from collections.abc import Iterable
from copy import copy

from rods.gates.similarity import SimilarityIndex, duplicates
from rods.tasks import AnyTask


class DuplicateIndex:
    """Originals, indexed once, and what has been generated, indexed anew at every epoch so that it
    stays small."""

    def __init__(self, originals: Iterable[AnyTask], *, staging: bool) -> None:
        self._originals = SimilarityIndex(originals)
        self._staging = staging
        self._begin((), (), ())

    @property
    def on_record(self) -> int:
        """How many of those admitted here are written: whoever reads the logs from now on meets
        them there."""
        return len(self._written)

    def written(self, task_id: str) -> None:
        """The task that was admitted is on record."""
        if (task := self._admitted.pop(task_id, None)) is not None:
            self._written.append(task)

    def renewed(self, generated: Iterable[AnyTask], read: int) -> "DuplicateIndex":
        """The neighbours after a merge. `generated` are the active variants and, in `sync=free`,
        the staged ones. Of those admitted here, the first `read` that were written were on record
        before the logs were read: which of them are not among `generated` have left. The others
        stay neighbours."""
        other = copy(self)
        other._begin(generated, self._admitted.values(), self._written[read:])
        return other

    def _begin(
        self, generated: Iterable[AnyTask], admitted: Iterable[AnyTask], written: Iterable[AnyTask]
    ) -> None:
        self._admitted = {task.id: task for task in admitted}
        self._written = list(written)
        self._generated = SimilarityIndex((*generated, *self._admitted.values(), *self._written))

    def add(self, task: AnyTask) -> None:
        """`task` is a neighbour until the next merge."""
        self._generated.add(task)

    def admit(self, task: AnyTask) -> list[str]:
        """Why `task` is nothing new. Without reasons, and where staging counts, it is a neighbour
        from now on."""
        if task.id in self._originals or task.id in self._generated:
            return [f"it is task {task.id} itself"]
        reasons = duplicates(task, self._originals) or duplicates(task, self._generated)
        if self._staging and not reasons:
            self.add(task)
            self._admitted[task.id] = task
        return [str(reason) for reason in reasons]
