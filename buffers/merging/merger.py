"""Carries out a merge: wait for the daemon (lockstep), lock, derive, make durable what will be named, record."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from buffers.folds.feedback import FeedbackFold
from buffers.folds.pool import Pool
from buffers.folds.seeds import Seeds
from buffers.log.disk import sync_file
from buffers.log.parts import LOOKS, first_seq, segments
from buffers.log.records import Damage, Record, record
from buffers.log.writer import LogWriter
from buffers.merging.rules import Admission, derive
from buffers.run.heartbeat import Heartbeat, read_heartbeat
from buffers.run.locks import Ownership, buffer_lock
from buffers.run.run import Run, admitted_of
from buffers.run.runfolder import ADMITTED, DROPPED, FEEDBACK, POOL
from buffers.state import RunState
from rods.deadlines import ARRIVAL
from rods.errors import DeadlineError, InfrastructureError, RefusedError
from rods.interfaces.approved import NOTHING_APPROVED, Approved
from rods.rules import order
from rods.rules.curriculum import stage_rules

LOOK = 0.1  # seconds between looks at what the other process has written


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
    approved: Approved = NOTHING_APPROVED  # the texts of agents that are in force


class Merger:
    """Owns pool.jsonl while it lives."""

    def __init__(self, state: RunState, process: str, heartbeat: Heartbeat | None = None) -> None:
        """`state`: of the run, with the observations that the merges are to learn from; read on by each merge."""
        run = state.run
        self.run, self.state = run, state
        self._ownership = Ownership(run.path, POOL, process, heartbeat)
        self._seeds, self._feedback = Seeds(run.path), FeedbackFold(run.path)
        self._admission: Admission | None = None
        self._pool: Pool | None = None  # the one that it follows
        try:
            self._writer = LogWriter(run.path / POOL, part_bytes=run.config.operation.log_part_bytes)
        except BaseException:
            self._ownership.release()
            raise

    def merge(self, number: int, stage: int, waiting: Callable[[], None] | None) -> Epoch:
        self.state.read_merges()
        if 0 <= number <= self.state.epoch:
            return self._recorded(number, stage)
        if number != self.state.epoch + 1:
            raise RefusedError(
                f"epoch {number} does not follow epoch {self.state.epoch}",
                where=str(self._writer.path),
                remedy=f"merge epoch {self.state.epoch + 1} first",
            )
        step = self.state.last_step
        filling = self.run.config.pool.static and self.state.static_pool_due
        if filling and (left := self.state.unvisited()):
            raise RefusedError(
                f"epoch {number - 1} has not visited {len(left)} of its tasks, and a static pool is written from all",
                where=str(self._writer.path),
                remedy="record their groups first",
            )
        if filling or self.run.config.sync == "lockstep":
            self._await_daemon(step, waiting, filling=filling)
        with buffer_lock(self.run.path):
            return self._derive(number, stage, step)

    def close(self) -> None:
        self._writer.close()
        self._ownership.release()

    def _derive(self, number: int, stage: int, step: int) -> Epoch:
        state, config = self.state, self.run.config
        state.read_merges()
        expanded_seq = state.fixed.get(number, state.staging.seq)
        self._await_variants(expanded_seq)
        candidates = state.staging.candidates(expanded_seq, by_pick=config.sync == "lockstep")
        attempt = state.attempt
        admission, admitted = self._admit(), state.admitted_fixed.get(number)
        if admitted is None:  # behind the variants: what they name was admitted before them
            admitted = max((one["seq"] for one in admitted_of(self.run.path)), default=0)
        admission.environments = self.run.named(admitted)
        self._admission = None  # made anew unless all of this succeeds: deriving teaches it what was admitted
        derived = derive(
            config,
            state.pool,
            state.tracker,
            candidates,
            admission,
            epoch=number,
            stage=stage,
            step=step,
            expanded_seq=expanded_seq,
        )
        self._sync_variants()
        for part in segments(self.run.path / ADMITTED):
            sync_file(part)
        shown = self._shown(number, stage)
        closing = epoch_record(attempt, derived.epoch | shown | admitted_record(admitted))
        self._writer.append_group(group_records(attempt, derived.decisions), closing)
        self._admission = admission
        state.read_merges()
        closing = _latest(state.pool)
        return _epoch(closing, derived.slots, approved_in(self._feedback, self.run, closing), recorded=False)

    def _shown(self, number: int, stage: int) -> Record:
        """What the closing record says of the feedback that the epoch shows: how far its logs were read, fixed by the
        epoch's first record, and the version. Empty where the stage shows none of agents."""
        config = self.run.config
        if stage_rules(config.curriculum, stage).feedback != "agents":
            return {}
        for part in (*segments(self.run.path / FEEDBACK), *segments(self.run.path / DROPPED)):
            sync_file(part)
        self._feedback.poll()
        return feedback_record(self._feedback, self.run, self.state.feedback_fixed.get(number))

    def _recorded(self, number: int, stage: int) -> Epoch:
        pool = self.state.pool_at(number)
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
        self._feedback.poll()
        return _epoch(closing, slots, approved_in(self._feedback, self.run, closing), recorded=True)

    def _admit(self) -> Admission:
        if self._admission is None or self._pool is not self.state.pool:  # perhaps folded anew
            self._pool = self.state.pool
            self._admission = Admission(self.run, self._pool.injected, self.state.variants())
        return self._admission

    def _sync_variants(self) -> None:
        """Makes durable what the merge will name: the parts of the expanded log that may hold more than the latest
        merge on record has named, whoever made it."""
        named = max(self.state.fixed.values(), default=0)
        for _ in range(LOOKS):
            with suppress(FileNotFoundError):  # the daemon has just closed a part: look again
                for part in reversed(self.state.staging.parts()):
                    sync_file(part)
                    if (first := first_seq(part)) is not None and first <= named + 1:
                        break
                return
        raise InfrastructureError(f"{self.state.staging.path}: its parts are being renamed all the time")

    def _await_daemon(self, step: int, waiting: Callable[[], None] | None, *, filling: bool) -> None:
        """Until the daemon's watermark has reached `step`, or in `sync=free` until it has done all that it picked at
        `step`. `filling`: a static pool is being written, which takes its time: the deadline begins anew whenever the
        daemon gets on."""
        limit = self.run.config.operation.deadline_seconds
        deadline, work = time.monotonic() + limit, None
        while True:
            self._seeds.poll()
            if self._seeds.watermark >= step if self.run.config.sync == "lockstep" else self._seeds.done(step):
                return
            if filling and work != (beat := read_heartbeat(self.run.path, "daemon")).get("work"):
                deadline, work = time.monotonic() + limit, beat.get("work")
            if time.monotonic() > deadline:
                done = f"the daemon has finished step {self._seeds.watermark}, not step {step}, after"
                if filling:
                    done = "the static pool is not written, and the daemon has not got on for"
                raise DeadlineError(
                    f"{self.run.path}: {done} {limit:g} s (operation.deadline_seconds) → start `rods-daemon "
                    f"{self.run.path}` and try again"
                )
            if waiting is not None:
                waiting()
            time.sleep(LOOK)

    def _await_variants(self, seq: int) -> None:
        deadline = time.monotonic() + ARRIVAL
        while self.state.staging.seq < seq:
            if time.monotonic() > deadline:
                raise InfrastructureError(
                    f"{self.state.staging.path}: an earlier merge read up to record {seq}, now they end at record "
                    f"{self.state.staging.seq}"
                )
            time.sleep(LOOK)
            self.state.staging.poll(self.state.pool.decided)


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


def admitted_record(seq: int) -> Record:
    """What the closing record of an epoch says of admissions: how far they were read, nothing where there is none."""
    return {"admissions": seq} if seq else {}


def recorded_slots(run: Run, pool: Pool) -> tuple[order.EpochSlot, ...]:
    """The slots of the pool's latest epoch."""
    closing = _latest(pool)
    types = stage_rules(run.config.curriculum, closing["stage"]).types
    active = [member.task_id for member in pool.active.values() if member.type in types]
    return order.slots(run.config.random_seeds.order, closing["epoch"], active, closing["retests"])


def feedback_record(fold: FeedbackFold, run: Run, fixed: Record | None) -> Record:
    """What the record of an epoch says of feedback; `fixed` is what its first record said."""
    seqs = fold.seqs if fixed is None else (fixed["approved"], fixed["dropped"])
    found = fold.in_force(seqs, in_place=run.config.feedback.form == "in_place")
    return {"feedback": {"approved": seqs[0], "dropped": seqs[1], "texts": len(found.texts), "version": found.version}}


def approved_now(run: Run, closing: Record) -> Approved:
    """The texts of agents that the epoch of the record `closing` shows, by the logs as they stand."""
    feedback = FeedbackFold(run.path)
    feedback.poll()
    return approved_in(feedback, run, closing)


def approved_in(fold: FeedbackFold, run: Run, closing: Record) -> Approved:
    """The texts that the epoch of this record shows. Raises Damage where the logs no longer hold them."""
    said = closing.get("feedback")
    if said is None:
        return NOTHING_APPROVED
    found = fold.in_force((said["approved"], said["dropped"]), in_place=run.config.feedback.form == "in_place")
    if found.version != said["version"]:
        raise Damage(run.path / FEEDBACK, 0, f"its texts are not those of version {said['version']}")
    return found


def _latest(pool: Pool) -> Record:
    assert pool.latest is not None, "an epoch was merged"
    return pool.latest


def _epoch(closing: Record, slots: tuple[order.EpochSlot, ...], approved: Approved, *, recorded: bool) -> Epoch:
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
        approved,
    )
