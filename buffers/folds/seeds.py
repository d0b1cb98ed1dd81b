"""The fold of seeds.jsonl and the expanded log: what the daemon has considered, picked, written and finished.

The daemon continues from it after a start; in lockstep the trainer reads the watermark (DESIGN §4, *Pick*).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from buffers.log.records import Record
from buffers.log.tail import Tail
from rods.runfolder import EXPANDED, SEEDS

FEW = 1024


@dataclass(slots=True)
class Unfinished:
    """A pick without its `finished` record. `variants` are those of it in the expanded log: index → task id."""

    pick: str
    step: int
    epoch: int
    task: str
    rank: int
    record: Record
    variants: dict[int, str] = field(default_factory=dict)


class Seeds:
    """Follows seeds.jsonl and the expanded log."""

    def __init__(self, folder: Path, *, exclusion_steps: int = 0, strict: bool = False) -> None:
        """`exclusion_steps`: for how long `last_picked` remembers a task."""
        self.last_considered = 0  # the highest; steps are considered in ascending order
        self.unfinished: dict[str, Unfinished] = {}
        self.last_picked: dict[str, int] = {}  # task → the latest step that picked it and did not drop it as stale
        self._exclusion_steps = exclusion_steps
        self._kept = FEW  # of last_picked, when it was last looked through
        self._open: dict[int, int] = {}  # step → its unfinished picks
        self._watermark = 0
        self._seeds = Tail(folder / SEEDS, strict=strict)
        self._variants = Tail(folder / EXPANDED, strict=strict)

    @property
    def watermark(self) -> int:
        """In lockstep: the last step such that every step up to it is considered and every pick finished. Steps are
        considered one after the other there; one whose record damage took will not be considered again."""
        while self._watermark < self.last_considered and self._watermark + 1 not in self._open:
            self._watermark += 1
        return self._watermark

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
            self.unfinished[pick] = Unfinished(
                pick, record["step"], record["epoch"], record["task"], record["rank"], record
            )
            self.last_picked[record["task"]] = record["step"]
            self._open[record["step"]] = self._open.get(record["step"], 0) + 1
        elif kind == "considered":
            self.last_considered = max(self.last_considered, record["step"])
            self._forget()
        elif kind == "finished":
            gone = self.unfinished.pop(record["pick"], None)
            if gone is None:
                return
            self._open[gone.step] -= 1
            if not self._open[gone.step]:
                del self._open[gone.step]
            if record["dropped_stale"] is not None and self.last_picked.get(gone.task) == gone.step:
                del self.last_picked[gone.task]
        elif kind == "expanded" and (pick := self.unfinished.get(record["pick"])) is not None:
            pick.variants[record["index"]] = record["task"]["id"]

    def _forget(self) -> None:
        """Drops from `last_picked` what can exclude nothing any more; now and then, so that it costs nothing."""
        if len(self.last_picked) > 2 * self._kept:
            oldest = self.last_considered - self._exclusion_steps
            self.last_picked = {task: step for task, step in self.last_picked.items() if step >= oldest}
            self._kept = max(FEW, len(self.last_picked))
