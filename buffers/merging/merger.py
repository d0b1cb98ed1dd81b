"""Carrying out a merge: wait (lockstep), lock, derive, make durable what will be named, record (DESIGN §4)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buffers.folds.compact import SeqOf
from buffers.folds.observations import Observations
from buffers.folds.pool import Pool, PoolView, pool_at
from buffers.folds.seeds import Seeds
from buffers.log.damage import Damage
from buffers.log.disk import sync_file
from buffers.log.parts import first_seq
from buffers.log.records import Record
from buffers.log.tail import LOOKS
from buffers.log.writer import LogWriter, record
from buffers.merging.admission import Admission
from buffers.merging.rules import derive
from buffers.run.heartbeat import Heartbeat
from buffers.run.locks import Ownership, buffer_lock
from buffers.run.run import Run
from rods.errors import DeadlineError, InfrastructureError, RefusedError
from rods.rules import order
from rods.rules.curriculum import stage_rules
from rods.runfolder import POOL

LOOK = 0.1  # seconds between looks at what the other process has written
ARRIVAL = 30.0  # seconds that variants named by an earlier merge may take to become visible on this host


@dataclass(frozen=True, slots=True)
class Epoch:
    """An open epoch: its slots in visiting order, and what its record says."""

    number: int
    stage: int
    step: int  # the last step before the merge
    slots: tuple[order.EpochSlot, ...]
    order_hash: str
    counts: dict[str, int]
    pool_seq: int  # of the closing record
    expanded_seq: int
    recorded: bool  # whether it had been decided before


class Merger:
    """Owns pool.jsonl while it lives."""

    def __init__(
        self, run: Run, observations: Observations, view: PoolView, process: str, heartbeat: Heartbeat | None = None
    ) -> None:
        self.run, self.view, self._observations = run, view, observations
        self._ownership = Ownership(run.path, POOL, process, heartbeat)
        self._seeds = Seeds(run.path)
        self._admission: Admission | None = None
        self._injected: SeqOf | None = None  # those that it knows
        self._synced: dict[Path, int] = {}  # the last parts of the expanded log → their size when they were synced
        try:
            self._writer = LogWriter(run.path / POOL, part_bytes=run.config.operation.log_part_bytes)
        except BaseException:
            self._ownership.release()
            raise

    def merge(self, number: int, stage: int, waiting: Callable[[], None] | None) -> Epoch:
        self.view.poll()
        if 0 <= number <= self.view.epoch:
            return self._recorded(number, stage)
        if number != self.view.epoch + 1:
            raise RefusedError(
                f"epoch {number} does not follow epoch {self.view.epoch}",
                where=str(self._writer.path),
                remedy=f"merge epoch {self.view.epoch + 1} first",
            )
        step = self._observations.last_step
        if self.run.config.sync == "lockstep":
            self._await_daemon(step, waiting)
        with buffer_lock(self.run.path):
            return self._derive(number, stage, step)

    def close(self) -> None:
        self._writer.close()
        self._ownership.release()

    def _derive(self, number: int, stage: int, step: int) -> Epoch:
        view, config = self.view, self.run.config
        view.poll()
        expanded_seq = view.fixed.get(number, view.staging.seq)
        self._await_variants(expanded_seq)
        candidates = view.staging.candidates(expanded_seq, view.pool.decided, by_pick=config.sync == "lockstep")
        attempt = self._observations.attempt
        admission = self._admit()
        self._admission = None  # made anew unless all of this succeeds: deriving teaches it what was admitted
        derived = derive(
            config,
            view.pool,
            self._observations.tracker,
            candidates,
            admission,
            epoch=number,
            stage=stage,
            step=step,
            expanded_seq=expanded_seq,
        )
        self._sync_variants()
        self._writer.append_group(group_records(attempt, derived.decisions), epoch_record(attempt, derived.epoch))
        self._admission = admission
        view.poll()
        return _epoch(_latest(view.pool), derived.slots, recorded=False)

    def _recorded(self, number: int, stage: int) -> Epoch:
        pool = self.view.pool if number == self.view.epoch else pool_at(self.run, self._observations, number)
        closing = _latest(pool)
        if closing["stage"] != stage:
            raise RefusedError(
                f"epoch {number} was opened in stage {closing['stage']}, not {stage}",
                where=str(self._writer.path),
                remedy=f"use stage {closing['stage']}, or go back to a step before {closing['step']}",
            )
        slots = recorded_slots(self.run, pool)
        if order.order_hash(slots) != closing["order"]:
            raise Damage(self._writer.path, 0, f"the order of epoch {number} is not the one that its record names")
        return _epoch(closing, slots, recorded=True)

    def _admit(self) -> Admission:
        if self._admission is None or self._injected is not self.view.injected:  # perhaps folded anew
            self._injected = self.view.injected
            self._admission = Admission(self.run, self._injected, self.view.contents())
        return self._admission

    def _sync_variants(self) -> None:
        """What the merge will name is made durable before it does. Parts that have not grown are so already, and those
        that hold nothing new since the latest merge on record, whoever made it."""
        for _ in range(LOOKS):
            with suppress(FileNotFoundError):  # the daemon has just closed a part: look again
                self._synced = self._sync_new(max(self.view.fixed.values(), default=0) + 1)
                return
        raise InfrastructureError(f"{self.view.staging.path}: its parts are being renamed all the time")

    def _sync_new(self, seq: int) -> dict[Path, int]:
        """The parts from the one on that holds `seq`, now durable, with their sizes."""
        synced = {}
        for part in reversed(self.view.staging.parts()):
            synced[part] = part.stat().st_size
            if self._synced.get(part) != synced[part]:
                sync_file(part)
            if (first := first_seq(part)) is not None and first <= seq:
                break
        return synced

    def _await_daemon(self, step: int, waiting: Callable[[], None] | None) -> None:
        """Until the daemon's watermark has reached `step`."""
        limit = self.run.config.operation.deadline_seconds
        deadline = time.monotonic() + limit
        while True:
            self._seeds.poll()
            if self._seeds.watermark >= step:
                return
            if time.monotonic() > deadline:
                raise DeadlineError(
                    f"{self.run.path}: the daemon has finished step {self._seeds.watermark}, not step {step}, after "
                    f"{limit:g} s (operation.deadline_seconds) → start `rods-daemon {self.run.path}` and try again"
                )
            if waiting is not None:
                waiting()
            time.sleep(LOOK)

    def _await_variants(self, seq: int) -> None:
        deadline = time.monotonic() + ARRIVAL
        while self.view.staging.seq < seq:
            if time.monotonic() > deadline:
                raise InfrastructureError(
                    f"{self.view.staging.path}: an earlier merge read up to record {seq}, now they end at record "
                    f"{self.view.staging.seq}"
                )
            time.sleep(LOOK)
            self.view.staging.poll()


def group_records(attempt: int, decisions: list[Record]) -> list[Record]:
    """A merge's decisions as records."""
    return [
        record(
            decision["kind"],
            attempt=attempt,
            **{key: value for key, value in decision.items() if key != "kind"},
        )
        for decision in decisions
    ]


def epoch_record(attempt: int, fields: dict[str, Any]) -> Record:
    return record("epoch", attempt=attempt, **fields)


def recorded_slots(run: Run, pool: Pool) -> tuple[order.EpochSlot, ...]:
    """The slots of the pool's latest epoch."""
    closing = _latest(pool)
    types = stage_rules(run.config.curriculum, closing["stage"]).types
    active = [member.task_id for member in pool.active.values() if member.type in types]
    return order.slots(run.config.random_seeds.order, closing["epoch"], active, closing["retests"])


def _latest(pool: Pool) -> Record:
    assert pool.latest is not None, "an epoch was merged"
    return pool.latest


def _epoch(closing: Record, slots: tuple[order.EpochSlot, ...], *, recorded: bool) -> Epoch:
    return Epoch(
        closing["epoch"],
        closing["stage"],
        closing["step"],
        slots,
        closing["order"],
        closing["counts"],
        closing["seq"],
        closing["expanded_seq"],
        recorded,
    )
