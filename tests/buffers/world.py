"""Small real runs, with a trainer and a daemon played by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from rods.buffers.daemon_log import DaemonLog
from rods.buffers.folds.pool import Pool
from rods.buffers.merging.merger import Epoch
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.buffers.trainer_log import TrainerLog
from rods.canonical import keyed_random
from rods.config import Config, parse_config
from rods.gates.similarity import SimilarityIndex
from rods.observations import Group, Rollout
from rods.rules.order import EpochSlot, batch, steps_per_epoch
from rods.tasks import AnyTask, Task
from rods.worlds import desk

BATCH = 4
VALUES: dict[str, Any] = {
    "training": {"batch_tasks": BATCH},
    "rollouts": {"rollouts_per_task": 4},
    "pool": {"max_generated": 6, "inject_fraction": 0.5, "retest_fraction": 0.1},
    "operation": {"deadline_seconds": 0.3},
}
# step, slot, expected turns → resolved turns of each rollout
Resolved = Callable[[int, EpochSlot, int], int]


@cache
def originals() -> tuple[Task, ...]:
    return tuple(desk.generate(7, 12, 4))


@cache
def variants(count: int = 60) -> tuple[Task, ...]:
    """Tasks that can be injected: no two are near duplicates, of each other or of originals."""
    index = SimilarityIndex()
    for task in originals():
        index.add(task)
    found: list[Task] = []
    for task, _ in desk.fresh_tasks(3, "test"):
        if index.find(task) is None and task.id not in index:
            index.add(task)
            found.append(task)
        if len(found) == count:
            break
    return tuple(found)


def config(**changes: Any) -> Config:
    values = {section: dict(keys) for section, keys in VALUES.items()}
    for section, keys in changes.items():
        if isinstance(keys, dict):
            values[section] = {**values.get(section, {}), **keys}
        else:
            values[section] = keys
    return parse_config(values, where="test")


def make_run(path: Path, **changes: Any) -> Run:
    return create_run(path, config(**changes), list(originals()))


def group(task: AnyTask, resolved: list[int], slot_role: str = "active", stage: int = 1) -> Group:
    rollouts = tuple(
        Rollout(
            done, task.expected, int(done == task.expected), 0.0, done / task.expected, "finished"
        )
        for done in resolved
    )
    return Group(
        task.id,
        stage,
        "identity",
        "progress",
        (0.0, 1.0),
        rollouts,
        slot_role,  # type: ignore[arg-type]
    )


def by_chance(step: int, slot: EpochSlot, expected: int) -> list[int]:
    """Rewards that depend on step and task only: some tasks are hopeless, some mastered, most in
    between."""
    rng = keyed_random(0, "test rewards", step, slot.task_id)
    level = keyed_random(1, "test level", slot.task_id).random()
    if level < 0.2:
        return [0, 0, 0, int(rng.random() < 0.2)]
    if level > 0.8:
        return [expected] * 4
    return [rng.randint(0, expected) for _ in range(4)]


PICKED = {"type": "base", "score": 1.0, "why": {"generation": 0}}  # a pick, but for its task


class SyncDaemonLog:
    """DaemonLog for tests without an event loop: whatever is written has been acknowledged when the
    call returns."""

    def __init__(self, run: Run) -> None:
        self.log = DaemonLog(run)
        self._loop = asyncio.Runner()
        self.state = self.log.state
        self.note_epoch = self.log.note_epoch

    def picked(self, *arguments: Any) -> None:
        self._loop.run(self.log.picked(*arguments))

    def expanded(self, pick: str, index: int, task: Task, provenance: dict[str, Any]) -> bool:
        variant = replace(task, provenance=provenance)
        return self._loop.run(self.log.expanded(pick, index, variant))

    def rejected(self, *arguments: Any, **facts: Any) -> None:
        async def rejected() -> None:
            await self.log.rejected(*arguments, **facts)

        self._loop.run(rejected())

    def finished(self, *arguments: Any, **facts: Any) -> None:
        self._loop.run(self.log.finished(*arguments, **facts))

    def close(self) -> None:
        self.log.close()
        self._loop.close()

    def __enter__(self) -> SyncDaemonLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


def generation_of(pool: Pool, task_id: str) -> int:
    """0 for originals; KeyError for what is neither active nor may be revived."""
    member = pool.active.get(task_id)
    return member.generation if member is not None else pool.revivable[task_id].member.generation


def retired(state: RunState) -> dict[str, tuple[str, int, int]]:
    """What has left the live pool and not come back: task → rule, epoch, step. Folds keep only what
    may be revived."""
    found: dict[str, tuple[str, int, int]] = {}
    for record in state.decisions():
        if record["kind"] == "retired":
            found[record["task"]] = record["rule"], record["epoch"], record["step"]
        elif record["kind"] == "revived":
            del found[record["task"]]
    return found


class Players:
    """A trainer, and a daemon that makes one variant a step out of the step's first task."""

    def __init__(self, run: Run, trainer: TrainerLog, daemon: SyncDaemonLog | None) -> None:
        self.run = run
        self.trainer = trainer
        self.daemon = daemon
        self._fresh: Iterator[Task] = iter(variants())
        self.rewards: Any = by_chance

    def epoch(self, number: int, stage: int = 1, steps: int | None = None) -> Epoch:
        """Merges and plays an epoch, or its first `steps` steps."""
        opened = self.trainer.merge(number, stage)
        length = steps_per_epoch(len(opened.slots), BATCH)
        for index in range(length if steps is None else min(steps, length)):
            self.step(opened, index)
        return opened

    def step(self, opened: Epoch, index: int) -> None:
        step = self.trainer.state.last_step + 1
        slots = batch(opened.slots, BATCH, index)
        groups = []
        for slot in slots:
            task = self.trainer.task(slot.task_id)
            played = group(task, self.rewards(step, slot, task.expected), slot.role, opened.stage)
            groups.append(replace(played, **self.shown(step)))
        self.trainer.write_step(step, opened.number, groups)
        if self.daemon is not None and step > self.daemon.state.last_considered:
            self.synthesise(step, opened.number, slots[0])

    def shown(self, step: int) -> dict[str, Any]:
        """What the groups of a step say of their interface."""
        return {}

    def synthesise(self, step: int, epoch: int, seed: EpochSlot) -> None:
        assert self.daemon is not None
        self.daemon.note_epoch(epoch)
        generation = generation_of(self.trainer.state.pool, seed.task_id) + 1
        if seed.role == "retest" or generation > self.run.config.selection.max_generation:
            self.daemon.picked(step, epoch, [])
            return
        task = next(self._fresh)
        self.daemon.picked(step, epoch, [{"task": seed.task_id} | PICKED])
        pick = f"{step}-{seed.task_id}"
        self.daemon.expanded(pick, 0, task, {"generation": generation, "seed": seed.task_id})
        self.daemon.finished(pick, [task.id], 0)
