"""A run as two calls, for any trainer: `draw` says which tasks a step's batch has, `observe` takes
what they earned.

    with open_stream("runs/mine", config="run.toml") as stream:
        for step in range(stream.step + 1, stream.steps + 1):
            batch = stream.draw(step)
            …                                   # roll out each task
            stream.observe(step, groups)        # on the disk before the update that it leads to
            …                                   # the update

A batch depends on nothing but what is on record and on the sizes asked for since: the same step
drawn again, after a kill too, has the same tasks. Nothing waits for the daemon; what it has staged
joins the pool in the merge that `draw` makes where an epoch is over. Only with `sync = "lockstep"`
does that merge wait, as long as the daemon gets on, and for `operation.deadline_seconds` where it
does not.

One process has the stream, and one thread: of several ranks the first, which broadcasts what it
draws and gathers what they earned (docs/trainers.md). Nothing here needs torch.
"""

import atexit
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import SupportsFloat

from rods import logs
from rods.buffers.merging.merger import Epoch
from rods.buffers.run.creation import open_or_create
from rods.buffers.run.run import Run
from rods.buffers.trainer_log import TrainerLog
from rods.canonical import JsonMapping, JsonObject, frozen
from rods.errors import UserError
from rods.logs import log
from rods.observations import Group, Record, Role, millionths
from rods.rules import order
from rods.rules.curriculum import scheduled
from rods.tasks import AnyTask
from rods.trainer.reporters import Reporters, gauges
from rods.trainer.reports import check_by_records, check_policy_step, close_step, due

MOST_DRAWN = 1_000_000  # steps of a run, and places of one of them


@frozen
class DrawnTask:
    """A place of a step's batch: its task, whether that is active or retired and tried again
    (`retest`), the epoch that the step belongs to (from 0), and the place (from 0). Picklable."""

    task: AnyTask
    role: Role
    epoch: int
    place: int

    def group(
        self,
        rewards: Iterable[SupportsFloat | None],
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> JsonObject:
        """What its rollouts earned, for `TaskStream.observe`: rewards of one's own, in a range, in
        a list, an array or a tensor; None is a rollout that broke. No rewards at all are one that
        did. Raises UserError for others."""
        try:
            earned = [None if each is None else float(each) for each in rewards] or [None]
            for each in earned:
                millionths(reward_range[0] if each is None else each, *reward_range)
        except (TypeError, ValueError, OverflowError) as error:
            raise UserError(
                f"rewards are {rewards!r}: {error}",
                where=f"task {self.task.id}",
                remedy=f"give a list of numbers in the range {reward_range}, with None for a "
                "rollout that broke",
            ) from error
        rollouts = [
            {"end": "infrastructure"} if each is None else {"reward": each} for each in earned
        ]
        kind = {"kind": "value", "range": list(reward_range)}
        return {"task": self.task.id, "place": self.place, "reward": kind, "rollouts": rollouts}


class TaskStream(AbstractContextManager["TaskStream"]):
    """The trainer's part in a run, for as long as it is open: an attempt of the run's trainer,
    which goes on behind the last step on record, or behind `from_step`; later steps and merges no
    longer count.

    Raises RefusedError where another process is the run's trainer, where `from_step` is not on
    record, and for a run in which tasks are made for single steps or replaced in them.
    """

    def __init__(self, run: Run, from_step: int | None = None) -> None:
        self.run = run
        self.config = run.config
        self.reporters = Reporters(run)
        check_by_records(run)
        if any(stage.until == "plateau" for stage in run.config.curriculum.stages):
            raise run.refused(
                "a stage of its curriculum ends on a plateau, which the run's own validation finds",
                "use `rods-train`, or `open_training` in Python",
            )
        self.log = TrainerLog(run)
        self.state = self.log.state
        try:
            self._begin_attempt(from_step)
            # step, drawn and not closed → its tasks, in order of steps
            self._sizes: dict[int, int] = {}
            self._epoch: Epoch | None = None
            self._opened(max(self.state.epoch, 0))
            # trainers of others end without a word to what gives them tasks
            atexit.register(self.close)
        except BaseException:
            self.log.close()
            raise

    @property
    def step(self) -> int:
        """The last step on record, after which this attempt goes on; 0 before the first."""
        return self.state.last_step

    @property
    def steps(self) -> int:
        """How many steps the run has (`training.steps`); behind them the daemon writes no more
        variants."""
        return self.config.training.steps

    @property
    def interface(self) -> Mapping[str, str] | None:
        """What the groups of the next step to be closed have to name, `interface` and `lineage`;
        None where what is shown does not follow the policy."""
        return due(self.state, self.state.stage)

    def left(self, step: int) -> int:
        """How many places of the open epoch the steps before `step` have left; none, or a
        negative number: drawing it opens the next one, for which all steps before it have to be
        on record."""
        return len(self._opened(self.state.epoch).slots) - self._place(step)

    def draw(self, step: int, n: int | None = None) -> tuple[DrawnTask, ...]:
        """The `n` tasks of `step` (from 1), by default as many as before, or
        `training.batch_tasks`: the next places of the epoch's order, after the last one from the
        front again. Where the epoch is over, the next one is opened first, which is on the disk
        when this returns.

        Steps are drawn in order, and may be drawn ahead of the last one that was closed, but not
        beyond its epoch. A step drawn again has the same tasks; asked for more of them, also
        further ones, until the step behind it is drawn. Raises RefusedError for a step out of turn,
        DeadlineError where the daemon missed its deadline in lockstep, UserError for an impossible
        number and at the end of the curriculum.
        """
        for name, number in (("step", step), ("n", 1 if n is None else n)):
            if type(number) is not int or not 1 <= number <= MOST_DRAWN:
                raise UserError(
                    f"{name} is {str(number)[:80]}",
                    where=self.run.path,
                    remedy=f"give a whole number from 1 to {MOST_DRAWN:,}",
                )
        size = self._size(step) if n is None else n
        following = self.step + len(self._sizes) + 1
        if step > following:
            raise self.run.refused(
                f"step {step} is drawn before step {following}", f"draw step {following} first"
            )
        if step == following:
            self._begin(step)
            self._sizes[step] = size
            if step == self.steps + 1:
                log.warning(
                    "the run is over, no more variants are written",
                    steps=self.steps,
                    key="training.steps",
                )
        elif size > self._size(step):
            if step not in self._sizes or step < following - 1:
                raise self.run.refused(
                    f"{self._size(step)} tasks were drawn for step {step}, not {size}, and it is "
                    "closed, or not the last",
                    "draw it with as many as before",
                )
            self._sizes[step] = size
        return self._tasks(step)[:size]

    def observe(
        self, step: int, groups: Iterable[Group | JsonMapping], policy_step: int | None = None
    ) -> bool:
        """Closes `step` with the groups that its tasks earned, in any order: on the disk when this
        returns. False: an identical report was there already.

        A group is a `rods.observations.Group`, or a mapping with the fields of docs/protocol.md, of
        which `task` and `rollouts` must be there: `{"task": id, "rollouts": [{"resolved": 1,
        "expected": 2}, …]}`, or with a reward of one's own `{"task": id, "reward": {"kind":
        "value", "range": [0, 1]}, "rollouts": [{"reward": 0.4}, …]}`. The role is that of the draw.
        Where a task has two places in the batch, `place` says which one is meant. What got lost may
        be left out, but for the last one of a step. `policy_step` is the last update in the weights
        that rolled out, `step` − 1 by default.

        Raises UserError for what is no group of this step's tasks, RefusedError for a step out of
        turn and for another report of a closed one. What was refused is not recorded.
        """
        if step not in self._sizes and not 1 <= step <= self.step:
            raise self.run.refused(
                f"step {step} was not drawn", f"draw it first; the last closed step is {self.step}"
            )
        check_policy_step(policy_step, step, f"step {step}")
        drawn = self._tasks(step)
        free: dict[str, list[DrawnTask]] = {}
        for one in drawn:
            free.setdefault(one.task.id, []).append(one)
        if isinstance(groups, Mapping):
            raise UserError(
                "groups is one mapping", where=f"step {step}", remedy="give a list of groups"
            )
        placed: dict[int, tuple[Record, str]] = {}
        for index, group in enumerate(groups):
            where = f"step {step}, group {index}"
            record = group.as_json() if isinstance(group, Group) else group
            if not isinstance(record, Mapping):
                raise UserError(
                    f"a group is {record!r}", where=where, remedy="give a Group, or a mapping"
                )
            task = str(record.get("task"))
            place = record.get("place")
            left = [one for one in free.get(task, ()) if place in (None, one.place)]
            if not left:
                what = f"task {task!r}" + ("" if place is None else f" at place {place!r}")
                what += " is reported twice" if task in free else " was not drawn for this step"
                raise UserError(what, where=where, remedy="report each place of `draw` once")
            free[task].remove(left[0])
            placed[left[0].place] = {**record, "role": left[0].role}, where
        reported = [placed[place] for place in sorted(placed)]
        recorded = close_step(self.log, step, drawn[0].epoch, reported, policy_step, len(drawn))
        self._sizes.pop(step, None)
        self.log.heartbeat.beat(step=self.step, epoch=self.state.epoch, state="training")
        if recorded:
            self.reporters.log_run(self.log)
        return recorded

    def observe_rewards(
        self,
        step: int,
        rewards: Mapping[int, Sequence[float]],
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> bool:
        """The same by place: the rewards of its rollouts (`DrawnTask.group`). What has none got
        lost."""
        drawn = self._tasks(step)
        present = [one for one in drawn if rewards.get(one.place)] or drawn[:1]
        groups = [one.group(rewards.get(one.place, ()), reward_range) for one in present]
        return self.observe(step, groups)

    def gauges(self) -> dict[str, float]:
        """How the run stands behind its last step, for a logger of the trainer's own: tasks by
        zone, the pool, what is staged, labels (docs/watching.md). `operation.report_to` reports
        them by itself."""
        return gauges(self.log)

    def report(self, numbers: Mapping[str, float]) -> None:
        """Adds numbers of the trainer's own, a loss say, to what `operation.report_to` is told of
        the last step."""
        self.reporters.log(numbers, self.step)

    def close(self) -> None:
        """Gives the run back; another stream may be opened. A program that ends by itself does so,
        too."""
        atexit.unregister(self.close)
        log.info("closed", step=self.step, steps=self.steps)
        with closing(self.log), self.reporters:
            self.log.write_tracker(force=True)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin_attempt(self, from_step: int | None) -> None:
        """Begins the attempt, and says what its user may not have meant."""
        before = self.step
        policy = self.config.policy.kind
        attempt = self.log.start(from_step)
        if policy != "external":
            log.warning(
                f"status and reports call this policy {policy}", key='policy.kind = "external"'
            )
        begun = {"attempt": attempt, "step": self.step, "steps": self.steps}
        if self.step < before:
            log.warning(
                "going back: the later steps no longer count",
                **begun,
                on_record=before,
                key="from_step",
            )
        else:
            log.info("start", **begun)

    def _begin(self, step: int) -> None:
        """Opens the next epoch where `step`, which is next, does not belong to the open one."""
        if self.left(step) > 0:
            return
        if self._sizes:
            raise self.run.refused(
                f"step {step} opens epoch {self.state.epoch + 1}, and step {min(self._sizes)} "
                "is not closed",
                "observe it first: a merge learns from all steps before it",
            )
        self._opened(self.state.epoch + 1)

    def _opened(self, number: int) -> Epoch:
        """The epoch of that number, merged where it is the next one, otherwise as it is on
        record."""
        if self._epoch is None or self._epoch.number != number:
            epochs = self.state.pool.epochs
            stage = (
                epochs[number].stage
                if number < len(epochs)
                else scheduled(self.config.curriculum, number)
            )
            if stage is None:
                raise UserError(
                    f"the curriculum ends before epoch {number}",
                    where=self.run.path,
                    remedy="the run is over: step past it no further",
                )
            self._epoch = self.log.merge(number, stage, waiting=self._waiting)
        return self._epoch

    def _waiting(self) -> None:
        self.log.heartbeat.beat(state="waiting for the daemon")
        self.log.check()

    def _size(self, step: int) -> int:
        """How many tasks `step` has."""
        return self._sizes.get(step) or self.state.places.get(
            step, self.config.training.batch_tasks
        )

    def _place(self, step: int) -> int:
        """How many places of their epoch the steps before `step` took."""
        epoch = self.state.pool.epochs[self.state.epoch_of(step)]
        return sum(map(self._size, range(epoch.step + 1, step)))

    def _tasks(self, step: int) -> tuple[DrawnTask, ...]:
        number = self.state.epoch_of(step)
        slots = order.places(self._opened(number).slots, self._place(step), self._size(step))
        drawn = [(self.log.task(slot.task_id), slot.role) for slot in slots]
        return tuple(
            DrawnTask(task, role, number, place) for place, (task, role) in enumerate(drawn)
        )


def open_stream(
    folder: Path | str, *, config: Path | str | None = None, from_step: int | None = None
) -> TaskStream:
    """The run in `folder`, made from the file `config` where there is none, as a stream of tasks
    with this process as its trainer. `from_step`: the step of the checkpoint that the trainer has
    restored, where later ones are on record. Raises UserError, and RefusedError as `TaskStream`."""
    run = open_or_create(folder, config)
    logs.offer(run.config.operation.log_level)
    return TaskStream(run, from_step)
