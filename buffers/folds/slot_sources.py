"""Where the tasks of slots behind those of the pool come from: features, each with a
log."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from rods.buffers.folds.observations import Observations
from rods.buffers.run.run import Run
from rods.config import DRAWN_SLOTS
from rods.extension import Door
from rods.tasks import AnyTask


class TaskSource(Protocol):
    """Makes tasks for slots of steps, outside of the pool. What it makes follows from the steps
    before, and is on its log before anybody sees it."""

    log: str  # its name in the run folder

    def task(self, task_id: str) -> AnyTask:
        """The task of this id; reads on where it is not known. Raises KeyError where there is none,
        or damage took it."""

    def draw(
        self,
        step: int,
        slots: Sequence[int],
        observations: Observations,
        held: Callable[[], AbstractContextManager[None]],
    ) -> list[AnyTask]:
        """The tasks of `slots` (of the batch, from 0) of `step`, which follows what `observations`
        have read. What is on record is taken from there; what is not is made, and on the disk when
        this returns. It is written while `held()`: by the owner of the run."""

    def lacking(self, slots: Sequence[int], observations: Observations) -> str:
        """What the log lacks of the tasks of the last step, in words; empty where it is whole. For
        a source that has made none yet."""

    def differs(self, step: int, slot: int, task_id: str, observations: Observations) -> str:
        """What was made for this slot, in words, where that is another task; `observations` have
        read up to `step`."""

    def close(self) -> None:
        """Ends writing."""


# of a run, whose damage is an error if so wished (001)
SOURCES: Door[Callable[[Run, bool], TaskSource]] = Door("task_sources")


def drawn_task(task_id: str, sources: Iterable[tuple[range, TaskSource]]) -> AnyTask:
    """The task of this id that one of the sources has made. Raises KeyError where none has."""
    for _, source in sources:
        with suppress(KeyError):
            return source.task(task_id)
    raise KeyError(task_id)


def sources(run: Run, *, strict: bool = False) -> Iterator[tuple[range, TaskSource]]:
    """The sources of a run with the slots that each fills, in order. `strict`: damage is an error
    in every form."""
    first = run.config.pool_slots
    features = SOURCES.providers()
    for name, tasks in DRAWN_SLOTS.providers().items():
        if count := tasks.slots(run.config):
            yield range(first, first + count), features[name](run, strict)
            first += count
