"""What the daemon sees of the trainer: steps to consider, the pool of their epoch (DESIGN §4).

Observations are read before the pool: a step's epoch is durable before the step, so whoever reads in this order knows
the pool that a step was made with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from buffers.folds.observations import Observations, Step
from buffers.folds.pool import PoolView
from buffers.run.run import Run
from daemon.fetching import Fetcher
from rods.rules.curriculum import stage_rules
from rods.rules.selection import TaskFacts, selects, signals
from rods.rules.tracker import Window
from rods.rules.zones import TaskSignal
from rods.tasks import Task


@dataclass(slots=True)
class Watch:
    """Follows the logs: `fetch` brings their bytes, `look` makes sense of them and is meant for a thread."""

    run: Run
    observations: Observations = field(init=False)
    pool: PoolView = field(init=False)
    active: dict[str, TaskFacts] = field(init=False, default_factory=dict)
    newest: int = field(init=False, default=0)  # the newest step ever read, rewound ones included
    static_epoch: int | None = field(init=False, default=None)  # the first epoch of an expanding stage
    _pending: list[Step] = field(init=False, default_factory=list)
    _windows: dict[int, dict[str, Window]] = field(init=False, default_factory=dict)  # as they stood after these steps
    _fetchers: tuple[Fetcher, ...] = field(init=False, default_factory=lambda: (Fetcher(), Fetcher(), Fetcher()))

    def __post_init__(self) -> None:
        self.observations = Observations(self.run, history=self.lockstep)  # there every step is considered
        self.newest = self.observations.last_step
        self.pool = PoolView(self.run, self.observations)

    @property
    def lockstep(self) -> bool:
        return self.run.config.sync == "lockstep"

    async def fetch(self) -> bool:
        """Reads ahead for `look`, in the order in which the logs are to be read. True: there is more, look and fetch
        again."""
        tails = self.observations.tail, self.pool.tail, self.pool.staging.tail
        return any([await fetcher.fetch(tail) for fetcher, tail in zip(self._fetchers, tails, strict=True)])

    def look(self, last_considered: int) -> bool:
        """Reads on, as far as was fetched. Returns whether the pool has changed."""
        for step in self.observations.steps():
            self.newest = max(self.newest, step.step)
            if step.step > last_considered:  # never twice for one step number, whatever a rewound trainer does
                if not self.lockstep:
                    self._pending.clear()
                self._pending.append(step)
                if self.lockstep and self._reads_windows:
                    self._windows[step.step] = self._windows_of(step)
        if self.observations.rewound:
            self._pending = [step for step in self._pending if self.observations.live(step.attempt, step.step)]
        epoch = self.pool.epoch
        if not self.pool.poll() and self.pool.epoch == epoch:
            return False
        self.active = {
            member.task_id: TaskFacts(member.type, member.generation) for member in self.pool.active.values()
        }
        stages = (epoch.stage for epoch in self.pool.pool.epochs)
        expanding = (
            number for number, stage in enumerate(stages) if selects(stage_rules(self.run.config.curriculum, stage))
        )
        self.static_epoch = next(expanding, None)
        return True

    def due(self, last_considered: int) -> Step | None:
        """The step to consider next: in lockstep the oldest, otherwise only the newest. None when there is none, or
        when the record of its epoch has not arrived."""
        while self._pending:
            if self._pending[0].step > last_considered:
                ready = self._pending[0].epoch <= self.pool.epoch
                return self._pending.pop(0) if ready else None
            self._pending.pop(0)
        return None

    def candidates(self, step: Step) -> list[TaskSignal]:
        """What selection may choose from after `step`; nothing where the stage does not expand, or where a static pool
        has been written already (004 Appendix R)."""
        config, windows = self.run.config, self._windows.pop(step.step, None)
        if not selects(stage_rules(config.curriculum, step.stage)):
            return []
        if config.pool.static and step.epoch != self.static_epoch:
            return []
        if not self._reads_windows:
            return signals(step.groups, config.selection)
        windows = self._windows_of(step) if windows is None else windows
        shown = {group.interface for group in step.groups}
        found: list[TaskSignal] = []
        for task in self.active if config.selection.candidates == "pool" else _played(step):
            window = windows.get(task)
            known = window is not None and window.interface in shown  # what was shown otherwise says nothing here
            found.append(window.signal(config.zones.probe) if window and known else TaskSignal(task, None))
        return found

    @property
    def _reads_windows(self) -> bool:
        """Whether selection reads the tracker's windows rather than the step's own groups."""
        config = self.run.config
        return config.selection.candidates == "pool" or config.zones.probe == "window"

    def _windows_of(self, step: Step) -> dict[str, Window]:
        """The windows that selection may need after `step`, as the tracker has them now. In lockstep, where many steps
        may wait, they are taken when the step is read: what a step's picks are may not depend on when that was."""
        tracker = self.observations.tracker
        tasks: Iterable[str] = _played(step)
        if self.run.config.selection.candidates == "pool":
            tasks = tracker.tasks if self.lockstep else self.active
        return {task: window for task in tasks if (window := tracker.window(task)) is not None}

    def staged(self) -> int:
        """Variants that no live merge has decided about."""
        return self.pool.staging.waiting(self.pool.pool.decided)

    def generated(self) -> list[Task]:
        """The pool's variants, in `sync=free` those in staging too. Ask when all there is has been read: what an epoch
        names may lie ahead in the expanded log."""
        view = self.pool
        tasks = [view.task(member.task_id) for member in view.pool.generated]
        if not self.lockstep:
            staged = view.staging.candidates(view.staging.seq, view.pool.decided, by_pick=False)
            tasks += [Task.from_json(one.content) for one in staged]
        return tasks


def _played(step: Step) -> list[str]:
    """The tasks of a step, re-tests left out."""
    return list(dict.fromkeys(group.task for group in step.groups if group.role == "active"))
