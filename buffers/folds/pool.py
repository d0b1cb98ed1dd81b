"""The pool: which tasks are trained on, folded from tasks.jsonl, the starts and pool.jsonl (DESIGN §4).

`Pool` is the state and the effect of each record on it. `PoolView` follows a living run: it folds anew when a start
drops epochs, and knows the content of variants from the expanded log.

Memory is in proportion to what is active, staged, or may be revived. Of any other variant fourteen bytes are left: its
id, which must not be injected again, and where it is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from buffers.folds.compact import SeqOf, Seqs
from buffers.folds.observations import Observations
from buffers.folds.staging import Staging
from buffers.log.records import Record
from buffers.log.tail import Tail, read
from buffers.run.run import Run
from rods.errors import CorruptLogError
from rods.rules.retirement import TOO_HARD
from rods.runfolder import POOL
from rods.tasks import Task, TaskType


@dataclass(frozen=True, slots=True)
class Member:
    """A task of the pool. `epoch` admitted it; its groups of steps after `since` count for retirement; a variant stands
    at `seq` in the expanded log (0: given)."""

    task_id: str
    type: TaskType
    generation: int  # 0 for originals
    epoch: int = 0
    since: int = 0
    seq: int = 0

    @property
    def generated(self) -> bool:
        return self.generation > 0

    @staticmethod
    def given(task: Task) -> Member:
        """A task given at the start. A fork gives variants too, which its parent wrote and which stay variants."""
        variant = task.provenance.get("origin") == "variant"
        return Member(task.id, task.type, int(task.provenance["generation"]) if variant else 0)


@dataclass(frozen=True, slots=True)
class Retired:
    """A variant that has left the pool: by which rule, in which epoch, after which step."""

    member: Member
    rule: str
    epoch: int
    step: int


class Opened(NamedTuple):
    """A live epoch in short; a run has many."""

    attempt: int
    step: int  # the last one before its merge
    stage: int


class Pool:
    """State after some `epoch` record."""

    def __init__(self, members: Iterable[Member]) -> None:
        self.active = {member.task_id: member for member in members}
        self.revivable: dict[str, Retired] = {}  # retired as too hard: what re-tests may bring back
        self.decided = Seqs()  # of variants that were injected or refused
        self.epochs: list[Opened] = []  # by number
        self.latest: Record | None = None  # the last `epoch` record
        self.totals: Counter[str] = Counter()  # of the counts in those records

    def copy(self) -> Pool:
        other = Pool(())
        other.active, other.revivable = dict(self.active), dict(self.revivable)
        other.decided, other.epochs = self.decided.copy(), list(self.epochs)
        other.latest, other.totals = self.latest, self.totals.copy()
        return other

    @property
    def generated(self) -> list[Member]:
        """Active variants, by id."""
        return sorted((member for member in self.active.values() if member.generated), key=lambda one: one.task_id)

    @property
    def too_hard(self) -> list[Retired]:
        """What re-tests may bring back, by id."""
        return sorted(self.revivable.values(), key=lambda one: one.member.task_id)

    @property
    def retired(self) -> int:
        """How many have left and not come back."""
        return self.totals["retired"] - self.totals["revived"]

    def apply(self, record: Record) -> None:
        """The effect of one record of a closed, live group."""
        kind = record["kind"]
        if kind == "injected":
            self.decided.add(record["expanded"])
            self.active[record["task"]] = Member(
                record["task"],
                record["type"],
                record["generation"],
                record["epoch"],
                record["step"],
                record["expanded"],
            )
        elif kind == "refused":
            self.decided.add(record["expanded"])
        elif kind == "retired":
            member = self.active.pop(record["task"])
            if record["rule"] in TOO_HARD:
                self.revivable[member.task_id] = Retired(member, record["rule"], record["epoch"], record["step"])
        elif kind == "revived":
            gone = self.revivable.pop(record["task"])
            self.active[record["task"]] = replace(gone.member, epoch=record["epoch"], since=gone.step)
        elif kind == "epoch":
            self.epochs.append(Opened(record["attempt"], record["step"], record["stage"]))
            self.latest = record
            self.totals.update(record["counts"])


class LostVariant(CorruptLogError):
    """A variant is in the pool, and damage took the record that holds it."""


class PoolView:
    """Follows the live pool. `observations` must be polled first: it knows which attempts count. (At a start, before it
    has been polled, it knows all starts; polling the pool first as well lets it forget what has left on its way.)"""

    pool: Pool
    staging: Staging
    injected: SeqOf  # variants that were injected in live epochs, with their seqs in the expanded log
    tail: Tail
    _kept: set[int]  # seqs of those that are active or may be revived
    _waiting: list[Record]
    _ahead: bool

    def __init__(self, run: Run, observations: Observations, *, strict: bool = False) -> None:
        self.run = run
        self.fixed: dict[int, int] = {}  # epoch number → the expanded_seq that its first closed record fixed
        self._observations, self._strict = observations, strict
        self._attempt = 0  # the latest when the fold last looked
        self._given = {task.id: task for task in run.tasks}
        self._fold_anew()

    @property
    def active(self) -> dict[str, Member]:
        return self.pool.active

    @property
    def epoch(self) -> int:
        """The number of the latest live epoch; -1 before the first merge."""
        return len(self.pool.epochs) - 1

    @property
    def stage(self) -> int:
        """The curriculum stage of that epoch, counted from 1."""
        return self.pool.epochs[-1].stage if self.pool.epochs else 1

    def task(self, task_id: str) -> Task:
        """A given task or a variant that was injected. Raises KeyError for any other id, LostVariant."""
        given = self._given.get(task_id)
        if given is not None:
            return given
        seq = self.injected[task_id]
        try:
            return self.staging.task(seq)
        except KeyError as error:
            raise LostVariant(
                f"variant {task_id} of the pool was lost to damage (record {seq})",
                where=str(self.staging.path),
                remedy="start a new run from this one with `rods fork`, which leaves it out",
            ) from error

    def contents(self) -> Iterator[Task]:
        """The variants that are active or may be revived, but for those that were lost to damage."""
        for task_id in (*self.pool.active, *self.pool.revivable):
            if task_id not in self._given:
                with suppress(LostVariant):
                    yield self.task(task_id)

    def poll(self) -> list[Record]:
        """Folds what is new; returns the new live `epoch` records."""
        if self._ahead or self._rewound():
            self._fold_anew()
        new = []
        for group in self._groups():
            if group[-1]["epoch"] != len(self.pool.epochs):
                self._ahead = True  # of observations: a start that drops epochs is there and was not read yet
                break
            for record in group:
                self._note(record)
                self.pool.apply(record)
            if left := [one["task"] for one in group if one["kind"] == "retired" and one["rule"] not in TOO_HARD]:
                self._observations.forget(left, group[-1]["step"])
            new.append(group[-1])
        self.staging.poll()  # last, so that what is decided is not kept in the first place
        self._observations.let_go()
        return new

    def _rewound(self) -> bool:
        """Whether epochs that were folded do not count any more, or the tracker knows again what it was to forget."""
        attempt, self._attempt = self._attempt, self._observations.attempt
        if self._tracker is not self._observations.tracker:
            return True
        return attempt != self._attempt and not all(self._live(one.attempt, one.step) for one in self.pool.epochs)

    def _note(self, record: Record) -> None:
        """Remembers where an injected variant is written, and forgets the content of what will not come back."""
        kind = record["kind"]
        if kind == "injected":
            self.injected.add(record["task"], record["expanded"])
            self._kept.add(record["expanded"])
        elif kind == "refused":
            self.staging.forget(record["expanded"])
        elif kind == "retired" and record["rule"] not in TOO_HARD:
            seq = self.pool.active[record["task"]].seq
            self._kept.discard(seq)
            self.staging.forget(seq)

    def _wanted(self, seq: int) -> bool:
        return seq not in self.pool.decided or seq in self._kept

    def _groups(self) -> Iterator[list[Record]]:
        """New closed groups of live epochs, each ending in its `epoch` record."""
        for record in self.tail.records():
            self._waiting.append(record)
            if record["kind"] == "epoch":
                group = self._waiting
                self._waiting = []
                self.fixed.setdefault(record["epoch"], record["expanded_seq"])
                if self._live(record["attempt"], record["step"]):
                    yield group

    def _live(self, attempt: int, step: int) -> bool:
        return self._observations.lineage.live(attempt, step)

    def _fold_anew(self) -> None:
        self.pool = Pool(initial(self.run))
        self.tail = Tail(self.run.path / POOL, strict=self._strict)
        self._waiting = []
        self._ahead = False
        self.injected, self._kept = SeqOf(), set()
        # What was decided may wait again. Never strict: the daemon may be writing, and what has not arrived will.
        self.staging = Staging(self.run.path, self._wanted)
        self._tracker = self._observations.tracker
        self._observations.leaving.clear()


def initial(run: Run) -> list[Member]:
    """The members before epoch 0."""
    return [Member.given(task) for task in run.training.values()]


def pool_at(run: Run, observations: Observations, epoch: int) -> Pool:
    """The live pool behind the record of `epoch`. Raises KeyError when there is none."""
    pool = Pool(initial(run))
    group: list[Record] = []
    for record in read(run.path / POOL):
        group.append(record)
        if record["kind"] == "epoch":
            if observations.lineage.live(record["attempt"], record["step"]):
                for member in group:
                    pool.apply(member)
                if record["epoch"] == epoch:
                    return pool
            group = []
    raise KeyError(epoch)


def counts(pool: Pool) -> dict[str, Any]:
    """How many tasks are active, by origin."""
    generated = sum(member.generated for member in pool.active.values())
    return {"active": len(pool.active), "originals": len(pool.active) - generated, "generated": generated}
