"""What the daemon sees of the trainer: the steps to consider, the pool of their epoch, signs of life.

`Watch` follows the run's logs. Their bytes are read ahead by aiofiles, in big blocks, since every hop to a thread costs
more than reading a hundred records: so the event loop never waits for a disk, and a file system that hangs takes none
of the threads in which variants are made. What the bytes mean is left to the folds, in a thread.
"""

from __future__ import annotations

import io
import math
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import aiofiles
import aiofiles.os

from buffers.log.tail import Ahead, Disk, Tail
from buffers.run.heartbeat import read_heartbeat
from buffers.run.run import Run
from buffers.state import ClosedStep, RunState
from rods.files import descriptor_of
from rods.rules.curriculum import selects, stage_rules
from rods.rules.selection import TaskFacts, signals
from rods.rules.tracker import Window
from rods.rules.zones import TaskSignal
from rods.tasks import AnyTask
from worlds.checking.variants import varied

BLOCK = 4 << 20  # bytes fetched at once, unless a single group is longer
FRESH = 2.0  # seconds after which a file is opened although its size says that nothing has come: that makes a network
# file system ask its server


@dataclass(slots=True)
class Watch:
    """Follows the logs: `fetch` brings their bytes, `look` makes sense of them and is meant for a thread."""

    run: Run
    state: RunState = field(init=False)
    active: dict[str, TaskFacts] = field(init=False, default_factory=dict)
    newest: int = field(init=False, default=0)  # the newest step ever read, rewound ones included
    _unvaried: frozenset[str] = field(init=False)
    _pending: list[ClosedStep] = field(init=False, default_factory=list)
    _windows: dict[int, dict[str, Window]] = field(init=False, default_factory=dict)  # as they stood after these steps
    _fetchers: tuple[Fetcher, ...] = field(init=False, default_factory=lambda: (Fetcher(), Fetcher(), Fetcher()))

    def __post_init__(self) -> None:
        self._unvaried = frozenset(task.id for task in self.run.tasks if not varied(task))  # these are no seeds
        # In lockstep every step is considered; for a static pool one may not be missed behind a snapshot.
        self.state = RunState(self.run, every_step=self.lockstep or self.run.config.pool.static)
        self.newest = self.state.last_step

    @property
    def lockstep(self) -> bool:
        return self.run.config.sync == "lockstep"

    async def fetch(self) -> bool:
        """Reads ahead for `look`, in the order in which the logs are to be read. True: there is more, look and fetch
        again."""
        tails = self.state.tails()
        return any([await fetcher.fetch(tail) for fetcher, tail in zip(self._fetchers, tails, strict=True)])

    def look(self, last_considered: int) -> bool:
        """Reads on, as far as was fetched. Returns whether the pool has changed."""
        state, epoch = self.state, self.state.epoch
        for step in state.steps():
            self.newest = max(self.newest, step.step)
            if step.step > last_considered:  # never twice for one step number, whatever a rewound trainer does
                if not self.lockstep:
                    self._pending.clear()
                self._pending.append(step)
                if self.lockstep and self._reads_windows:
                    self._windows[step.step] = self._windows_of(step)
        if state.rewound:
            self._pending = [step for step in self._pending if state.live(step.attempt, step.step)]
        if not state.merged and state.epoch == epoch:
            return False
        rising = self.run.config.selection.order == "rising"
        self.active = {
            member.task_id: TaskFacts(
                member.type, member.generation, len(state.task(member.task_id).goal_calls) if rising else 0
            )
            for member in state.active.values()
            if member.task_id not in self._unvaried
        }
        return True

    def due(self, last_considered: int, before: float = math.inf) -> ClosedStep | None:
        """The step to consider next: in lockstep the oldest, otherwise only the newest. None when there is none below
        `before`, or when the record of its epoch has not arrived."""
        while self._pending:
            if self._pending[0].step > last_considered:
                ready = self._pending[0].epoch <= self.state.epoch and self._pending[0].step < before
                return self._pending.pop(0) if ready else None
            self._pending.pop(0)
        return None

    def candidates(self, step: ClosedStep) -> list[TaskSignal]:
        """What selection may choose from after `step`; nothing where the stage does not expand. For a static pool that
        is all tasks, once the opening epoch has visited each, and nothing at any other time."""
        config, windows = self.run.config, self._windows.pop(step.step, None)
        if not selects(stage_rules(config.curriculum, step.stage)):
            return []
        if config.pool.static and (
            step.step != self.state.last_step or not self.state.static_pool_due or self.state.unvisited()
        ):
            return []
        if not self._reads_windows:
            return signals(step.groups, config.selection)
        windows = self._windows_of(step) if windows is None else windows
        shown = {group.lineage or group.interface for group in step.groups}
        begun = self.state.pool.epochs[-1].step if config.pool.static else 0
        found: list[TaskSignal] = []
        for task in self.active if self._whole_pool else _played(step):
            window = windows.get(task)
            # what was shown otherwise says nothing here
            known = window is not None and window.lineage in shown and window.last_step > begun
            found.append(window.signal(config.zones.probe) if window and known else TaskSignal(task, None))
        return found

    @property
    def _reads_windows(self) -> bool:
        """Whether selection reads the tracker's windows rather than the step's own groups."""
        config = self.run.config
        return self._whole_pool or config.zones.probe == "window" or config.selection.order == "forgetting"

    @property
    def _whole_pool(self) -> bool:
        """Whether selection looks at more than the step's own tasks."""
        config = self.run.config
        return config.pool.static or config.selection.candidates == "pool" or config.selection.blind

    def _windows_of(self, step: ClosedStep) -> dict[str, Window]:
        """The windows that selection may need after `step`, as the tracker has them now. In lockstep, where many steps
        may wait, they are taken when the step is read: what a step's picks are may not depend on when that was."""
        tracker = self.state.tracker
        tasks: Iterable[str] = _played(step)
        if self._whole_pool:
            tasks = tracker.tasks if self.lockstep else self.active
        return {task: window for task in tasks if (window := tracker.window(task)) is not None}

    def staged(self) -> int:
        """Variants that no live merge has decided about."""
        return len(self.state.staging)

    def generated(self) -> list[AnyTask]:
        """The pool's variants, in `sync=free` those in staging too. Ask when all there is has been read: what an epoch
        names may lie ahead in the expanded log."""
        state = self.state
        tasks = [state.task(member.task_id) for member in state.pool.generated]
        if not self.lockstep:
            staged = state.staging.candidates(state.staging.seq, by_pick=False)
            tasks += [AnyTask.from_json(one.content) for one in staged]
        return tasks


def _played(step: ClosedStep) -> list[str]:
    """The tasks of a step, re-tests left out."""
    return list(dict.fromkeys(group.task for group in step.groups if group.role == "active"))


class Fetched(Disk):
    """Parts of a log as they were fetched: each with its inode, and its bytes from some offset on."""

    def __init__(self) -> None:
        self._parts: dict[Path, tuple[int, int, bytes]] = {}

    def add(self, one: Ahead, data: bytes) -> None:
        self._parts[one.part] = one.inode, one.begin, data

    def parts(self, path: Path, since: str) -> list[Path]:
        return list(self._parts)

    def inode(self, part: Path) -> int:
        if part not in self._parts:
            raise FileNotFoundError(part)
        return self._parts[part][0]

    @contextmanager
    def open(self, part: Path) -> Iterator[tuple[BinaryIO, int]]:
        inode, offset, data = self._parts[part]
        yield _Window(data, offset), inode


class _Window(io.BytesIO):
    """A file of which only the bytes from `offset` on are known."""

    def __init__(self, data: bytes, offset: int) -> None:
        super().__init__(data)
        self._begin = offset

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return super().seek(offset - self._begin, whence)


class Fetcher:
    """Reads ahead for one tail at a time (a fold that begins anew has a new one)."""

    def __init__(self) -> None:
        self._reach = BLOCK
        self._stuck: Ahead | None = None  # where the last block was cut off
        self._opened = 0.0

    async def fetch(self, tail: Tail) -> bool:
        """Puts what has come since the tail's position, up to a block, where the tail looks for it. True when there is
        more: call again once the tail has been read."""
        ahead = await _ahead(tail)
        now = time.monotonic()
        fetched = Fetched()
        if now - self._opened < FRESH and all(one.size <= one.begin for one in ahead):
            for one in ahead:
                fetched.add(one, b"")
            tail.files = fetched
            return False
        self._opened = now
        self._reach = 2 * self._reach if self._stuck is not None and ahead and _same(ahead[0], self._stuck) else BLOCK
        room = self._reach
        for one in ahead:
            try:
                async with aiofiles.open(one.part, "rb", opener=descriptor_of) as file:
                    if (await _fstat(file.fileno())).st_ino != one.inode:
                        break  # renamed just now: what it holds is fetched next time
                    await file.seek(one.begin)
                    data = await file.read(room)
            except FileNotFoundError:
                break
            fetched.add(one, data)
            room -= len(data)
            if not room:
                break
        self._stuck = None if room else ahead[0]
        tail.files = fetched
        return not room


def _same(one: Ahead, other: Ahead) -> bool:
    return (one.inode, one.begin) == (other.inode, other.begin)


_ahead = aiofiles.os.wrap(Tail.ahead)
_fstat = aiofiles.os.wrap(os.fstat)
_beat = aiofiles.os.wrap(read_heartbeat)


class TrainerLife:
    """How long the trainer has given no sign of life: neither its heartbeat's counter nor its steps have moved (a
    foreign trainer need not beat). Judged by this process's own clock, from its start on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sign: object = None
        self._seen = time.monotonic()

    async def gone_for(self, newest_step: int) -> float:
        """Seconds since the last sign of life. Looks at the disk, so ask no more often than the logs are polled."""
        sign = (await self._beat(), newest_step)
        if sign != self._sign:
            self._sign, self._seen = sign, time.monotonic()
        return time.monotonic() - self._seen

    async def _beat(self) -> object:
        beat = await _beat(self._folder, "trainer")  # the folder may be on a network: never block the loop
        return None if not beat or beat.get("state") == "stopped" else (beat.get("pid"), beat.get("counter"))
