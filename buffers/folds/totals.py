"""The fold of seeds.jsonl and rejected.jsonl into counts: what became of the daemon's picks, and
why candidates failed.

Both logs grow for months, so it begins behind the snapshots that the daemon keeps of their closed
parts."""

from collections import Counter
from pathlib import Path
from typing import Any

from rods.buffers.folds.snapshots import Snapshots
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import Tail
from rods.buffers.run.runfolder import REJECTED, SEEDS


class DaemonTotals:
    """Follows both logs. `barren`: finished picks since the last one that gave a variant; `failed`:
    attempts that were read since then, by "stage: error"; `example`: the latest evidence of each.
    `failures`: how many candidates failed alike, and the seq of the latest in rejected.jsonl."""

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
        self.example: dict[str, Any] = {}
        self._keep = keep
        self._snapshots = {log: Snapshots(folder / log, None) for log in (SEEDS, REJECTED)}
        self.tails: dict[str, Tail] = {}  # in the order in which they are to be read
        for log, snapshots in self._snapshots.items():
            seq, skip, state = next(
                iter(()) if every_record else snapshots.newest(), (0, frozenset[str](), None)
            )
            self.tails[log] = Tail(folder / log, after=seq, skip=skip)
            if state is not None:
                self._load(log, state)
        self._kept = {log: tail.seq for log, tail in self.tails.items()}

    def poll(self) -> None:
        """Reads on."""
        for log, tail in self.tails.items():
            for record in tail.records():
                if self._keep and tail.closed > self._kept[log]:  # up to there, all is counted
                    self._kept[log] = tail.closed
                    self._snapshots[log].write(tail.closed, self._state(log))
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

    def _state(self, log: str) -> Any:
        """What a snapshot keeps of a log, as JSON can say it."""
        if log == SEEDS:
            counts = (self.picks, self.outcomes, self.discards)
            return [*counts, self.considered, self.accepted, self.barren]
        return [
            [[*alike, *seen] for alike, seen in self.failures.items()],
            self.failed,
            self.example,
        ]

    def _load(self, log: str, state: Any) -> None:
        if log == SEEDS:
            self.picks, self.outcomes, self.discards = map(Counter, state[:3])
            self.considered, self.accepted, self.barren = state[3:]
        else:
            self.failures = {(stage, error): (count, seq) for stage, error, count, seq in state[0]}
            self.failed = Counter(state[1])
            self.example = state[2]
