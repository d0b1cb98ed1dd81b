"""The history of one run in columns, and where it stands now: what the page, its export, the report
and `rods inspect` are computed from.

A `Follower` is a `Progress` that remembers more: it reads the logs from their beginning at the
first look, and what is new at each further one. Each step is parsed once. It writes nothing and
takes no lock of the run. The first look at a long run takes seconds (docs/decisions/page.md); who
only wants to know where the run stands asks a `Progress`, which opens behind snapshots.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rods.buffers.log.parts import Lookup
from rods.buffers.log.record_bytes import Record, believed, group_of
from rods.buffers.run.heartbeat import read_heartbeat
from rods.buffers.run.runfolder import EXPANDED, POOL, usage
from rods.buffers.state import ClosedStep, LostVariant, Tail
from rods.buffers.usage import Spent, callers
from rods.console.events import GRAVE, PROCESSES, Event, Events
from rods.console.progress import Progress, ProgressSample, progress_moments
from rods.errors import RodsError, UserError
from rods.family.page.columns import Columns, TaskColumns
from rods.faults import LABELS
from rods.observations import FORMAT_REWARDS, ROLES
from rods.rules.zones import ZONES, Moments, group_signal, zone_of
from rods.tasks import TASK_TYPES, AnyTask
from rods.turn_statistics import dynamics, label_counts

FRESH = 0.5  # seconds for which what was read is fresh
LISTED = 5.0  # seconds between looks for another process that asks models
ERRORS = 5  # that are shown
DECISIONS = ("injected", "retired", "revived")  # what moves a task into the pool or out of it
INSIDE = (0, 2)  # those after which it is in
UNKNOWN = -1  # the type of what a merge refuses as no task
READ = ("observations", "pool", "expanded", "seeds", "rejected")  # logs, as positions name them
# of a step's rollouts that say (rods.turn_statistics.Dynamics)
DYNAMICS = ("turns", "calling", "replies")
# tasks in the pool behind a merge, and how many variants all merges up to it have decided so about
COUNTS = ("originals", "generated", *DECISIONS)
NAN = float("nan")


class Refused(NamedTuple):
    """A merge's refusal of a variant (pool.jsonl)."""

    seq: int
    step: int
    rule: str


class Follower(Progress):
    """One run with its history. `lock` guards everything; views hold it through `whole`.
    `sample` says where the run stands; it is None until the history was read."""

    def __init__(self, path: Path) -> None:
        """Nothing is read before the first look, which raises UserError where `path` is no run
        folder."""
        self.path = path
        self.lock = threading.RLock()
        self.sample: ProgressSample | None = None
        self.errors: deque[Event] = deque(maxlen=ERRORS)  # the latest grave events
        # calls of models, by process, endpoint and stage
        self.spent: dict[tuple[str, str, str], Spent] = {}

    def _begin(self) -> None:
        """Everything as before the first look."""
        super().__init__(self.path, history=True)
        self.ids: list[str] = []  # of tasks, by their number in the columns
        self.numbers: dict[str, int] = {}
        counts = dict.fromkeys((*ZONES, *DYNAMICS, "drawn"), "i4")
        self.steps = Columns(
            step="i4", epoch="i4", reward="f8", difficulty="f8", time="f8", earned="f8", **counts
        )
        self.groups = TaskColumns(self.ids, mean="f8", variance="f8", zone="i1", role="i1")
        # live groups that count for no zone
        self.uncounted = Columns(step="i4", task="i4")
        self.decisions = TaskColumns(self.ids, kind="i1", rule="i1")
        self.epochs = Columns(epoch="i4", step="i4", stage="i4", **dict.fromkeys(COUNTS, "i4"))
        self.variants = TaskColumns(self.ids, seed="i4", generation="i4", type="i1")
        self.picks = Columns(task="i4")  # of seeds.jsonl: picked and finished
        self.rejected = Columns(task="i4")  # by their seed
        self.updates = Columns(step="i4", entropy="f8", norm="f8")
        # of the turns of a step, where its rollouts have labels
        self.labels = Columns(step="i4", **dict.fromkeys(LABELS, "i4"))
        self.rules = [""]  # that `decisions` numbers
        self.decided: Counter[tuple[str, str]] = Counter()  # kinds of decisions, with their rules
        self.authors: set[str] = set()  # of variants, as their provenance names the model
        self.refused: dict[int, Refused] = {}  # by the seq of a variant in the expanded log
        self.spent.clear()
        self.originals = len(self.run.training)
        self.ids += self.run.training
        self.numbers |= zip(self.ids, count(), strict=False)
        self._pool = self.state.follow(POOL)
        self._expanded = self.state.follow(EXPANDED)
        self._usages: dict[str, Tail] = {}  # by process
        self._events = Events(self.path)
        self.errors.clear()
        self._listed = float("-inf")

    @contextmanager
    def whole(self) -> Iterator[ProgressSample]:
        """Holds the lock, with where the run stands, once all of its history was read. Raises
        CorruptLogError for a damaged log."""
        with self.lock:
            if self.sample is None or time.monotonic() - self._read > FRESH:
                self.look()
            assert self.sample is not None
            yield self.sample

    def look(self) -> None:
        """Reads what is new. Raises as `whole`; then the next look reads everything anew."""
        with self.lock:
            if self.sample is None:
                self._begin()
            try:
                sample = self.poll()
                if self.state.rewound:  # rare; so what stands here is what a new reader would find
                    self._begin()
                    sample = self.poll()
                self._read_on()
            except RodsError:
                self.sample = None
                raise
            self.sample = sample
            self._read = time.monotonic()

    def positions(self) -> dict[str, int]:
        """What the page polls, to see what has moved: the attempt, the seq read of each log, the
        counters of the heartbeats."""
        counters = {name: read_heartbeat(self.path, name).get("counter", 0) for name in PROCESSES}
        with self.whole():
            tails = (*self.state.tails(), *self.totals.tails.values())
            read = {log: tail.seq for log, tail in zip(READ, tails, strict=True)}
            calls = sum(log.seq for log in self._usages.values())
            return {"attempt": self.state.attempt, **read, "usage": calls, **counters}

    def number(self, task_id: str) -> int:
        """The task's number in the columns; the originals have the first."""
        if task_id not in self.numbers:
            self.numbers[task_id] = len(self.ids)
            self.ids.append(task_id)
        return self.numbers[task_id]

    def rolled_out(self, number: int) -> dict[int, int]:
        """The steps of a task's live groups, by their seqs in observations.jsonl, in order."""
        steps: dict[int, int] = {}
        for table in (self.groups, self.uncounted):
            rows = np.flatnonzero(table["task"] == number)
            steps |= dict(table.values(rows, "seq", "step"))
        return dict(sorted(steps.items()))

    def records(self, log: str, seqs: Iterable[int]) -> Iterator[Record]:
        """Those of the run's log of that name that damage has left."""
        lookup = Lookup(self.path / log)
        for seq in seqs:
            with suppress(KeyError):
                yield lookup[seq]

    def named(self, prefix: str) -> AnyTask:
        """The task whose id begins with `prefix`. Raises UserError when it names no task of the run
        or more than one, and for one that was lost."""
        by_id = self.run.tasks.by_id
        ids = dict.fromkeys([*by_id, *self.ids])
        fitting = [task_id for task_id in ids if task_id.startswith(prefix)] if prefix else []
        remedy = f"`rods inspect {self.path}` lists them all"
        if not fitting:
            what = f"{prefix!r} names no task (the run has {len(ids)} tasks)"
        elif len(fitting) > 1:
            what = (
                f"{prefix!r} names more than one task ({len(fitting)} tasks begin so: "
                f"{', '.join(fitting[:4])})"
            )
            remedy = f"give more characters; {remedy}"
        elif task := by_id.get(fitting[0]) or self.content(self.number(fitting[0])):
            return task
        else:
            what = f"the content of task {fitting[0]} was lost, or is no task"
        raise UserError(what, where=self.path, remedy=remedy)

    def content(self, number: int) -> AnyTask | None:
        """The task of this number, read from the disk; None for a variant that is lost or reads as
        no task."""
        row = self.variants.newest[number]
        try:
            if row < 0:
                return self.state.task(self.ids[number])
            return self.state.staging.task(int(self.variants["seq"][row]))
        except (KeyError, ValueError, LostVariant):
            return None

    def line(self, number: int) -> list[int]:
        """The task of this number and those that it comes from up to the root, each written from
        the next one."""
        rows = self.variants.newest
        line = [number]
        while (row := rows[line[-1]]) >= 0 and (
            seed := int(self.variants["seed"][row])
        ) not in line:
            line.append(seed)
        return line

    def last_rows(self, table: TaskColumns, step: int) -> NDArray[np.int64]:
        """By task number: the last row of `table` (groups or decisions) of a step up to `step`; -1
        where there is none."""
        if step >= self.state.last_step:
            return table.newest
        last = np.full(len(self.ids), -1, np.int64)
        rows = table.behind("step", step)
        # of a number that stands there twice the last row counts
        last[table["task"][:rows]] = np.arange(rows)
        return last

    def active_at(self, step: int) -> NDArray[np.int64]:
        """The numbers of the tasks in the pool while step `step` was rolled out: merges after it do
        not count."""
        active = np.zeros(len(self.ids), bool)
        active[: self.originals] = True
        last = self.last_rows(self.decisions, step if step >= self.state.last_step else step - 1)
        decided = last >= 0
        kinds = self.decisions["kind"][last[decided]]
        active[decided] = np.isin(kinds, INSIDE)
        return np.flatnonzero(active)

    def _read_on(self) -> None:
        """Takes what is new in the logs that `Progress` does not hand on."""
        self.errors.extend(event for event in self._events.poll() if event.get("level") in GRAVE)
        _, pool, expanded = (tail.seq for tail in self.state.tails())
        if pool != self._pool.seq:
            self._decide(self._pool.records())
        if expanded != self._expanded.seq:
            self._count_variants(self._expanded.records())
        if time.monotonic() - self._listed > LISTED:
            self._listed = time.monotonic()
            for process in callers(self.path):
                self._usages.setdefault(process, self.state.follow(usage(process)))
        for log in self._usages.values():
            for call in log.records():
                key = call["process"], call["backbone"], call["stage"]
                self.spent.setdefault(key, Spent()).add(call)

    def see(self, step: ClosedStep) -> None:
        with believed(step.records):
            self._append(step)

    def see_daemon(self, record: Record) -> None:
        if record["kind"] == "rejected":
            self.rejected.append(record["seq"], self.number(seed_of(record)))
        elif record["kind"] in ("picked", "finished"):
            self.picks.append(record["seq"], self.number(record["task"]))

    def take_update(self) -> None:
        super().take_update()
        update = self.state.update
        if update is not None and update["seq"] > self.updates.last:
            values = (update.get(name, NAN) for name in ("entropy", "gradient_norm"))
            self.updates.append(update["seq"], update["step"], *values)

    def _append(self, step: ClosedStep) -> None:
        progress = [progress_moments(record) for record in step.records]
        zones = [0] * len(ZONES)
        counts = step.counts(self.config.zones)
        rows: list[tuple[float, ...]] = []
        for record, group_progress in zip(step.records, progress, strict=True):
            task = self.number(record["task"])
            if not counts or (measured := self._measured(record, group_progress)) is None:
                self.uncounted.append(record["seq"], step.step, task)
                continue
            moments, zone = measured
            zones[zone] += 1
            role = ROLES.index(record.get("role", "active"))
            rows.append((record["seq"], step.step, task, *moments, zone, role))
        self.groups.extend(rows)
        faced = self.state.figures("status").get("difficulty", {}).get("last")
        difficulty = NAN
        drawn = 0
        earned = NAN
        if faced is not None and faced["step"] == step.step:
            difficulty = faced["difficulty"]
            drawn = faced["tasks"]
            earned = NAN if faced["mean"] is None else faced["mean"]
        means = [group_progress.mean for group_progress in progress if group_progress is not None]
        clock = step.record["time"]
        reward = sum(means) / len(means) if means else NAN
        # no rule reads it, so anything may stand there
        at = clock if isinstance(clock, (int, float)) else NAN
        numbers = reward, difficulty, at, earned, *zones, *astuple(dynamics(step.records)), drawn
        self.steps.append(step.record["seq"], step.step, step.epoch, *numbers)
        if labels := label_counts(step.records):
            self.labels.append(step.record["seq"], step.step, *(labels[label] for label in LABELS))

    def _measured(self, record: Record, progress: Moments | None) -> tuple[Moments, int] | None:
        """Moments and zone (an index of ZONES) of a group's record; None where it counts for no
        zone. `progress`: the moments of its progress."""
        config = self.config
        if record["reward"]["kind"] in FORMAT_REWARDS:
            return None
        if config.selection.boundary == "progress" and all(
            play["end"] == "finished" for play in record["rollouts"]
        ):
            moments = progress
        else:
            signal = group_signal(group_of(record), config.selection.boundary)
            if signal.truncated:
                return Moments(NAN, NAN), ZONES.index("truncated")
            moments = signal.moments
        return (
            None if moments is None else (moments, ZONES.index(zone_of(moments.mean, config.zones)))
        )

    def _decide(self, records: Iterable[Record]) -> None:
        for record in filter(self.state.starts.counts, records):
            seq = record["seq"]
            step = record["step"]
            kind = record["kind"]
            rule = record.get("rule", "")
            if kind == "epoch":
                counts = (record["counts"][name] for name in ("originals", "generated"))
                totals = (self.decisions_of(kind).total() for kind in DECISIONS)
                self.epochs.append(seq, record["epoch"], step, record["stage"], *counts, *totals)
                continue
            self.decided[kind, rule] += 1
            if kind == "refused":  # perhaps for a task that is in the pool already
                self.refused[record["expanded"]] = Refused(seq, step, rule)
                continue
            if rule not in self.rules:
                self.rules.append(rule)
            task = self.number(record["task"])
            self.decisions.append(seq, step, task, DECISIONS.index(kind), self.rules.index(rule))

    def decisions_of(self, kind: str) -> Counter[str]:
        """How many decisions of this kind merges have taken, by their rule."""
        return Counter(
            {rule: count for (other, rule), count in self.decided.items() if other == kind}
        )

    def _count_variants(self, records: Iterable[Record]) -> None:
        for record in records:
            content = record["task"]
            seed = self.number(seed_of(record))
            task = self.number(content["id"])
            value = content.get("provenance")
            provenance = value if isinstance(value, dict) else {}
            generation = provenance.get("generation", 1)
            if generation not in range(1, 1 << 30):
                generation = 1  # a merge refuses it, too
            kind = (
                TASK_TYPES.index(content["type"]) if content.get("type") in TASK_TYPES else UNKNOWN
            )
            if kind != UNKNOWN:
                self.authors.add(str(provenance.get("model", "?")))
            self.variants.append(record["seq"], record["step"], task, seed, generation, kind)


def seed_of(record: Record) -> str:
    """The task that was picked, of a record that names the pick."""
    return str(record["pick"]).partition("-")[2]
