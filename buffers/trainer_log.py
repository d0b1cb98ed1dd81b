"""The trainer's side of the run folder: starts, steps, merges, tracker.json.

One process holds the observations at a time. Every method that writes returns once what it wrote is
on the disk, but for `write_update`, whose record goes with the next step or `flush`.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from rods.buffers.checkpoints import check_trainers
from rods.buffers.folds.observations import digest
from rods.buffers.log.record_bytes import Record, now, quarantine, record
from rods.buffers.merging.merger import Epoch, Merger
from rods.buffers.run.run import OwnedLog, Run
from rods.buffers.state import RunState
from rods.canonical import JsonObject
from rods.errors import UserError
from rods.observations import Group, Update
from rods.rules.step_folds import closing_fields
from rods.tasks import AnyTask

PROCESS = "trainer"
TRACKER_SECONDS = 10.0  # between writes of tracker.json that nobody asked for
TRACKER_SHARE = 0.005  # of the time may go into them


class TrainerLog(AbstractContextManager["TrainerLog"]):
    """Owns observations.jsonl and tracker.json. Opening folds the logs and writes nothing; `start`
    begins an attempt. Raises RefusedError when another process owns the observations, or when a
    log that the trainer writes has lost its end."""

    def __init__(self, run: Run, process: str = PROCESS) -> None:
        run.check_environments()
        self.run = run
        self._process = process
        self._log = OwnedLog(run, run.observations_log, process)
        self.heartbeat = self._log.heartbeat
        self.check = self._log.check
        self.held = self._log.held  # around what writes: whether the run is still this process's
        try:
            with quarantine():
                self.state = RunState(run, strict=True, every_step=False, keep=True)
                self.state.poll()
            check_trainers(run, self.state)
        except BaseException:
            self._log.close()
            raise
        self.live = self.state.live
        self.task = self.state.task
        self._tracker_due = time.monotonic()
        self._merger: Merger | None = None
        self._started = False
        # records of the last step that was written here
        self.last_groups: list[JsonObject] = []
        self._updates: list[Record] = []  # not yet written, at most that of the last step

    def start(self, from_step: int | None = None) -> int:
        """Begins an attempt at `from_step` (default: the last live step); later steps and epochs
        are dropped from all folds, never deleted. Returns the attempt's number, counted from 1."""
        last = self.state.last_step
        from_step = last if from_step is None else from_step
        if not 0 <= from_step <= last:
            raise self._log.refused(
                f"cannot continue from step {from_step}: the log's last live step is {last}",
                f"give a step from 0 to {last}",
            )
        attempt = self.state.attempt + 1
        with self.held():
            self._log.writer.append(
                [record("start", attempt=attempt, from_step=from_step, time=now())]
            )
            self.state.poll()
        self._started = True
        return attempt

    def write_step(
        self,
        step: int,
        epoch: int,
        groups: Sequence[Group],
        policy_step: int | None = None,
        places: int | None = None,
    ) -> bool:
        """Records the groups of a rollout batch, before the update that they lead to.
        `policy_step`: the step whose update made the weights, by default the one before. `places`:
        how many of the epoch's order it took, by default `training.batch_tasks`. False: this step
        had the same report already. Raises RefusedError for another one, or a step out of turn."""
        if not self._started:
            raise self._log.refused("no attempt was started", "call start() first")
        if not groups:
            raise UserError(f"step {step} has no groups", where=self._log.writer.path)
        policy_step = step - 1 if policy_step is None else policy_step
        contents = [_checked(group, step) for group in groups]
        mark = digest(epoch, policy_step, contents)
        earlier = self.state.digest(step)
        if earlier == mark:
            return False
        if earlier is not None:
            raise self._log.refused(
                f"step {step} was recorded with other contents",
                f"to do it again, start an attempt from step {step - 1} (from_step={step - 1})",
            )
        if step != self.state.last_step + 1:
            raise self._log.refused(
                f"step {step} does not follow step {self.state.last_step}",
                f"send step {self.state.last_step + 1}",
            )
        if epoch != self.state.epoch:
            raise self._log.refused(
                f"step {step} names epoch {epoch}, but epoch {self.state.epoch} is open",
                "every epoch opens with a merge",
            )
        at = {"attempt": self.state.attempt, "step": step}
        records = [
            record("group", **at, index=index, **content) for index, content in enumerate(contents)
        ]
        fields = {
            "epoch": epoch,
            "groups": len(records),
            "policy_step": policy_step,
            "digest": mark,
        }
        if places not in (None, self.run.config.training.batch_tasks):
            fields["drawn"] = places
        fields |= closing_fields(self.state.folds, contents)
        closing = record("step", **at, **fields, time=now())
        with self.held():
            self._log.writer.append_group(records, closing, self._updates)
            self._updates = []
            self.state.catch_up()  # what was just written, by the same code as at a start
        self.last_groups = contents
        return True

    def write_update(self, update: Update) -> None:
        """Records what the update after the last step has shown: with the next step, so that it
        costs no sync of its own, or at `flush`. Nothing where nothing is known, or where it is on
        record."""
        fields = update.as_json()
        latest = self.state.update
        if (
            fields
            and not self._updates
            and (latest is None or latest["step"] != self.state.last_step)
        ):
            self._updates = [
                record("update", attempt=self.state.attempt, step=self.state.last_step, **fields)
            ]

    def flush(self) -> None:
        """Returns once all that was reported is on the disk: before a checkpoint, from which no
        step is repeated."""
        if self._updates:
            with self.held():
                self._log.writer.append(self._updates)
                self._updates = []
                self.state.catch_up()

    def draw(self, step: int) -> list[AnyTask]:
        """The tasks that are drawn for the next step, for its slots behind those of the pool: from
        the record, or else made here and on the disk when this returns."""
        if not self._started or step != self.state.last_step + 1:
            raise self._log.refused(
                f"tasks are drawn for step {self.state.last_step + 1} of a started attempt, not "
                f"for step {step}",
                "record the steps before it",
            )
        return [
            task
            for slots, source in self.state.sources
            for task in source.draw(step, slots, self.state, self.held)
        ]

    def merge(self, epoch: int, stage: int, waiting: Callable[[], None] | None = None) -> Epoch:
        """Opens `epoch` in curriculum stage `stage` (from 1): decides and records the merge, or
        returns the recorded one. In lockstep, and once for a static pool, it first waits for the
        daemon and calls `waiting` meanwhile, about ten times a second; raises DeadlineError where
        that has not got on for `operation.deadline_seconds`."""
        if not self._started:
            raise self._log.refused("no attempt was started", "call start() first")
        with self.held():
            if self._merger is None:
                self._merger = Merger(self.state, self._process, self._log)
            merged = self._merger.merge(epoch, stage, waiting)
            self.write_tracker(force=True)
        return merged

    def write_tracker(self, *, force: bool = False) -> bool:
        """Replaces tracker.json when it is due: every 10 s while that costs less than 0.5 % of the
        time. Meant for when nobody waits, so it also reads what the daemon has staged: then a merge
        finds little left to read. Returns whether the file was replaced."""
        self.state.staging.poll(self.state.pool.decided)
        started = time.monotonic()
        if not force and started < self._tracker_due:
            return False
        with self.held():
            self.run.write_tracker(self.state.tracker_json())
        ended = time.monotonic()
        self._tracker_due = ended + max(TRACKER_SECONDS, (ended - started) / TRACKER_SHARE)
        return True

    def close(self) -> None:
        self._log.writer.close()
        for _, source in self.state.sources:
            source.close()
        if self._merger is not None:
            self._merger.close()
        self._log.release()

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked(group: Group, step: int) -> JsonObject:
    """The group as JSON. Raises UserError for a reward that JSON cannot say."""
    for rollout in group.rollouts:
        if not math.isfinite(rollout.format) or (
            rollout.reward is not None and not math.isfinite(rollout.reward)
        ):
            raise UserError(
                f"a rollout of task {group.task} earned {rollout.reward} (format {rollout.format})",
                where=f"step {step}",
                remedy="report None for what must not count",
            )
    return group.as_json()
