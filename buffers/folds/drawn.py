"""The fold of drawn.jsonl: tasks that were drawn for one step each, outside of the pool."""

from __future__ import annotations

from pathlib import Path

from buffers.log.parts import Lookup
from buffers.log.tail import Tail
from buffers.run.runfolder import DRAWN
from rods.tasks import AnyTask

Place = tuple[int, int, int]  # step, slot of its batch (from 0), difficulty: what a task is drawn once for


class DrawnTasks:
    """Follows drawn.jsonl. In memory stay two numbers a task, the contents on the disk."""

    def __init__(self, folder: Path, *, strict: bool = False) -> None:
        self.path = folder / DRAWN
        self.seqs: dict[Place, int] = {}
        self._by_id: dict[str, int] = {}
        self._tail = Tail(self.path, strict=strict)
        self._log = Lookup(self.path)

    def poll(self) -> None:
        """Reads on."""
        for record in self._tail.records():
            self.seqs.setdefault((record["step"], record["slot"], record["difficulty"]), record["seq"])
            self._by_id.setdefault(str(record["task"]["id"]), record["seq"])

    def task(self, task_id: str) -> AnyTask:
        """The drawn task of this id; reads on where it is not known. Raises KeyError where there is none, or damage
        took it."""
        if task_id not in self._by_id:
            self.poll()
        return self._read(self._by_id[task_id])

    def at(self, place: Place) -> AnyTask:
        """What was drawn there, as far as it was read. Raises as `task`."""
        return self._read(self.seqs[place])

    def _read(self, seq: int) -> AnyTask:
        return AnyTask.from_json(self._log[seq]["task"])
