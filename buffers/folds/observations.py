"""The fold of observations.jsonl: live steps, the tracker, the latest attempt (DESIGN §4).

Readers of any process follow the log with `Observations`; it folds anew when a start drops steps that it has folded.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from buffers.folds.lineage import Lineage, known_starts
from buffers.folds.snapshots import Snapshot, Snapshots
from buffers.log.records import Record
from buffers.log.tail import Tail
from buffers.run.run import Run
from rods.canonical import ID_DIGITS
from rods.observations import Group
from rods.rules.tracker import Tracker
from rods.runfolder import OBSERVATIONS

DIGEST = ID_DIGITS // 2  # bytes


@dataclass(frozen=True, slots=True)
class Step:
    """A live closed step: its closing record and the records of its groups in order of index."""

    record: Record
    records: list[Record]

    @property
    def attempt(self) -> int:
        return int(self.record["attempt"])

    @property
    def step(self) -> int:
        return int(self.record["step"])

    @property
    def epoch(self) -> int:
        return int(self.record["epoch"])

    @property
    def stage(self) -> int:
        return int(self.records[0]["stage"]) if self.records else 1  # all of its groups were lost

    @property
    def groups(self) -> list[Group]:
        return [Group.from_json(record) for record in self.records]


class Made(NamedTuple):
    """A live step in short: who made it, in which epoch, and the digest of what was reported."""

    attempt: int
    epoch: int
    digest: str


class Steps:
    """All live steps in short. A run has many, so each takes ten bytes, and each stretch of one epoch a few numbers."""

    def __init__(self) -> None:
        self._firsts: list[int] = []  # of each stretch: its first step,
        self._stretches: list[tuple[int, int, int]] = []  # attempt, epoch, where its digests begin
        self._digests = bytearray()
        self._last = 0  # step

    def add(self, step: int, made: Made) -> None:
        """Takes the step after those taken before."""
        if not self._stretches or step != self._last + 1 or (made.attempt, made.epoch) != self._stretches[-1][:2]:
            self._firsts.append(step)
            self._stretches.append((made.attempt, made.epoch, len(self._digests)))
        self._digests += bytes.fromhex(made.digest)
        self._last = step

    def as_json(self) -> Any:
        return [self._firsts, self._stretches, self._digests.hex(), self._last]

    @staticmethod
    def from_json(state: Any) -> Steps:
        found = Steps()
        found._firsts, stretches, digests, found._last = state
        found._stretches = [(attempt, epoch, begin) for attempt, epoch, begin in stretches]
        found._digests = bytearray.fromhex(digests)
        return found

    def get(self, step: int) -> Made | None:
        """None for a step that is not live."""
        place = bisect_right(self._firsts, step) - 1
        if place < 0:
            return None
        attempt, epoch, begin = self._stretches[place]
        end = len(self._digests) if place + 1 == len(self._stretches) else self._stretches[place + 1][2]
        begin += (step - self._firsts[place]) * DIGEST
        return Made(attempt, epoch, self._digests[begin : begin + DIGEST].hex()) if begin < end else None


class Observations:
    """Follows a run's observations. The tracker holds the live steps that `steps` or `poll` have passed."""

    lineage: Lineage
    tracker: Tracker
    last_step: int  # live and closed; 0 before the first
    epoch: int  # of that step
    steps_made: Steps  # the live ones
    snapshot: int  # the seq up to which closed parts need not be read again
    tail: Tail

    def __init__(self, run: Run, *, strict: bool = False, history: bool = True, keep: bool = False) -> None:
        """`history`: whether every live step is wanted; without it, a fold begins behind the latest snapshot. `keep`:
        write snapshots, for the owner of the log."""
        self.path = run.path / OBSERVATIONS
        self._config, self._strict, self._history, self._keep = run.config, strict, history, keep
        self._snapshots = Snapshots(self.path, [run.config.zones.model_dump(), run.config.selection.boundary])
        self.rewound = False  # whether the last poll met a start that dropped steps
        self.leaving: deque[tuple[int, str]] = deque()  # a step, and the tasks to be forgotten once it was folded
        self._fold_anew()

    @property
    def attempt(self) -> int:
        """The latest attempt; 0 before the first start."""
        return self.lineage.attempt

    def live(self, attempt: int, step: int) -> bool:
        """Whether `step` is closed, counts, and was made by `attempt`. Step 0 always is: nothing was done yet."""
        return step == 0 or ((made := self.steps_made.get(step)) is not None and made.attempt == attempt)

    def poll(self) -> list[Step]:
        """Live steps that were closed since the last poll. After a rewind (`rewound`) the tracker holds what is left,
        and only steps after the ones left are returned."""
        return list(self.steps())

    def steps(self) -> Iterator[Step]:
        """The same, one by one: for a long history. Take it to its end."""
        self.rewound = False
        known = 0.0  # up to here the caller has seen what still counts
        while True:
            attempt = self.attempt
            for step in self._follow():
                if step is None:
                    self._fold_anew()
                    kept = self.lineage.limit(attempt)
                    known = min(known, kept) if self.rewound else kept
                    self.rewound = True
                    break
                if step.step > known:
                    yield step
            else:
                return

    def catch_up(self) -> None:
        """Folds what is new, for who wants no steps: their records then die young, which makes a long history cheap."""
        self.rewound = False
        while any(step is None for step in self._follow(wanted=False)):
            self._fold_anew()
            self.rewound = True

    def forget(self, tasks: Iterable[str], step: int) -> None:
        """`tasks` have left the pool for good after `step`: what was observed of them is not asked for any more."""
        self.leaving.append((step, " ".join(tasks)))

    def let_go(self) -> None:
        """Forgets what has left by now."""
        while self.leaving and self.leaving[0][0] <= self.last_step:
            for task in self.leaving.popleft()[1].split():
                self.tracker.forget(task)

    def _follow(self, *, wanted: bool = True) -> Iterator[Step | None]:
        """Folds what is new; yields it when `wanted`, and None when a start drops steps that were folded."""
        for block in self.tail.blocks():
            if self.tail.closed > self.snapshot:  # up to there, all is folded
                self.snapshot = self.tail.closed
                if self._keep:
                    self._snapshots.write(self.snapshot, self.state())
            for index, record in enumerate(block):
                kind = record["kind"]
                if kind == "group":
                    continue
                if kind == "start":
                    if self.lineage.add(record) and record["from_step"] < self.last_step:
                        yield None
                elif kind == "step" and self.lineage.live(record["attempt"], record["step"]):
                    self.let_go()
                    groups = block[index - (record["seq"] - record["first"]) : index]
                    self.tracker.apply(groups)
                    self.last_step = record["step"]
                    self.epoch = record["epoch"]
                    self.steps_made.add(self.last_step, Made(record["attempt"], record["epoch"], record["digest"]))
                    if wanted:
                        yield Step(record, [one for one in groups if one["kind"] == "group"])  # none that was lost
                    del groups

    def _fold_anew(self) -> None:
        self.snapshot = 0
        self.tracker = Tracker(self._config.zones, self._config.selection.boundary)
        for snapshot in self._snapshots.newest() if not self._history else ():
            if self._begin_behind(snapshot):
                return
        self.lineage = known_starts(self.path)
        self.last_step = 0
        self.epoch = 0
        self.steps_made = Steps()
        self.tail = Tail(self.path, strict=self._strict)

    def _begin_behind(self, snapshot: Snapshot) -> bool:
        """False when a later start has dropped steps that the snapshot holds."""
        lineage, last_step, epoch, steps, tracker = snapshot.state
        before = Lineage.from_json(lineage)
        known = known_starts(self.path, Lineage.from_json(lineage), snapshot.parts)
        if known.limit(before.attempt) < last_step:
            return False
        self.lineage, self.last_step, self.epoch = known, last_step, epoch
        self.steps_made = Steps.from_json(steps)
        self.snapshot = snapshot.seq
        self.tracker.load(tracker)
        self.tail = Tail(self.path, strict=self._strict, after=snapshot.seq, skip=snapshot.parts)
        return True

    def state(self) -> Any:
        """What a snapshot keeps, as JSON can say it."""
        return [self.lineage.as_json(), self.last_step, self.epoch, self.steps_made.as_json(), self.tracker.state()]


def digest(epoch: int, policy_step: int, groups: list[dict[str, Any]]) -> str:
    """What makes two reports of one step the same: 20 hex digits over everything reported."""
    report = orjson.dumps([epoch, policy_step, groups], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(report).hexdigest()[:ID_DIGITS]
