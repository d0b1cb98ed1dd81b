"""The folds of the daemon's logs. `Seeds`: what it has considered, picked, written and finished; it
goes on from there after a start, and in lockstep the trainer reads the watermark. `DaemonTotals`:
what became of its picks, and why candidates failed, in counts."""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rods.buffers.folds.snapshots import KeptTail, Snapshots
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import Tail
from rods.buffers.run.runfolder import EXPANDED, REJECTED, SEEDS
from rods.canonical import JsonObject


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

    @property
    def accepted(self) -> list[str]:
        """Its variants on record, in the order of their indices."""
        return [task_id for _, task_id in sorted(self.variants.items())]


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


class DaemonTotals:
    """Follows seeds.jsonl and rejected.jsonl. Both grow for months, so it begins behind the
    snapshots that the daemon keeps of their closed parts. `barren`: finished picks since the last
    one that gave a variant; `failed`: attempts that were read since then, by "stage: error";
    `example`: the latest evidence of each. `failures`: how many candidates failed alike, and the
    seq of the latest in rejected.jsonl."""

    def __init__(self, folder: Path, *, every_record: bool = False, keep: bool = False) -> None:
        """`every_record`: whether the caller takes them all, from the first on. `keep`: write
        snapshots, for the owner of the logs."""
        self.picks = Counter[str]()  # by the type of the seed
        self.considered = 0  # the last step
        self.outcomes = Counter[str]()  # of finished picks: accepted, discarded or dropped_stale
        self.discards = Counter[str]()  # why picks gave no variant: the reason of the last attempt
        self.accepted = self.barren = 0
        self.failures: dict[tuple[str, str], tuple[int, int]] = {}  # by stage and error
        self.failed = Counter[str]()
        self.example: JsonObject = {}
        # in the order in which they are to be read
        self.tails = {
            log: KeptTail(
                Snapshots(folder / log, None),
                None if every_record else partial(self._restore, log),
                partial(self._snapshot, log) if keep else None,
            )
            for log in (SEEDS, REJECTED)
        }

    def poll(self) -> None:
        """Reads on."""
        for tail in self.tails.values():
            for record in tail.records():
                self.apply(record)

    def apply(self, record: Record) -> None:
        kind = record["kind"]
        if kind == "picked":
            self.picks[record["type"]] += 1
        elif kind == "considered":
            self.considered = max(self.considered, record["step"])
        elif kind == "finished":
            accepted = record["accepted"]
            stale = record["dropped_stale"]
            self.outcomes[
                "dropped_stale" if stale else "accepted" if accepted else "discarded"
            ] += 1
            self.accepted += len(accepted)
            if record.get("why") and not accepted:
                self.discards[record["why"]] += 1
            if not stale:
                self.barren = 0 if accepted else self.barren + 1
            if accepted:
                self.failed.clear()
        elif kind == "rejected":
            alike = record["stage"], record["error"]
            self.failures[alike] = self.failures.get(alike, (0, 0))[0] + 1, record["seq"]
            failure = f"{record['stage']}: {record['error']}"
            self.failed[failure] += 1
            self.example[failure] = record["evidence"]

    def _snapshot(self, log: str) -> Any:
        """What is kept of a log, as JSON, for `_restore`."""
        if log == SEEDS:
            counts = (self.picks, self.outcomes, self.discards)
            return [*counts, self.considered, self.accepted, self.barren]
        return [
            [[*alike, *seen] for alike, seen in self.failures.items()],
            self.failed,
            self.example,
        ]

    def _restore(self, log: str, kept: Any, parts: frozenset[str]) -> bool:
        if log == SEEDS:
            self.picks, self.outcomes, self.discards = map(Counter, kept[:3])
            self.considered, self.accepted, self.barren = kept[3:]
        else:
            self.failures = {(stage, error): (count, seq) for stage, error, count, seq in kept[0]}
            self.failed = Counter(kept[1])
            self.example = kept[2]
        return True
