"""Where a run stands: the one way to read its logs together.

`read_state` answers once; a `RunState` that is kept follows the run by `poll`. Nothing is written
or locked, and no process is asked, so anybody may read at any time.

**What it reads**, in this order: observations.jsonl (attempts, live steps, the tracker), pool.jsonl
(who is active, who has left), the expanded log (what is staged). What a record names is durable
before the record, so the order makes it consistent. A merge of an attempt whose `start` was not
read yet waits for a later poll; after a start that dropped steps or epochs everything is folded
anew.

**What it costs**: a first read parses the logs once, or only what follows the latest snapshots when
no steps are asked for (`every_step=False`); a poll reads what is new. In memory stay some 0.7 kB
for each task that was ever observed, 0.3 kB for each variant that was ever injected, 10 bytes a
step (0.1 kB where its batch had a size of its own), and the contents of active variants that were
asked for (docs/decisions/history.md).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rods.buffers.folds.attempts import AttemptHistory, known_starts
from rods.buffers.folds.observations import ClosedStep, Observations
from rods.buffers.folds.pool import Member, Pool, Staging, fix, initial, windows_json
from rods.buffers.folds.slot_sources import drawn_task, sources
from rods.buffers.folds.snapshots import KeptTail, Snapshots
from rods.buffers.log.record_bytes import Record, misfit
from rods.buffers.log.tail import Tail, read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS, POOL, TRACKER_VERSION
from rods.canonical import JsonObject
from rods.errors import CorruptLogError
from rods.interfaces import NO_INPUTS, next_inputs
from rods.rules.curriculum import opening, stage_rules
from rods.rules.zones import ZONES
from rods.tasks import AnyTask

__all__ = [
    "AttemptHistory",
    "ClosedStep",
    "LostVariant",
    "RunState",
    "Tail",
    "read_state",
    "starts_of",
]


class LostVariant(CorruptLogError):
    """A variant is in the pool, and damage took the record that holds it."""


def read_state(run: Run, *, strict: bool = True) -> "RunState":
    """Where `run` stands now. `strict`: damage is an error in every form, also where it might be a
    write that is under way. Raises CorruptLogError."""
    state = RunState(run, strict=strict, every_step=False)
    state.poll()
    return state


def starts_of(folder: Path) -> AttemptHistory:
    """Which attempts' steps count in the run at `folder`; reads the log without folding it, which
    takes a tenth of the time."""
    return known_starts(folder / OBSERVATIONS)


class RunState(Observations):
    """A run's state, empty until the first `steps` or `poll`: its observations, and pool and
    staging behind them. Options as of `Observations`, of pool.jsonl too."""

    pool: Pool
    staging: Staging
    merged: int  # live merges that the last look has met
    _ahead: bool  # whether a merge of an attempt was met whose start was not read yet
    _pool_tail: KeptTail
    # the highest epoch that a part of the expanded log can be of, where that is known
    _newest: int | None = None

    def _begin(self) -> None:
        super()._begin()
        # epoch number → what its first closed record fixed (folds.pool.FIXED)
        self.fixed: dict[int, Record] = {}
        self.sources = [*sources(self.run)]  # read only when one of their tasks is asked for
        self._pool_snapshots = Snapshots(self.run.path / POOL, self.run.manifest["tasks"]["sha256"])
        self._given = self.run.tasks.by_id
        self._pool_attempt = 0  # the latest when pool.jsonl was last read
        self._begin_pool()

    def interface_inputs(self, opened: Mapping[str, object] = NO_INPUTS) -> dict[str, object]:
        """What the interface of the next step is given, by the feature's name; `opened`: what the
        open epoch has fixed."""
        return next_inputs(self.folds, opened)

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
        return bisect_left(self.pool.epochs, step, key=lambda epoch: epoch.step) - 1

    @property
    def static_pool_due(self) -> bool:
        """Whether the latest epoch is the one whose boundary a static pool is written from (004
        Appendix R)."""
        curriculum = self.run.config.curriculum
        return (
            self.epoch >= 0
            and opening(curriculum, [epoch.stage for epoch in self.pool.epochs]) == self.epoch
        )

    def unvisited(self) -> list[str]:
        """Active tasks of the latest epoch that none of its closed steps has named yet."""
        begun = self.pool.epochs[-1].step
        types = stage_rules(self.run.config.curriculum, self.stage).types
        active = (member.task_id for member in self.active.values() if member.type in types)
        return [task_id for task_id in active if (self.tracker.last_step(task_id) or 0) <= begun]

    def steps(self) -> Iterator[ClosedStep]:
        """As of `Observations`; pool and staging follow in the end."""
        yield from super().steps()
        self.read_merges()

    def poll(self) -> None:
        """Reads on, for who looks at no step."""
        self.catch_up()
        self.read_merges()

    def read_merges(self) -> None:
        """Reads pool and staging on, but not the observations: for a merge, which must not learn of
        later steps."""
        attempt = self._pool_attempt
        self._pool_attempt = self.attempt
        if self._ahead or (attempt != self.attempt and not self._all_live(self.pool)):
            self._begin_pool()
        self.merged = 0
        for closing, decisions in self._pool_tail.groups():
            fix(self.fixed, closing)
            if not self.starts.counts(closing):
                continue
            if closing["epoch"] != len(self.pool.epochs):
                # of observations: a start that drops epochs is there and was not read yet
                self._ahead = True
                break
            for record in (*decisions, closing):
                self._follow_merge(self.pool, record)
                if "expanded" in record:
                    self.staging.decide(record["expanded"])
                self._variants.pop(record.get("task", ""), None)
            self.merged += 1
        # A part is called after an epoch that has begun, so one of those in `fixed`, whose last is
        # the highest: new ones are found by that number, and the folder, which has one an epoch, is
        # listed only when a merge was read.
        self._newest = None if self.merged else next(reversed(self.fixed), 0)
        self.staging.poll(self.pool.decided, 0 if self._every_step else self.pool.waiting)

    @staticmethod
    def _follow_merge(pool: Pool, record: Record) -> None:
        try:
            pool.apply(record)
        except KeyError as error:
            raise misfit(POOL, record, f"no such task {error}") from error

    def task(self, task_id: str) -> AnyTask:
        """A given task, a variant that was injected, or one that was drawn for a step. Raises
        KeyError for any other id, LostVariant."""
        if task_id not in self.pool.injected:
            return self._given.get(task_id) or drawn_task(task_id, self.sources)
        if task_id in self._variants:
            return self._variants[task_id]
        seq = self.pool.injected[task_id]
        try:
            task = self.staging.task(seq)
        except (KeyError, ValueError) as error:
            raise LostVariant(
                f"variant {task_id} of the pool was lost to damage (record {seq})",
                where=self.staging.path,
                remedy="start a new run by `rods trainer fork` from this one, which leaves it out",
            ) from error
        if task_id in self.pool.active:
            self._variants[task_id] = task
        return task

    def variants(self) -> Iterator[AnyTask]:
        """The variants that are active or may be revived, but for those that were lost to
        damage."""
        for task_id in (*self.pool.active, *self.pool.revivable):
            if task_id in self.pool.injected:
                with suppress(LostVariant):
                    yield self.task(task_id)

    def decisions(self) -> Iterator[Record]:
        """The live records of pool.jsonl, read from the beginning. Poll first."""
        for closing, decisions in Tail(self.run.path / POOL, strict=True).groups():
            if self.starts.counts(closing):
                yield from (*decisions, closing)

    def pool_at(self, epoch: int) -> Pool:
        """The live pool behind the record of `epoch`. Raises KeyError when there is none."""
        if epoch == self.epoch >= 0:
            return self.pool
        pool = Pool(initial(self.run))
        for record in self.decisions():
            self._follow_merge(pool, record)
            if record["kind"] == "epoch" and record["epoch"] == epoch:
                return pool
        raise KeyError(epoch)

    def records(self, log: str) -> Iterator[Record]:
        """The records of the run's log of that name (rods.buffers.run.runfolder) that count, read
        from the beginning."""
        return read(self.run.path / log)

    def follow(self, log: str) -> Tail:
        """The same for a reader who polls."""
        return Tail(self.run.path / log, newest=lambda: self._newest)

    def tails(self) -> tuple[Tail, Tail, Tail]:
        """What the next look reads, in this order: for who reads ahead (rods.daemon.watching)."""
        return self.tail, self._pool_tail, self.staging.tail

    def zones(self) -> dict[str, int]:
        """Active tasks by the zone of their latest group; tasks without one are in none."""
        total = sum(self.zones_by_type().values(), Counter[str | None]())
        return {zone: total[zone] for zone in ZONES}

    def zones_by_type(self) -> dict[str, Counter[str | None]]:
        """The same for the tasks of each type; under None those without a group."""
        types = Counter[str](member.type for member in self.active.values())
        counts = {type: Counter[str | None]({None: count}) for type, count in types.items()}
        for task in self.tracker.tasks:  # a few of a million
            if (member := self.active.get(task)) and (zone := self.tracker.zone(task)):
                counts[member.type][None] -= 1
                counts[member.type][zone] += 1
        return counts

    def gauges(self) -> dict[str, float]:
        """For dashboards, in tasks: `zone/<zone>`, `pool/originals`, `pool/generated`,
        `pool/retired`, `staging/waiting`; and what extensions say."""
        generated = len(self.pool.generated)
        return {
            **{f"zone/{zone}": count for zone, count in self.zones().items()},
            "pool/originals": len(self.active) - generated,
            "pool/generated": generated,
            "pool/retired": self.pool.retired,
            "staging/waiting": len(self.staging),
            **self.figures("gauges"),
        }

    def tracker_json(self) -> JsonObject:
        """The content of tracker.json: every task that a live step has named and that has not left
        for good, with its windows."""
        tasks = {}
        for task_id, windows in windows_json(self.tracker, self.pool).items():
            retired = self.pool.revivable.get(task_id)
            member = retired.member if retired else self.active.get(task_id)
            tasks[task_id] = {
                "type": member.type if member else None,
                "origin": None if member is None else "variant" if member.generated else "original",
                "active": task_id in self.active,
                "last_step": self.tracker.last_step(task_id),
                "windows": windows,
            }
        return {
            "version": TRACKER_VERSION,
            "attempt": self.attempt,
            "step": self.last_step,
            "epoch": self.epoch,
            **self.figures("status"),
            "tasks": tasks,
        }

    def _all_live(self, pool: Pool) -> bool:
        """Whether all epochs that were folded still count."""
        return all(self.starts.keeps(epoch.attempt, epoch.step) for epoch in pool.epochs)

    def _begin_pool(self) -> None:
        # Never strict: the daemon may be writing, and what has not arrived will.
        self.staging = Staging(self.run.path, newest=lambda: self._newest)
        self._ahead = False
        self.merged = 0
        self._variants: dict[str, AnyTask] = {}  # active ones that were asked for
        self.pool = Pool(initial(self.run))
        self._pool_tail = KeptTail(
            self._pool_snapshots,
            None if self._every_step else self._restore_pool,
            self._snapshot_of_pool if self._keep else None,
            strict=self._strict,
        )

    def _snapshot_of_pool(self) -> Any:
        return {"pool": self.pool.snapshot(), "fixed": [*self.fixed.items()]}

    def _restore_pool(self, kept: Any, parts: Container[str]) -> bool:
        """Takes a snapshot of the pool, unless a later start has dropped some of its epochs."""
        pool = Pool.restored(kept["pool"])
        live = self._all_live(pool)
        if live:
            self.pool = pool
            self.fixed = dict(kept["fixed"])
        return live
