"""Carries out a merge: wait for the daemon (in lockstep, and once for a static pool), make durable
what its records will name, derive them, record them."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Protocol

from rods.buffers.folds.pool import LOOK, Pool, Staging
from rods.buffers.folds.seeds import Seeds
from rods.buffers.log.record_bytes import Damage, Record, record
from rods.buffers.merging.rules import Admission, derive
from rods.buffers.run.run import OwnedLog, Run
from rods.buffers.state import RunState
from rods.canonical import frozen, present
from rods.config import Stage
from rods.errors import DeadlineError
from rods.extension import Door
from rods.logs import log
from rods.rules import order
from rods.rules.curriculum import stage_rules
from rods.rules.tracker import Tracker

PATIENCE = 5.0  # seconds that a merge waits for the daemon before the log says so


class EpochNotes(Protocol):
    """What a feature adds to the records that open epochs, from logs of its own."""

    def files(self) -> Iterable[Path]:
        """Those that have to be durable before a record that names what is in them."""

    def poll(self) -> None:
        """Reads its logs on."""

    def fields(self, stage: Stage, fixed: Record) -> Record:
        """The fields of an epoch of this stage; `fixed`: those that the first record of the same
        epoch had, if any."""

    def opened(self, closing: Record) -> object:
        """What the epoch with this closing record fixes for its steps. Raises Damage where the logs
        lack it."""


# by run, and whether damage of its logs is an error; None: the feature adds nothing there (000)
EPOCH_NOTES: Door[Callable[[Run, bool], EpochNotes | None]] = Door("epoch_notes")


@frozen
class Epoch:
    """An open epoch: its slots in visiting order, and what its record says."""

    number: int
    stage: int
    step: int  # the last step before the merge
    slots: tuple[order.EpochSlot, ...]
    order_hash: str
    counts: dict[str, int]
    pool_seq: int  # of the closing record
    recorded: bool  # whether it had been decided before
    # what features have fixed for its steps, by name
    opened: Mapping[str, object] = field(default_factory=dict)


class Merger:
    """Owns pool.jsonl while it lives."""

    def __init__(self, state: RunState, process: str, trainer: OwnedLog | None = None) -> None:
        """`state`: of the run, with the observations that the merges are to learn from; read on by
        each merge."""
        run = state.run
        self.run = run
        self.state = state
        self._log = OwnedLog(run, run.pool_log, process, trainer)
        self._seeds = Seeds(run.path)
        self._notes = epoch_notes(run)
        self._admission: Admission | None = None
        self._pool: Pool | None = None  # the pool that `_admission` follows

    def merge(self, number: int, stage: int, waiting: Callable[[], None] | None) -> Epoch:
        """Opens epoch `number` in `stage`, or returns it as it was recorded; `waiting` is called
        again and again while the daemon is waited for. Raises RefusedError for an epoch out of
        turn or of another stage, DeadlineError, Damage where the record's order cannot be
        derived."""
        self.state.read_merges()
        recorded = 0 <= number <= self.state.epoch
        if not recorded:
            self._decide(number, stage, waiting)
        pool = self.state.pool_at(number)
        closing = pool.latest or {}
        if closing["stage"] != stage:
            raise self._log.refused(
                f"epoch {number} was opened in stage {closing['stage']}, not {stage}",
                f"use stage {closing['stage']}, or go back to a step before {closing['step']}",
            )
        slots = recorded_slots(self.run, pool)
        if order.order_hash(slots) != closing["order"]:
            raise Damage(
                self._log.writer.path,
                0,
                f"the order of epoch {number} is not the one that its record names",
            )
        for note in self._notes.values():
            note.poll()
        return Epoch(
            number=number,
            stage=stage,
            step=closing["step"],
            slots=slots,
            order_hash=closing["order"],
            counts=closing["counts"],
            pool_seq=closing["seq"],
            recorded=recorded,
            opened=opened_by(self._notes, closing),
        )

    def _decide(self, number: int, stage: int, waiting: Callable[[], None] | None) -> None:
        if number != self.state.epoch + 1:
            raise self._log.refused(
                f"epoch {number} does not follow epoch {self.state.epoch}",
                f"merge epoch {self.state.epoch + 1} first",
            )
        step = self.state.last_step
        filling = self.run.config.pool.static and self.state.static_pool_due
        if filling and (tasks := self.state.unvisited()):
            raise self._log.refused(
                f"epoch {number - 1} has not visited {len(tasks)} of its tasks, and a static pool "
                f"is written from all",
                "record their groups first",
            )
        if filling or self.run.config.sync == "lockstep":
            self._await_daemon(step, waiting, filling=filling)
        self._record(number, stage, step)

    def close(self) -> None:
        self._log.close()

    def _record(self, number: int, stage: int, step: int) -> None:
        state = self.state
        state.read_merges()
        # an epoch that is merged again, after a start that dropped it, reads only as far as before
        fixed = {"expanded_seq": state.staging.seq} | state.fixed.get(number, {})
        state.staging.read_up_to(fixed["expanded_seq"], state.pool.decided)
        if self._admission is None or self._pool is not state.pool:  # perhaps folded anew
            self._pool = state.pool
            self._admission = Admission(self.run, state.pool.injected, state.variants())
        admission = self._admission
        durable_seq = max((fields["expanded_seq"] for fields in state.fixed.values()), default=0)
        state.staging.sync_behind(durable_seq)
        for note in self._notes.values():
            self.run.sync(*note.files())
        for note in self._notes.values():
            note.poll()
        # made anew unless all of this succeeds: deriving teaches it what was admitted
        self._admission = None
        *decisions, closing = merge_records(
            admission,
            state.pool,
            state.tracker,
            state.staging,
            self._notes,
            fixed,
            attempt=state.attempt,
            expanded_seq=fixed["expanded_seq"],
            epoch=number,
            stage=stage,
            step=step,
        )
        self._log.writer.append_group(decisions, closing)
        self._admission = admission
        state.read_merges()

    def _await_daemon(
        self, step: int, waiting: Callable[[], None] | None, *, filling: bool
    ) -> None:
        """Waits until the daemon's watermark has reached `step`, in `sync=free` until it has done
        all that it picked (`filling`: a static pool is being written). The deadline begins anew
        whenever the daemon gets on. The log says once what is waited for."""
        limit = self.run.config.operation.deadline_seconds
        work = object()
        deadline = 0.0
        note_due = time.monotonic() + PATIENCE
        while True:
            self._seeds.poll()
            if (
                self._seeds.watermark >= step
                if self.run.config.sync == "lockstep"
                else self._seeds.done(step)
            ):
                return
            if work != (latest := self.run.heartbeat_of("daemon").get("work")):
                deadline = time.monotonic() + limit
                work = latest
            if time.monotonic() > deadline:
                what = (
                    "the static pool is not written"
                    if filling
                    else f"the daemon has finished step {self._seeds.watermark}, not step {step}"
                )
                raise DeadlineError(
                    f"{self.run.path}: {what}, and it has not got on for {limit:g} s "
                    f"(operation.deadline_seconds) → start `rods-daemon {self.run.path}` and try "
                    "again"
                )
            if time.monotonic() > note_due:
                note_due = math.inf
                start = f"rods-daemon {self.run.path}"
                log.info("waiting for the daemon", step=step, at_most_seconds=limit, command=start)
            if waiting is not None:
                waiting()
            time.sleep(LOOK)


def merge_records(
    admission: Admission,
    pool: Pool,
    tracker: Tracker,
    staging: Staging,
    notes: Mapping[str, EpochNotes],
    fixed: Record,
    *,
    attempt: int,
    **at: int,
) -> list[Record]:
    """The records of the merge that opens an epoch `at` (as for `derive`): its decisions, and the
    `epoch` record that closes them. `notes`: what features say in it; `fixed`: what the epoch's
    first record has fixed."""
    config = admission.run.config
    candidates = staging.candidates(at["expanded_seq"], by_pick=config.sync == "lockstep")
    decided, fields = derive(config, pool, tracker, candidates, admission, **at)
    for note in notes.values():
        fields = fields | note.fields(stage_rules(config.curriculum, fields["stage"]), fixed)
    common: Record = {"attempt": attempt}
    decisions = (record(**(common | decision)) for decision in decided)
    return [*decisions, record("epoch", **common, **fields)]


def recorded_slots(run: Run, pool: Pool) -> tuple[order.EpochSlot, ...]:
    """The slots of the pool's latest epoch."""
    closing = pool.latest or {}
    types = stage_rules(run.config.curriculum, closing["stage"]).types
    active = [member.task_id for member in pool.active.values() if member.type in types]
    return order.slots(run.config.random_seeds.order, closing["epoch"], active, closing["retests"])


def epoch_notes(run: Run, *, strict: bool = False) -> dict[str, EpochNotes]:
    """What features say in the records that open this run's epochs, by the feature's name."""
    notes = {name: begin(run, strict) for name, begin in EPOCH_NOTES.providers().items()}
    return present(**notes)


def opened_by(notes: Mapping[str, EpochNotes], closing: Record) -> dict[str, object]:
    """What the epoch with this closing record has fixed for its steps, by the feature's name."""
    return {name: note.opened(closing) for name, note in notes.items()}
