"""The run that a policy drives, in one order: a step's groups are durable before the update that
they cause, a merge is durable before any step of its epoch, and a checkpoint is taken only between
two rollout batches. The trainer waits for the daemon only at a merge: at each in lockstep, and
once for a static pool."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from rods.buffers.checkpoints import UNSTARTED, Checkpoint, Checkpoints, Position
from rods.buffers.log.record_bytes import record
from rods.buffers.merging.merger import Epoch
from rods.buffers.run.run import Run
from rods.buffers.trainer_log import TrainerLog
from rods.canonical import JsonMapping, JsonObject, rounded
from rods.errors import DeadlineError, RefusedError, UserError
from rods.logs import log
from rods.observations import Group, Update
from rods.rules import curriculum, order
from rods.rules.curriculum import Course
from rods.rules.order import EpochSlot
from rods.trainer.policy import Batch, BatchSlot, Policy, Stopping, TrainingStopped
from rods.trainer.reporters import Reporters

LOG_SECONDS = 1.0  # at most one line about steps in so many seconds, but for the first of a start
TRIAL = 5  # steps of a start that all have their line: `rods plan` takes rates from them
# checkpoints that time asks for lie at least so many times as far apart as the last one took
SPACING = 20


class TrainingRun:
    """One start of the trainer on a run folder, as a context manager that owns its logs.
    `asked_to_stop` is polled between steps and while a merge waits for the daemon. Raises
    RefusedError as `TrainerLog`."""

    def __init__(self, run: Run, asked_to_stop: Callable[[], bool] = lambda: False) -> None:
        self.run = run
        self.config = run.config
        self.stopping: Stopping | None = None
        self._asked_to_stop = asked_to_stop
        self._reporters = Reporters(run)
        self.trainer_log = TrainerLog(run)
        self._checkpoints = Checkpoints(run.path)
        self.resumed: Checkpoint | None = self._checkpoints.newest(self.trainer_log.live)
        at = UNSTARTED if self.resumed is None else self.resumed.position
        self.step = at.step
        self._cursor = at.cursor  # steps of the epoch that are taken
        self._epoch_number = at.epoch
        self._course = Course() if self.resumed is None else _course(self.resumed)
        self._epoch: Epoch | None = None
        self._policy: Policy | None = None
        self._outstanding: Batch | None = None  # handed out, its groups not recorded yet
        self._over = False  # a plateau of the last stage has ended the curriculum
        self._saved = self.resumed  # the latest checkpoint
        self._steps_here = 0
        self._logged = -math.inf
        self._due = math.inf  # when time asks for the next checkpoint
        self._phase_began = 0.0  # that of rollouts, or of the update behind them
        self._update_seconds: float | None = None  # of the last one
        self._preparing: tuple[float, float] | None = None  # since when, and what was done then
        self.tell("starting")

    def __enter__(self) -> "TrainingRun":
        with ExitStack() as stack:
            stack.callback(self.trainer_log.close)
            stack.push(self._reporters)
            stack.enter_context(self.run.playing("trainer", self.trainer_log.heartbeat))
            self._leave = stack.pop_all().__exit__
        return self

    def __exit__(self, *error: Any) -> None:
        self._leave(*error)

    def tell(self, state: str, **fields: Any) -> None:
        """Writes into the heartbeat file what the trainer is doing (`tell("warm start",
        done=0.35)`)."""
        self.trainer_log.heartbeat.beat(
            step=self.step, epoch=self._epoch_number, state=state, **fields
        )

    def report(self, numbers: JsonMapping) -> None:
        """Shows the policy's own numbers of the last step to whom the run reports."""
        self._reporters.log(numbers, self.step)

    def preparing(self, state: str, done: float) -> None:
        """To be called often during work before `begin` (a warm start) of which the share `done`
        (0–1) is done. From the second call on the heartbeat has the seconds that are left, at the
        pace since the first. Raises TrainingStopped once the run was asked to stop."""
        now = time.monotonic()
        began, first = self._preparing = self._preparing or (now, done)
        left = {"left": round((now - began) * (1 - done) / (done - first))} if done > first else {}
        self.tell(state, done=round(done, 3), **left)
        self._check_asked()

    def _check_asked(self) -> None:
        if self._asked_to_stop():
            self.stopping = "signal"
            raise TrainingStopped("signal")

    @property
    def finished(self) -> bool:
        """Whether all steps are taken: `training.steps`, or every epoch of the curriculum, which a
        checkpoint remembers."""
        if self.step >= self.config.training.steps or self._over:
            return True
        if self._epoch is None:
            return self.resumed is not None and self._remembers_the_end(self.resumed)
        return self._cursor >= self._batches and self._course.at_end(self.config.curriculum)

    def begin(self, policy: Policy) -> Stopping | None:
        """Appends the `start` record, puts `policy` where the checkpoint left it (or saves it,
        untrained, as step 0), and opens the epoch. To be called once. Returns why the run stops
        here, if it does. Raises TrainingStopped, DeadlineError where the merge waits for the daemon
        and the run is asked to stop, or the deadline passes."""
        self._policy = policy
        for folder in self._checkpoints.set_aside(self.trainer_log.live, self.resumed):
            log.warning("a torn or damaged checkpoint was moved aside", folder=str(folder))
        before = self.trainer_log.state.last_step
        attempt = self.trainer_log.start(self.step)
        log.info(
            "start",
            attempt=attempt,
            from_step=self.step,
            resumed=self.resumed is not None,
            **({"repeats_steps": before - self.step} if before > self.step else {}),
        )
        self._plan_checkpoint()
        self._open(self._epoch_number, self._course)
        if self.resumed is not None:
            self._check_order(self.resumed)
            policy.load(self.resumed.policy)
        else:
            self._save()
        self._settle()
        return self.stopping

    def next_batch(self) -> Batch:
        """The slots of the next step; where the epoch is over, the merge comes first. Raises
        TrainingStopped when the run stops instead, DeadlineError when the merge
        has waited for the daemon in vain; a checkpoint is taken just before."""
        assert self._policy is not None, "begin comes first"
        assert self._outstanding is None, (
            f"step {self._outstanding and self._outstanding.step} was never recorded"
        )
        self._settle()
        if self.stopping is not None:
            self._save()
            raise TrainingStopped(self.stopping)
        if self._cursor >= self._batches:
            try:
                self._open(self._epoch_number + 1, self._next_course())
            except (DeadlineError, TrainingStopped):
                self._save()
                raise
        self._outstanding = self._batch()
        self._phase_began = time.monotonic()
        return self._outstanding

    def batch_ahead(self) -> Batch | None:
        """After `record`: what `next_batch` will give; None where a merge or the end is first."""
        return None if self.finished or self._cursor >= self._batches else self._batch()

    def _batch(self) -> Batch:
        epoch = self._open_epoch
        pool = self.config.pool_slots
        step = self.step + 1
        slots = order.batch(epoch.slots, pool, self._cursor) if pool else []
        drawn = [
            BatchSlot(index, task, "drawn")
            for index, task in enumerate(self.trainer_log.draw(step), start=pool)
        ]
        return Batch(
            step=step,
            epoch=epoch.number,
            stage=epoch.stage,
            rules=curriculum.stage_rules(self.config.curriculum, epoch.stage),
            slots=(*(self._slot(index, slot) for index, slot in enumerate(slots)), *drawn),
            order_hash=epoch.order_hash,
            traced=self.config.operation.trace_bytes > 0
            and (step - 1) % self.config.operation.trace_every == 0,
            dialect=self.config.policy.dialect,
            interface_inputs=self.trainer_log.state.interface_inputs(epoch.opened),
        )

    def _slot(self, index: int, slot: EpochSlot) -> BatchSlot:
        return BatchSlot(index, self.trainer_log.task(slot.task_id), slot.role)

    def roll_out(
        self, batch: Batch, play: Callable[[Batch], Sequence[Group]]
    ) -> tuple[Batch, list[Group]]:
        """Plays `batch` by `play`, which gives a group a slot, then the rounds of further slots
        that refill the step, each as a batch of its own. Returns all slots as one batch, and its
        groups; those that are not `replaced` are trained on, as many as `batch` had slots."""
        groups = list(play(batch))
        size = len(batch.slots)
        for _ in range(self.config.rollouts.refill):
            chosen = order.refilling(
                self.config.random_seeds.order, batch.step, self._open_epoch.slots, groups, size
            )
            if not chosen:
                break
            added = tuple(
                self._slot(index, slot) for index, slot in enumerate(chosen, start=len(groups))
            )
            groups += play(replace(batch, slots=added))
            self._outstanding = batch = replace(batch, slots=batch.slots + added)
        return batch, order.with_replaced(groups, size)

    def record(
        self,
        batch: Batch,
        groups: Sequence[Group],
        traces: Sequence[JsonMapping] = (),
        policy_step: int | None = None,
        **spent: float,
    ) -> None:
        """Makes the groups of `batch` durable, one a slot in order, before the update that they
        cause. `traces` are JSON objects, one a rollout, wanted when `batch.traced`; `policy_step`:
        as TrainerLog.write_step; `spent` is what the log says of the cost: rollouts, processes,
        tokens. Raises ValueError when the groups are not those of the batch."""
        seconds = {
            "rollout_seconds": round(time.monotonic() - self._phase_began, 3),
            "update_seconds": self._update_seconds,
        }
        if self._outstanding is not batch:
            raise ValueError(f"step {batch.step} is not the step that is due")
        if [group.task for group in groups] != [slot.task.id for slot in batch.slots]:
            raise ValueError(
                f"step {batch.step}: the groups are not those of the batch's slots, in order"
            )
        self.trainer_log.write_step(batch.step, batch.epoch, groups, policy_step)
        self.run.keep_traces(batch.step, self.trainer_log.state.attempt, traces)
        self._outstanding = None
        self.step = batch.step
        self._cursor += 1
        self._steps_here += 1
        self._log_step(batch, groups, **(seconds | spent))
        self._phase_began = time.monotonic()

    def after_update(self, update: Update | None = None) -> Stopping | None:
        """To be called once every optimizer pass over the recorded batch is done: checkpoints when
        one is due and returns why the run stops here, if it does. `update`: what the passes have
        shown."""
        update = update or Update()
        self._update_seconds = round(time.monotonic() - self._phase_began, 3)
        self._course = self._course.stepped(update.gradient_norm)
        self.trainer_log.write_update(update)
        self.trainer_log.write_tracker()
        self._reporters.log_run(self.trainer_log)
        self._settle()
        due = (
            self.step % self.config.training.checkpoint_steps == 0 or time.monotonic() >= self._due
        )
        if self.stopping is not None or due:
            self._save()
        self.tell(self.stopping or "training")
        return self.stopping

    def _settle(self) -> None:
        """Decides whether to stop here."""
        limit = self.config.operation.step_limit
        if self.finished:
            self.stopping = "finished"
        elif self._asked_to_stop():
            self.stopping = "signal"
        elif limit and self._steps_here >= limit:
            self.stopping = "step_limit"

    @property
    def _open_epoch(self) -> Epoch:
        assert self._epoch is not None, "begin comes first"
        return self._epoch

    @property
    def _batches(self) -> int:
        """Steps in the open epoch; the last one is filled from the front of the order."""
        return order.epoch_steps(self.config, len(self._open_epoch.slots))

    def _next_course(self) -> Course:
        """Validates where the stage asks for it, and decides on the next stage. Raises
        TrainingStopped at the end of all."""
        assert self._policy is not None
        rules = self.config.curriculum
        score = None
        if self._course.validates(rules):
            self.tell("validating")
            tasks = [task for task in self.run.held_out if task.split == "validation"]
            scores = [value for value in self._policy.validate(tasks) if value is not None]
            score = rounded(math.fsum(scores) / len(scores)) if scores else None
            variation = round(curriculum.variation(self._course.norms), 3)
            about = {
                "progress": score,
                "tasks": len(scores),
                "of": len(tasks),
                "gradient_variation": variation,
            }
            log.info("validation", stage=self._course.stage, epoch=self._epoch_number, **about)
        later = self.trainer_log.state.pool.epochs[self._epoch_number + 1 :]
        course, why = self._course.epoch_over(rules, score, later[0].stage if later else None)
        if why:
            log.info("stage over", stage=self._course.stage, epoch=self._epoch_number, why=why)
        if course is None:
            self._over = True
            self.stopping = "finished"
            raise TrainingStopped("finished")
        return course

    def _open(self, number: int, course: Course) -> None:
        """Merges into epoch `number`, or reads its record where there is one."""
        epoch = self.trainer_log.merge(number, course.stage, waiting=self._waiting)
        if self._epoch is not None:  # the first one of a start begins where the checkpoint left it
            self._cursor = 0
        self._epoch = epoch
        self._epoch_number = number
        self._course = course
        log.info(
            "epoch",
            epoch=number,
            stage=epoch.stage,
            step=epoch.step,
            tasks=len(epoch.slots),
            **epoch.counts,
        )

    def _waiting(self) -> None:
        """Called while a merge waits for the daemon, again and again. Raises TrainingStopped once
        the run was asked to stop."""
        self.tell("waiting for the daemon")
        self.trainer_log.check()
        self._check_asked()

    def _check_order(self, checkpoint: Checkpoint) -> None:
        """Raises RefusedError where the logs lead to other things than the checkpoint names."""
        position = checkpoint.position
        now = self._open_epoch.order_hash
        compared = [(f"epoch {self._epoch_number} another order", position.order_hash or now, now)]
        compared += [
            (f"another {name}", position.curriculum.get(name, value), value)
            for name, value in self.trainer_log.state.figures("checkpoint").items()
        ]
        for what, wanted, derived in compared:
            if wanted != derived:
                raise RefusedError(
                    f"the logs give {what} ({derived}) than the checkpoint has ({wanted})",
                    where=checkpoint.folder,
                    remedy="`rods verify` says which record differs",
                )

    def _save(self) -> None:
        """Takes a checkpoint here, unless this step has one; that the run is over must be
        remembered in either case."""
        assert self._policy is not None
        if self.stopping is not None:
            # before the checkpoint: once that says that the run is over, no start comes back here
            self.trainer_log.write_tracker(force=True)
        if self._saved is not None and self._saved.position.step == self.step:
            if self.finished and not self._remembers_the_end(self._saved):
                self._saved = self._noted(self._checkpoints.amend(self._saved, self._curriculum()))
            return
        epoch = self._open_epoch
        self.trainer_log.flush()
        position = Position(
            attempt=self.trainer_log.state.attempt,
            step=self.step,
            epoch=epoch.number,
            cursor=self._cursor,
            order_hash=epoch.order_hash,
            pool_seq=epoch.pool_seq,
            curriculum=self._curriculum(),
            random=self.config.random_seeds.model_dump(),
        )
        began = time.monotonic()
        with self.trainer_log.held():
            self._saved = self._noted(self._checkpoints.write(position, self._policy.save))
            self._checkpoints.prune(self.trainer_log.live)
        taken = time.monotonic()
        self._plan_checkpoint(taken - began)
        log.info(
            "checkpoint",
            step=self.step,
            folder=self._saved.folder.name,
            seconds=round(taken - began, 3),
        )

    def _plan_checkpoint(self, seconds: float = 0.0) -> None:
        """Sets when the next one is due by time, after one that took so many `seconds`."""
        apart = self.config.operation.checkpoint_seconds
        self._due = time.monotonic() + max(apart, SPACING * seconds) if apart else math.inf

    def _noted(self, saved: Checkpoint) -> Checkpoint:
        """Puts `saved` on record and returns it. It counts without that: after a kill in between,
        `rods verify` merely has no record to compare it with."""
        self.run.log_operation("trainer", [record("checkpoint", **saved.noted())])
        return saved

    def _curriculum(self) -> JsonObject:
        """`Position.curriculum`: the course, what must come out again, whether this is the end."""
        return {
            **self._course.as_json(),
            **self.trainer_log.state.figures("checkpoint"),
            "finished": self.finished,
            "extensions": self.run.times_extended,
        }

    def _remembers_the_end(self, checkpoint: Checkpoint) -> bool:
        """Whether the run was over when the checkpoint was taken, and has not been extended
        since."""
        end = checkpoint.position.curriculum
        return bool(end.get("finished")) and end.get("extensions", 0) == self.run.times_extended

    def _log_step(self, batch: Batch, groups: Sequence[Group], **spent: float | None) -> None:
        now = time.monotonic()
        if now - self._logged < LOG_SECONDS and self._steps_here > TRIAL:
            return
        self._logged = now
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        rewards = [rollout.reward for rollout in rollouts if rollout.reward is not None]
        log.info(
            "step",
            step=batch.step,
            epoch=batch.epoch,
            reward=round(math.fsum(rewards) / len(rewards), 4) if rewards else None,
            informative=sum(group.disagrees for group in groups),
            groups=len(groups),
            **spent,
        )


def _course(checkpoint: Checkpoint) -> Course:
    try:
        return Course.restored(checkpoint.position.curriculum)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            "the curriculum's state cannot be read",
            where=checkpoint.folder / "manifest.json",
            remedy="restore it from a copy, or move it aside to go on from the checkpoint before",
        ) from error
