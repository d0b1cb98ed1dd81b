"""What the daemon sees of the trainer (the steps to consider, the pool of their epoch, signs of
life), and the picks that wait for a worker meanwhile.

`Watch` follows the run's logs, in a thread that waits for files: the event loop never waits for a
disk, and a file system that hangs takes none of the threads in which variants are made."""

import asyncio
import math
import time
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

from rods.buffers.folds.seeds import Unfinished
from rods.buffers.run.heartbeat import read_heartbeat
from rods.buffers.run.run import Run
from rods.buffers.state import ClosedStep, RunState
from rods.gates.ground_truth import can_vary
from rods.rules.curriculum import selects, stage_rules
from rods.rules.selection import TaskFacts, reads_windows, signals, whole_pool
from rods.rules.tracker import Window
from rods.rules.zones import TaskSignal
from rods.tasks import AnyTask

BY_STEP = attrgetter("step")
_shared = lru_cache(TaskFacts)  # one object for facts that are equal


class Watch:
    """Follows the logs by `look`, which is meant for a thread."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.lockstep = run.config.sync == "lockstep"
        self.active: dict[str, TaskFacts] = {}
        open_tasks = run.tasks.where("open", 1)
        self._no_seeds = frozenset(task.id for task in open_tasks if not can_vary(task))
        self._pending: list[ClosedStep] = []
        self._windows: dict[int, dict[str, Window]] = {}  # as they stood after these steps
        # In lockstep every step is considered; for a static pool one may not be missed behind a
        # snapshot.
        self.state = RunState(run, every_step=self.lockstep or run.config.pool.static)
        self.newest = self.state.last_step  # the newest step ever read, rewound ones included

    def look(self, last_considered: int) -> bool:
        """Reads on. Returns whether the pool has changed."""
        state = self.state
        epoch = state.epoch
        for step in state.steps():
            self.newest = max(self.newest, step.step)
            # never twice for one step number, whatever a rewound trainer does
            if step.step > last_considered:
                if not self.lockstep:
                    self._pending.clear()
                self._pending.append(step)
                if self.lockstep and reads_windows(self.run.config):
                    self._windows[step.step] = self._windows_of(step)
        if state.rewound:
            self._pending = [step for step in self._pending if state.live(step.attempt, step.step)]
        if not state.merged and state.epoch == epoch:
            return False
        self.active = {
            task_id: _shared(member.type, member.generation)
            for task_id, member in state.active.items()
            if task_id not in self._no_seeds
        }
        return True

    def due(self, last_considered: int, before: float = math.inf) -> ClosedStep | None:
        """The step to consider next: in lockstep the oldest, otherwise only the newest. None when
        there is none below `before`, or when the record of its epoch has not arrived."""
        self._pending = [step for step in self._pending if step.step > last_considered]
        if (
            self._pending
            and self._pending[0].epoch <= self.state.epoch
            and self._pending[0].step < before
        ):
            return self._pending.pop(0)
        return None

    def candidates(self, step: ClosedStep) -> list[TaskSignal]:
        """What selection may choose from after `step`; nothing where the stage does not expand. For
        a static pool that is all tasks, once the opening epoch has visited each, and nothing at any
        other time."""
        config = self.run.config
        state = self.state
        windows = self._windows.pop(step.step, None)
        if not selects(stage_rules(config.curriculum, step.stage)):
            return []
        if config.pool.static and (
            step.step != state.last_step or not state.static_pool_due or state.unvisited()
        ):
            return []
        if not reads_windows(config):
            return signals(step.groups, config.selection) if step.counts(config.zones) else []
        windows = self._windows_of(step) if windows is None else windows
        lineages = {group.lineage or group.interface for group in step.groups}
        begun = state.pool.epochs[-1].step if config.pool.static else 0
        choices: list[TaskSignal] = []
        for task in self.active if whole_pool(config) else _played(step):
            window = windows.get(task)
            # what was shown otherwise says nothing here
            current = window is not None and window.lineage in lineages and window.last_step > begun
            choices.append(
                window.signal(config.zones.probe) if window and current else TaskSignal(task, None)
            )
        return choices

    def _windows_of(self, step: ClosedStep) -> dict[str, Window]:
        """The windows that selection may need after `step`, as the tracker has them now. In
        lockstep, where many steps may wait, they are taken when the step is read: what a step's
        picks are may not depend on when that was."""
        tracker = self.state.tracker
        tasks: Iterable[str] = _played(step)
        if whole_pool(self.run.config):
            tasks = tracker.tasks if self.lockstep else self.active
        return {task: window for task in tasks if (window := tracker.window(task)) is not None}

    def staged(self) -> int:
        """Variants that no live merge has decided about."""
        return len(self.state.staging)

    def generated(self) -> list[AnyTask]:
        """The pool's variants, in `sync=free` those in staging too. Ask when all there is has been
        read: what an epoch names may lie ahead in the expanded log."""
        state = self.state
        tasks = [state.task(member.task_id) for member in state.pool.generated]
        if not self.lockstep:
            staged = state.staging.candidates(state.staging.seq, by_pick=False)
            tasks += [task for candidate in staged if (task := candidate.task) is not None]
        return tasks


def _played(step: ClosedStep) -> list[str]:
    """The tasks of a step, re-tests left out."""
    return list(dict.fromkeys(group.task for group in step.groups if group.role == "active"))


class SeedQueue:
    """Picks that no worker has started yet, in the order in which they are due.

    In `sync=free` their age is `bound` (`queue_steps`; the default, two steps' worth, is our own
    choice): a pick is stale once the trainer is so many steps past it, and the newest step is
    served first. In lockstep, or without a bound (None; 0 in the paper), nothing is dropped, and
    picks are served in order."""

    def __init__(self, bound: int | None) -> None:
        self.bound = bound
        self._picks: list[Unfinished] = []  # those of a step best first
        self._changed = asyncio.Event()
        self.newest = 0  # the newest step of the trainer that is known
        self.epoch = -1  # the newest epoch whose record is known

    def __len__(self) -> int:
        return len(self._picks)

    def add(self, picks: Iterable[Unfinished]) -> None:
        self._picks += picks
        self._changed.set()

    def advance(self, newest: int, epoch: int) -> list[Unfinished]:
        """The trainer has reached step `newest` and `epoch`: returns the picks that became stale,
        no longer queued."""
        self.newest = max(self.newest, newest)
        self.epoch = epoch
        self._changed.set()
        oldest = -math.inf if self.bound is None else self.newest - self.bound
        stale = sorted((pick for pick in self._picks if pick.step <= oldest), key=BY_STEP)
        self._picks = [pick for pick in self._picks if pick.step > oldest]
        return stale

    def take(self) -> Unfinished | None:
        """The next pick that may start; None when there is none. In order, a pick starts when the
        pool of its own epoch is known (after a restart it may be known later than the pick)."""
        pick = (min if self.bound is None else max)(self._picks, key=BY_STEP, default=None)
        if pick is None or (self.bound is None and pick.epoch > self.epoch):
            return None
        self._picks.remove(pick)
        return pick

    async def changed(self) -> None:
        """Waits until something was added or the trainer has moved on; then `take` may have
        something again."""
        self._changed.clear()
        await self._changed.wait()


class TrainerLife:
    """How long the trainer has given no sign of life: neither its heartbeat's counter nor its steps
    have moved (a foreign trainer need not beat). Judged by this process's own clock, from its start
    on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sign: object = None
        self._seen = time.monotonic()

    async def gone_for(self, newest_step: int) -> float:
        """Seconds since the last sign of life. Looks at the disk, so ask no more often than the
        logs are polled."""
        beat = await asyncio.to_thread(read_heartbeat, self._folder, "trainer")
        lives = beat and beat.get("state") != "stopped"
        sign = (beat.get("pid"), beat.get("counter"), newest_step) if lives else newest_step
        if sign != self._sign:
            self._sign = sign
            self._seen = time.monotonic()
        return time.monotonic() - self._seen
