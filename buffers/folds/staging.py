"""Accepted variants, read from the expanded log: candidates for a merge, and the content of what was injected."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from buffers.log.parts import segments
from buffers.log.records import Record
from buffers.log.seeking import record_at
from buffers.log.tail import Tail
from rods.runfolder import EXPANDED
from rods.tasks import Task


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant waiting for a decision, or kept because it was injected."""

    seq: int
    pick: str
    step: int
    rank: int  # of the pick among those of its step
    index: int  # of the variant among those of its pick
    packed: bytes  # the task as compressed JSON, not yet believed: a run writes more variants than memory should hold

    @property
    def content(self) -> Any:
        return orjson.loads(zlib.decompress(self.packed))

    @property
    def pick_order(self) -> tuple[int, int, int, int]:
        return self.step, self.rank, self.index, self.seq


class Staging:
    """Follows the expanded log. Keeps what is wanted when it is read, until it is forgotten; whoever asks for something
    else has it looked up in the log."""

    def __init__(self, folder: Path, wanted: Callable[[int], bool] = lambda seq: True, *, strict: bool = False) -> None:
        self.path = folder / EXPANDED
        self.tail = Tail(self.path, strict=strict)
        self._wanted = wanted  # the variant with this seq
        self._candidates: dict[int, Candidate] = {}

    @property
    def seq(self) -> int:
        """The highest seq below which no seq is missing among those read."""
        return self.tail.seq

    def poll(self) -> None:
        """Reads on."""
        for record in self.tail.records():
            if self._wanted(record["seq"]):
                self._candidates[record["seq"]] = _candidate(record)

    def waiting(self, decided: Container[int]) -> int:
        """How many variants nobody has decided about."""
        return sum(seq not in decided for seq in self._candidates)

    def candidates(self, upto: int, decided: Container[int], *, by_pick: bool) -> list[Candidate]:
        """What waits up to seq `upto`: in the order of the log, or of the picks."""
        waiting = [one for one in self._candidates.values() if one.seq <= upto and one.seq not in decided]
        return sorted(waiting, key=lambda one: one.pick_order) if by_pick else waiting

    def candidate(self, seq: int) -> Candidate:
        """The variant at `seq`, as it was written. Raises KeyError."""
        kept = self._candidates.get(seq)
        return kept if kept is not None else _candidate(record_at(self.path, seq))

    def task(self, seq: int) -> Task:
        """The variant at `seq`. Raises KeyError or ValueError for one that is unknown or no task."""
        return Task.from_json(self.candidate(seq).content)

    def forget(self, seq: int) -> None:
        """Drops the content of a variant that is not expected to be asked for."""
        self._candidates.pop(seq, None)

    def parts(self) -> list[Path]:
        """The files of the log."""
        return segments(self.path)


def _candidate(record: Record) -> Candidate:
    packed = zlib.compress(orjson.dumps(record["task"]), level=1)
    return Candidate(record["seq"], record["pick"], record["step"], record["rank"], record["index"], packed)
