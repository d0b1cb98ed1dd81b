"""Where a run stands: the one way to read its logs together.

`read_state` answers once; a `RunState` that is kept follows the run by `poll`. Nothing is written or locked, and no
process is asked, so anybody may read at any time.

**What it reads**, in this order: observations.jsonl (attempts, live steps, the tracker), pool.jsonl (who is active, who
has left), the expanded log (what is staged). The order makes it consistent, since what a record names is durable before
the record: the pool knows the attempt of every merge that counts, and whoever reads a step finds the record of its
epoch. What has not arrived on this host yet is read by a later poll; a merge of an attempt whose `start` was not read
yet waits for it. After a start that dropped steps or epochs everything is folded anew.

**What it costs**: a first read parses the logs once, or only what follows the latest snapshot of the observations when
no steps are asked for (`every_step=False`); a poll reads what is new. In memory stay some 0.7 kB for each task that was
ever observed, 0.3 kB for each variant that was ever injected, 10 bytes a step, and the contents of active variants that
were asked for; other contents are read from the disk when they are (docs/decisions/history.md).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from buffers.folds.drawn import DrawnTasks
from buffers.folds.observations import ClosedStep, Lineage, Observations, known_starts
from buffers.folds.pool import Member, Pool, initial, live_merges, merges
from buffers.folds.snapshots import Snapshot, Snapshots
from buffers.folds.staging import Staging
from buffers.log.records import Record
from buffers.log.tail import Tail, read
from buffers.run.run import Run
from buffers.run.runfolder import OBSERVATIONS, POOL
from rods.canonical import content_id
from rods.config import Component
from rods.errors import CorruptLogError
from rods.rules.curriculum import opening, stage_rules
from rods.rules.difficulty import Difficulty
from rods.rules.mining import Mining
from rods.rules.tracker import Tracker
from rods.rules.zones import ZONES
from rods.tasks import AnyTask

__all__ = ["ClosedStep", "Lineage", "LostVariant", "RunState", "Tail", "lineage", "read_state"]


class LostVariant(CorruptLogError):
    """A variant is in the pool, and damage took the record that holds it."""


def read_state(run: Run, *, strict: bool = True) -> RunState:
    """Where `run` stands now. `strict`: damage is an error in every form, also where it might be a write that is under
    way. Raises CorruptLogError."""
    state = RunState(run, strict=strict, every_step=False)
    state.poll()
    return state


def lineage(folder: Path) -> Lineage:
    """Which attempts' steps count in the run at `folder`; reads the log without folding it, which takes a tenth of the
    time."""
    return known_starts(folder / OBSERVATIONS)


class RunState:
    """A run's state, empty until the first `steps` or `poll`."""

    pool: Pool
    staging: Staging
    merged: int  # live merges that the last look has met
    _tail: Tail  # of pool.jsonl
    _snapshot: int  # the seq up to which closed parts of it need not be read again

    def __init__(
        self,
        run: Run,
        *,
        strict: bool = False,
        every_step: bool = True,
        recent: int = 0,
        keep_snapshots: bool = False,
        by_number: bool = False,
    ) -> None:
        """`strict`: as for `read_state`. `every_step`: whether `steps` is to yield them from the first on; without it,
        at least so many `recent` ones. `keep_snapshots`: for the owner of the observations. `by_number`: for who looks
        on: new files of variants are found by the number of their epoch, and the folder, which has one an epoch, is
        listed only when a merge was read."""
        self.run = run
        self.observations = Observations(run, strict=strict, every_step=every_step, recent=recent, keep=keep_snapshots)
        self.fixed: dict[int, int] = {}  # epoch number → the expanded_seq that its first closed record fixed
        self.feedback_fixed: dict[int, Record] = {}  # and what it said of feedback, where it did
        self.admitted_fixed: dict[int, int] = {}  # and how far it had read admissions
        self.drawn = DrawnTasks(run.path)  # read only when one of them is asked for
        self._strict, self._every_step, self._keep, self._by_number = strict, every_step, keep_snapshots, by_number
        self._snapshots = Snapshots(run.path / POOL, content_id([*run.training]))
        self._given = {task.id: task for task in run.tasks}
        self._attempt = 0  # the latest when pool.jsonl was last read
        self._ahead = False
        self._begin_pool()

    @property
    def attempt(self) -> int:
        """The latest attempt; 0 before the first start."""
        return self.observations.lineage.attempt

    @property
    def last_step(self) -> int:
        """The last live closed step; 0 before the first."""
        return self.observations.last_step

    @property
    def tracker(self) -> Tracker:
        """What the live steps say about each task; another object after a rewind."""
        return self.observations.tracker

    @property
    def mining(self) -> Mining:
        """The failures of live steps that repeat; another object after a rewind."""
        return self.observations.mining

    @property
    def difficulty(self) -> Difficulty:
        """Of drawn tasks: that of the next step, and what the last one came to; another object after a rewind."""
        return self.observations.difficulty

    @property
    def shown(self) -> frozenset[Component]:
        """The components of an evolving interface that the next step shows."""
        return self.observations.evolution.shown

    @property
    def update(self) -> Record | None:
        """The latest `update` record that was read; when a step is yielded, that of the step before."""
        return self.observations.update

    @property
    def rewound(self) -> bool:
        """Whether the last look met a start that dropped steps."""
        return self.observations.rewound

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

    def epoch_of(self, step: int) -> int:
        """The number of the epoch that a live step, or the next one, belongs to."""
        return bisect_left(self.pool.epochs, step, key=lambda one: one.step) - 1

    @property
    def static_pool_due(self) -> bool:
        """Whether the latest epoch is the one whose boundary a static pool is written from (004 Appendix R)."""
        curriculum = self.run.config.curriculum
        return self.epoch >= 0 and opening(curriculum, [one.stage for one in self.pool.epochs]) == self.epoch

    def unvisited(self) -> list[str]:
        """Active tasks of the latest epoch that none of its closed steps has named yet."""
        begun, types = self.pool.epochs[-1].step, stage_rules(self.run.config.curriculum, self.stage).types
        active = (member.task_id for member in self.active.values() if member.type in types)
        return [task_id for task_id in active if (self.tracker.last_step(task_id) or 0) <= begun]

    def live(self, attempt: int, step: int) -> bool:
        """Whether `step` is closed, counts, and was made by `attempt`: then its checkpoint may be resumed."""
        return self.observations.live(attempt, step)

    def steps(self) -> Iterator[ClosedStep]:
        """Reads on, and yields the live steps closed since the last look, one by one: when one is yielded, the tracker
        is as it stood after it. The caller must exhaust it: pool and staging follow in the end."""
        yield from self.observations.steps()
        self.read_merges()

    def poll(self) -> None:
        """Reads on. Cheaper than `steps` where nobody looks at them."""
        self.observations.catch_up()
        self.read_merges()

    def read_merges(self) -> None:
        """Reads pool and staging on, but not the observations: for a merge, which must not learn of later steps."""
        if self._ahead or self._rewound():
            self._begin_pool()
        self.merged = 0
        for group in merges(self._tail.records()):
            if self._tail.closed > self._snapshot:  # up to there, all is folded
                self._snapshot = self._tail.closed
                if self._keep:
                    self._snapshots.write(self._snapshot, self._pool_state())
            closing = group[-1]
            self.fixed.setdefault(closing["epoch"], closing["expanded_seq"])
            self.admitted_fixed.setdefault(closing["epoch"], closing.get("admissions", 0))
            if "feedback" in closing:
                self.feedback_fixed.setdefault(closing["epoch"], closing["feedback"])
            if not self.observations.lineage.keeps(closing["attempt"], closing["step"]):
                continue
            if closing["epoch"] != len(self.pool.epochs):
                self._ahead = True  # of observations: a start that drops epochs is there and was not read yet
                break
            for record in group:
                self.pool.apply(record)
                if "expanded" in record:
                    self.staging.decide(record["expanded"])
                self._variants.pop(record.get("task", ""), None)
            self.merged += 1
        # A part is called after an epoch that has begun, so one of those in `fixed`, whose last is the highest.
        self.staging.tail.newest = next(reversed(self.fixed), 0) if self._by_number and not self.merged else None
        self.staging.poll(self.pool.decided, 0 if self._every_step else self.pool.waiting)

    def task(self, task_id: str) -> AnyTask:
        """A given task, a variant that was injected, or one that was drawn for a step. Raises KeyError for any other
        id, LostVariant."""
        known = self._given.get(task_id) or self._variants.get(task_id)
        if known is not None:
            return known
        if task_id not in self.pool.injected:
            return self.drawn.task(task_id)
        seq = self.pool.injected[task_id]
        try:
            task = self.staging.task(seq)
        except KeyError as error:
            raise LostVariant(
                f"variant {task_id} of the pool was lost to damage (record {seq})",
                where=str(self.staging.path),
                remedy="start a new run from this one with `rods fork`, which leaves it out",
            ) from error
        if task_id in self.pool.active:
            self._variants[task_id] = task
        return task

    def variants(self) -> Iterator[AnyTask]:
        """The variants that are active or may be revived, but for those that were lost to damage."""
        for task_id in (*self.pool.active, *self.pool.revivable):
            if task_id not in self._given:
                with suppress(LostVariant):
                    yield self.task(task_id)

    def decisions(self) -> Iterator[Record]:
        """The live records of pool.jsonl, read from the beginning. Poll first."""
        for group in live_merges(self.run, self.observations.lineage):
            yield from group

    def pool_at(self, epoch: int) -> Pool:
        """The live pool behind the record of `epoch`. Raises KeyError when there is none."""
        if epoch == self.epoch >= 0:
            return self.pool
        pool = Pool(initial(self.run))
        for record in self.decisions():
            pool.apply(record)
            if record["kind"] == "epoch" and record["epoch"] == epoch:
                return pool
        raise KeyError(epoch)

    def records(self, log: str) -> Iterator[Record]:
        """The records of the run's log of that name (buffers.run.runfolder) that count, read from the beginning."""
        return read(self.run.path / log)

    def follow(self, log: str) -> Tail:
        """The same for a reader who polls."""
        return Tail(self.run.path / log)

    def tails(self) -> tuple[Tail, Tail, Tail]:
        """What the next look reads, in this order: for who reads ahead (daemon.watching)."""
        return self.observations.tail, self._tail, self.staging.tail

    def zones(self) -> dict[str, int]:
        """Active tasks by the zone of their latest group; tasks without one are in none."""
        counts: Counter[str | None] = Counter(map(self.tracker.zone, self.active))
        return {zone: counts[zone] for zone in ZONES}

    def gauges(self) -> dict[str, int]:
        """For dashboards, in tasks: `zone/<zone>`, `pool/originals`, `pool/generated`, `pool/retired`,
        `staging/waiting`; of drawn tasks `difficulty/next`, and of the last step `difficulty/<dimension>`, the level
        that its difficulty allowed."""
        generated = len(self.pool.generated)
        return {
            **{f"zone/{zone}": count for zone, count in self.zones().items()},
            "pool/originals": len(self.active) - generated,
            "pool/generated": generated,
            "pool/retired": self.pool.retired,
            "staging/waiting": len(self.staging),
            **self._difficulty(),
        }

    def _difficulty(self) -> dict[str, int]:
        if not self.run.config.source.drawn:
            return {}
        told = self.difficulty.as_json()
        levels: dict[str, int] = told.get("last", {}).get("levels", {})
        return {"difficulty/next": self.difficulty.value, **{f"difficulty/{name}": at for name, at in levels.items()}}

    def _rewound(self) -> bool:
        """Whether epochs that were folded do not count any more."""
        attempt, self._attempt = self._attempt, self.attempt
        keeps = self.observations.lineage.keeps
        return attempt != self._attempt and not all(keeps(one.attempt, one.step) for one in self.pool.epochs)

    def _begin_pool(self) -> None:
        # Never strict: the daemon may be writing, and what has not arrived will.
        self.staging = Staging(self.run.path)
        self.merged = 0
        self._ahead = False
        for snapshot in self._snapshots.newest() if not self._every_step else ():
            if self._begin_pool_behind(snapshot):
                break
        else:
            self.pool = Pool(initial(self.run))
            self._snapshot = 0
            self._tail = Tail(self.run.path / POOL, strict=self._strict)
        self._variants: dict[str, AnyTask] = {}  # active ones that were asked for

    def _begin_pool_behind(self, snapshot: Snapshot) -> bool:
        """False when a later start has dropped epochs that the snapshot holds."""
        state = snapshot.state
        pool = Pool.load(state["pool"])
        if not all(self.observations.lineage.keeps(one.attempt, one.step) for one in pool.epochs):
            return False
        self.pool, self.fixed, self.feedback_fixed = pool, dict(state["fixed"]), dict(state["feedback_fixed"])
        self._snapshot = snapshot.seq
        self._tail = Tail(self.run.path / POOL, strict=self._strict, after=snapshot.seq, skip=snapshot.parts)
        return True

    def _pool_state(self) -> Any:
        """What a snapshot of the pool keeps, as JSON can say it."""
        fixed, feedback = [*self.fixed.items()], [*self.feedback_fixed.items()]
        return {"pool": self.pool.state(), "fixed": fixed, "feedback_fixed": feedback}
