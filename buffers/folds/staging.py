"""The fold of the expanded log: accepted variants that no merge has decided about."""

from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from rods.buffers.log.parts import Lookup
from rods.buffers.log.tail import Tail
from rods.buffers.run.runfolder import EXPANDED
from rods.tasks import AnyTask


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant that waits for a decision. Its task stays on the disk: a run may stage more than
    memory should hold."""

    seq: int
    pick: str
    step: int
    rank: int  # of the pick among those of its step
    index: int  # of the variant among those of its pick
    _log: Lookup = field(repr=False, compare=False)

    @property
    def content(self) -> Any:
        """The task as JSON, not yet believed; read from the log. Raises KeyError,
        CorruptLogError."""
        return self._log[self.seq]["task"]

    @property
    def task(self) -> AnyTask | None:
        """The same as a task; None where it is none, and a merge will refuse it."""
        with suppress(ValueError):
            return AnyTask.from_json(self.content)
        return None


class Staging:
    """Follows the expanded log. Its length is the number of variants that wait."""

    def __init__(
        self, folder: Path, *, strict: bool = False, newest: Callable[[], int | None] = lambda: None
    ) -> None:
        """`strict`, `newest`: as for a Tail."""
        self.path = folder / EXPANDED
        self.tail = Tail(self.path, strict=strict, newest=newest)
        self._log = Lookup(self.path)
        self._waiting: dict[int, Candidate] = {}
        self._begun = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def seq(self) -> int:
        """The highest seq below which no seq is missing among those read."""
        return self.tail.seq

    def poll(self, decided: Container[int] = (), waiting: int = 0) -> None:
        """Reads on. `decided`: seqs that do not wait any more, all below `waiting` among them, of
        which none is read by a first look."""
        if waiting and not self._begun:
            with suppress(FileNotFoundError):  # being renamed
                self.tail.begin_before(waiting)
        self._begun = True
        for record in self.tail.records():
            if record["seq"] not in decided:
                where = record["step"], record["rank"], record["index"]
                self._waiting[record["seq"]] = Candidate(
                    record["seq"], record["pick"], *where, self._log
                )

    def decide(self, seq: int) -> None:
        """A merge has injected or refused the variant at `seq`."""
        self._waiting.pop(seq, None)

    def candidates(self, upto: int, *, by_pick: bool) -> list[Candidate]:
        """What waits up to seq `upto`: in the order of the log, or of the picks."""
        waiting = [candidate for candidate in self._waiting.values() if candidate.seq <= upto]
        return (
            sorted(waiting, key=attrgetter("step", "index", "rank", "seq")) if by_pick else waiting
        )

    def task(self, seq: int) -> AnyTask:
        """The variant at `seq`, decided about or not, from the log. Raises KeyError when it is not
        there or was lost to damage, ValueError when it is no task."""
        return AnyTask.from_json(self._log[seq]["task"])
