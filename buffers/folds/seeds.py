"""The fold of seeds.jsonl and the expanded log: what the daemon has considered, picked, written and
finished.

The daemon continues from it after a start; in lockstep the trainer reads the watermark.
"""

from dataclasses import dataclass, field
from pathlib import Path

from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import Tail
from rods.buffers.run.runfolder import EXPANDED, SEEDS


@dataclass(slots=True)
class Unfinished:
    """A pick without its `finished` record. `variants` are those of it in the expanded log: index →
    task id."""

    pick: str
    step: int
    epoch: int
    task: str
    rank: int
    record: Record
    variants: dict[int, str] = field(default_factory=dict)


class Seeds:
    """Follows seeds.jsonl and the expanded log."""

    def __init__(self, folder: Path, *, strict: bool = False) -> None:
        self.last_considered = 0  # the highest; steps are considered in ascending order
        self.unfinished: dict[str, Unfinished] = {}
        # task → the latest step that picked it and did not drop it as stale
        self.last_picked: dict[str, int] = {}
        self._open: dict[int, int] = {}  # step → its unfinished picks
        self._watermark = 0
        self._seeds = Tail(folder / SEEDS, strict=strict)
        self._variants = Tail(folder / EXPANDED, strict=strict)

    @property
    def watermark(self) -> int:
        """In lockstep: the last step such that every step up to it is considered and every pick
        finished. Steps are considered one after the other there; one whose record damage took will
        not be considered again."""
        before = (step - 1 for step in self._open if step > self._watermark)
        self._watermark = max(self._watermark, min([self.last_considered, *before]))
        return self._watermark

    def done(self, step: int) -> bool:
        """Whether `step`, or a later one, was considered and no pick is left to be finished."""
        return self.last_considered >= step and not self.unfinished

    def poll(self) -> None:
        """Folds what is new. Picks come first: a variant's pick is durable before it."""
        for record in self._seeds.records():
            self.apply(record)
        for record in self._variants.records():
            self.apply(record)

    def apply(self, record: Record) -> None:
        kind = record["kind"]
        if kind == "picked":
            pick = record["pick"]
            task = record["task"]
            step = record["step"]
            self.unfinished[pick] = Unfinished(
                pick, step, record["epoch"], task, record["rank"], record
            )
            self.last_picked[task] = step
            self._open[step] = self._open.get(step, 0) + 1
        elif kind == "considered":
            self.last_considered = max(self.last_considered, record["step"])
        elif kind == "finished":
            unfinished = self.unfinished.pop(record["pick"], None)
            if unfinished is None:
                return
            self._open[unfinished.step] -= 1
            if not self._open[unfinished.step]:
                del self._open[unfinished.step]
            if (
                record["dropped_stale"] is not None
                and self.last_picked.get(unfinished.task) == unfinished.step
            ):
                del self.last_picked[unfinished.task]
        elif kind == "expanded" and (pick := self.unfinished.get(record["pick"])) is not None:
            pick.variants[record["index"]] = record["task"]["id"]
