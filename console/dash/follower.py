"""Follows one run for the page: `Progress` and, beside it, the history in columns.

Reads on when it is asked to (`refresh`), writes nothing, takes no lock of the run. All else here is read by the views.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buffers.log.records import Record
from buffers.run.heartbeat import read_heartbeat
from buffers.run.runfolder import EXPANDED, POOL, usage
from buffers.state import ClosedStep, RunState, Tail
from buffers.usage import Spent, callers
from console.dash.columns import Columns, Latest, Spread
from console.dash.keeping import keep, kept, stand
from console.progress import Progress, ProgressSample, step_reward
from rods.errors import RodsError
from rods.faults import LABELS
from rods.observations import FORMAT_REWARDS, Group
from rods.rules.zones import ZONES, Moments, group_signal, zone_of

FRESH = 0.5  # seconds for which what was read is fresh
LISTED = 5.0  # seconds between looks for another process that asks models
SHOWN = 1.0  # seconds after which it is said how far the first look is
WORTH = 2.0  # seconds of reading that are worth keeping
DECISIONS = ("injected", "retired", "revived")  # what moves a task into the pool or out of it
INSIDE = (0, 2)  # those after which it is in
PROCESSES = ("trainer", "daemon")


class Follower:
    """One run, from its folder. `lock` guards everything; views hold it through `fresh`."""

    def __init__(self, path: Path) -> None:
        """Raises UserError where `path` is no run folder."""
        self.path = path
        self.lock = threading.RLock()
        self._spent = 0.0  # seconds of reading since it was kept
        self._reader: threading.Thread | None = None
        self._begin()

    @staticmethod
    def open(path: Path) -> Follower:
        """As it was kept of the run at `path`, if it was; else one that has read nothing. Raises as the constructor."""
        found = kept(path)
        return found if isinstance(found, Follower) and stand(found.tails()) else Follower(path)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("lock", "_reader")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.lock, self._reader, self._spent = threading.RLock(), None, 0.0
        self._read = self._listed = float("-inf")
        self.progress.resume()

    def tails(self) -> list[Tail]:
        """All logs that are followed."""
        return [*self.progress.tails(), self._pool, self._expanded, *self._usages.values()]

    def _begin(self) -> None:
        """Everything as before the first look."""
        self.ids: list[str] = []  # of tasks, by their number in the columns
        self.numbers: dict[str, int] = {}
        self.steps = Columns(
            seq="i8", step="i4", epoch="i4", reward="f8", **dict.fromkeys(ZONES, "i4"), difficulty="f8", time="f8"
        )
        self.groups = Columns(seq="i8", step="i4", task="i4", mean="f8", variance="f8", zone="i1")
        self.decisions = Columns(seq="i8", step="i4", task="i4", kind="i1", rule="i1")
        self.epochs = Columns(seq="i8", epoch="i4", step="i4", stage="i4", originals="i4", generated="i4")
        self.variants = Columns(seq="i8", step="i4", task="i4", seed="i4", generation="i4")
        self.updates = Columns(seq="i8", step="i4", entropy="f8", norm="f8")
        self.labels = Columns(
            seq="i8", step="i4", **dict.fromkeys(LABELS, "i4")
        )  # of the turns of a step's rollouts, where told
        self.newest_group = Latest()  # by task: rows of `groups` and `decisions`
        self.newest_decision = Latest()
        self.newest_variant = Latest()  # and of `variants`
        self.rules = [""]  # that `decisions` numbers
        self.refused: dict[int, tuple[int, str]] = {}  # seq of a variant in the expanded log → step and rule
        self.spent: dict[tuple[str, str, str], Spent] = {}  # calls of models, by process, endpoint and stage
        self.latency: dict[tuple[str, str, str], Spread] = {}  # of the same
        self.progress = Progress(self.path, self._see)
        self.run = self.progress.run
        self.originals = len(self.run.training)
        for task_id in self.run.training:
            self.number(task_id)
        self._pool, self._expanded = self.state.follow(POOL), self.state.follow(EXPANDED)
        self._usages: dict[str, Tail] = {}  # by process
        self._listed = float("-inf")
        self._read = float("-inf")
        self.sample: ProgressSample | None = None

    @property
    def state(self) -> RunState:
        return self.progress.state

    @property
    def attempt(self) -> int:
        return self.state.attempt

    @contextmanager
    def fresh(self) -> Iterator[ProgressSample]:
        """Holds the lock, with everything read. Raises CorruptLogError for a damaged log."""
        with self.lock:
            if self.sample is None or time.monotonic() - self._read > FRESH:
                self.look()
            assert self.sample is not None
            yield self.sample

    def look(self) -> None:
        """Reads what is new, and keeps what was read, where that took long enough. Raises as `fresh`."""
        with self.lock:
            began = time.thread_time()
            self.sample = self._refresh()
            self._spent += time.thread_time() - began
            self._read = time.monotonic()
            if self._spent > WORTH:
                keep(self.path, self, self.tails())
                self._spent = 0.0

    def positions(self) -> dict[str, int]:
        """What the stream carries: the attempt, the seq read of each log, the counters of the heartbeats. While the
        first look takes long, instead of these `reading`, the last step that was read."""
        if self.sample is None:
            if self._reader is None:
                self._reader = threading.Thread(target=self._first, daemon=True)
                self._reader.start()
            self._reader.join(SHOWN)
            if self._reader.is_alive():
                return {"reading": self.state.last_step}
        with self.fresh():
            found = self.progress.positions()
            found |= {"pool": self._pool.seq, "expanded": self._expanded.seq}
            found["usage"] = sum(log.seq for log in self._usages.values())
        beats = {name: read_heartbeat(self.path, name).get("counter", 0) for name in PROCESSES}
        return {**found, **beats}

    def _first(self) -> None:
        with suppress(RodsError), self.fresh():  # who asks next is told what is wrong
            pass

    def number(self, task_id: str) -> int:
        """The task's number in the columns; the originals have the first."""
        found = self.numbers.get(task_id)
        if found is None:
            found = self.numbers[task_id] = len(self.ids)
            self.ids.append(task_id)
        return found

    def last_rows(self, table: Columns, step: int) -> NDArray[np.int64]:
        """By task number: the last row of `table` (groups or decisions) of a step up to `step`; -1 where there is
        none."""
        if step >= self.state.last_step:
            return (self.newest_group if table is self.groups else self.newest_decision).rows(len(self.ids))
        found = np.full(len(self.ids), -1, np.int64)
        rows = table.behind("step", step)
        found[table["task"][:rows]] = np.arange(rows)  # of a number that stands there twice the last row counts
        return found

    def active_at(self, step: int) -> NDArray[np.int64]:
        """The numbers of the tasks in the pool while step `step` was rolled out: merges after it do not count."""
        active = np.zeros(len(self.ids), bool)
        active[: self.originals] = True
        last = self.last_rows(self.decisions, step if step >= self.state.last_step else step - 1)
        decided = last >= 0
        kinds = self.decisions["kind"][last[decided]]
        active[decided] = np.isin(kinds, INSIDE)
        return np.flatnonzero(active)

    def _refresh(self) -> ProgressSample:
        sample = self.progress.poll()
        if self.state.rewound:  # rare; so what stands here is what a reader who comes now would find
            self._begin()
            sample = self.progress.poll()
        self._update()
        _, pool, expanded = self.state.tails()
        if pool.seq != self._pool.seq:
            for record in self._pool.records():
                if self.state.observations.lineage.keeps(record["attempt"], record["step"]):
                    self._decide(record)
        if expanded.seq != self._expanded.seq:  # a log of many files, which are listed at each look
            for record in self._expanded.records():
                self._stage(record)
        if time.monotonic() - self._listed > LISTED:
            self._listed = time.monotonic()
            for process in callers(self.path):
                self._usages.setdefault(process, self.state.follow(usage(process)))
        for process, log in self._usages.items():
            for call in log.records():
                key = process, call["backbone"], call["stage"]
                self.spent.setdefault(key, Spent()).add(call)
                self.latency.setdefault(key, Spread()).add(call["seconds"])
        return sample

    def _see(self, step: ClosedStep, progress: list[Moments | None]) -> None:
        self._update()
        zones = [0] * len(ZONES)
        for record, known in zip(step.records, progress, strict=True):
            if (found := self._measured(record, known)) is None:
                continue
            moments, zone = found
            zones[zone] += 1
            task = self.number(record["task"])
            self.newest_group[task] = len(self.groups)
            self.groups.append(record["seq"], step.step, task, *moments, zone)
        reward = step_reward(progress)
        shown = float("nan") if reward is None else reward
        faced = self.state.difficulty.faced
        drawn = faced.difficulty if faced is not None and faced.step == step.step else float("nan")
        self.steps.append(step.record["seq"], step.step, step.epoch, shown, *zones, drawn, step.record["time"])

        told = Counter(
            label for record in step.records for one in record["rollouts"] for label in one.get("labels", ())
        )
        if told:
            self.labels.append(step.record["seq"], step.step, *(told[label] for label in LABELS))

    def _update(self) -> None:
        """Takes the latest update that was read, if it is new."""
        found = self.state.update
        if found is not None and (not len(self.updates) or found["step"] > self.updates["step"][-1]):
            values = (found.get(name, float("nan")) for name in ("entropy", "gradient_norm"))
            self.updates.append(found["seq"], found["step"], *values)

    def _measured(self, record: Record, progress: Moments | None) -> tuple[Moments, int] | None:
        """Moments and zone (an index of ZONES) of a group's record; None where it counts for no zone. `progress`: the
        moments of its progress."""
        config = self.run.config
        if record["reward"]["kind"] in FORMAT_REWARDS or record.get("head"):
            return None
        if config.selection.boundary == "progress" and all(one["end"] == "finished" for one in record["rollouts"]):
            moments = progress
        else:
            signal = group_signal(Group.from_json(record), config.selection.boundary)
            if signal.truncated:
                return Moments(float("nan"), float("nan")), ZONES.index("truncated")
            moments = signal.moments
        return None if moments is None else (moments, ZONES.index(zone_of(moments.mean, config.zones)))

    def _decide(self, record: Record) -> None:
        if record["kind"] == "epoch":
            counts = record["counts"]
            numbers = record["epoch"], record["step"], record["stage"], counts["originals"], counts["generated"]
            self.epochs.append(record["seq"], *numbers)
            return
        if record["kind"] == "refused":  # perhaps for a task that is in the pool already
            self.refused[record["expanded"]] = record["step"], record["rule"]
            return
        if (rule := record.get("rule", "")) not in self.rules:
            self.rules.append(rule)
        task, kind = self.number(record["task"]), DECISIONS.index(record["kind"])
        self.newest_decision[task] = len(self.decisions)
        self.decisions.append(record["seq"], record["step"], task, kind, self.rules.index(rule))

    def _stage(self, record: Record) -> None:
        content: Any = record["task"]
        if not isinstance(content, dict) or not isinstance(content.get("id"), str):
            return  # a merge refuses it with its reason
        seed, task = self.number(str(record["pick"]).partition("-")[2]), self.number(content["id"])
        generation = content.get("provenance", {}).get("generation", 1)
        self.newest_variant[task] = len(self.variants)
        self.variants.append(record["seq"], record["step"], task, seed, generation)
