"""Real run folders, a trainer played by the test itself, and daemons as real processes."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.merging.merger import Epoch
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, POOL, REJECTED, SEEDS
from rods.buffers.trainer_log import TrainerLog
from rods.canonical import keyed_random
from rods.config import parse_config
from rods.observations import Group, Role, Rollout
from rods.rules.order import batch, steps_per_epoch
from rods.tasks import AnyTask
from tests import dying, forked
from tests.environments import desk_tasks

IMPORTS = ("rods.daemon.main",)
BATCH = 8
VALUES: dict[str, Any] = {
    "policy": {"kind": "simulated"},
    "rollouts": {"rollouts_per_task": 4},
    "training": {"batch_tasks": BATCH, "steps": 1000},
    "operation": {"poll_seconds": 0.02, "deadline_seconds": 120.0},
}


def make_run(
    path: Path, changes: dict[str, Any] | None = None, tasks: Sequence[AnyTask] | None = None
) -> Run:
    """A run of 24 desk tasks; `changes` are sections that are merged into VALUES."""
    values = {section: dict(keys) for section, keys in VALUES.items()}
    for section, keys in (changes or {}).items():
        if isinstance(keys, dict):
            values.setdefault(section, {}).update(keys)
        else:
            values[section] = keys
    return create_run(path, parse_config(values, where="test"), tasks or desk_tasks(7, 24, 8))


class Trainer:
    """Plays the trainer: rewards depend on step and task only, so that two plays of a step are the
    same."""

    def __init__(self, run: Run, from_step: int | None = None, stage: int = 1) -> None:
        self.run = run
        self.stage = stage
        self.interface = "identity"
        self.lineage = ""
        self.log = TrainerLog(run)
        self.log.start(from_step)
        self.epoch: Epoch = self.log.merge(max(self.log.state.epoch, 0), stage)

    @property
    def step(self) -> int:
        return self.log.state.last_step

    def play(self, steps: int, pause: float = 0.0) -> None:
        """Makes `steps` further steps, with the merges that fall due before them."""
        for _ in range(steps):
            index = self.step - self.epoch.step
            if index == steps_per_epoch(len(self.epoch.slots), BATCH):
                self.epoch = self.log.merge(self.epoch.number + 1, self.stage)
                index = 0
            slots = batch(self.epoch.slots, BATCH, index)
            step = self.step + 1
            self.log.write_step(
                step,
                self.epoch.number,
                [self.group(step, slot.task_id, slot.role) for slot in slots],
            )
            time.sleep(pause)

    def group(self, step: int, task_id: str, role: Role) -> Group:
        turns = self.log.task(task_id).expected
        chance = keyed_random(0, "rewards", step, task_id)
        rollouts = []
        for _ in range(4):
            resolved = sum(chance.random() < 0.5 for _ in range(turns))
            rollouts.append(
                Rollout(resolved, turns, int(resolved == turns), 0.0, resolved / turns, "finished")
            )
        return Group(
            task_id,
            self.stage,
            self.interface,
            "progress",
            (0.0, 1.0),
            tuple(rollouts),
            role,
            lineage=self.lineage,
        )

    def close(self) -> None:
        self.log.close()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Daemon:
    """`rods-daemon` as a process."""

    def __init__(
        self, path: Path, *options: str, file_bytes: int = 0, program: str = "rods.daemon"
    ) -> None:
        """`file_bytes` limits what any file may grow to; `program` is a module that runs it
        otherwise."""
        self.path = path
        reading, writing = os.pipe()
        self.stderr = os.fdopen(reading)
        with Path(os.devnull).open("r+b") as nothing, os.fdopen(writing, "wb") as errors:
            env = {**os.environ, "OMP_NUM_THREADS": "1"}
            self.process = forked.Process(
                program, (path, *options), IMPORTS, (nothing, nothing, errors), env=env
            )
        if file_bytes:
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    def kill(self) -> None:
        self.process.kill()
        self.ended()

    def ended(self, timeout: float = 120.0) -> tuple[int, str]:
        """Waits until it ends; its exit code, and what was written to standard error since somebody
        looked."""
        code = self.process.wait(timeout)
        with self.stderr:
            return code, self.stderr.read()

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float, str]:
        """Sends a signal; returns exit code, seconds that it took, and what was written to standard
        error."""
        began = time.monotonic()
        self.process.send_signal(number)
        code, errors = self.ended()
        return code, time.monotonic() - began, errors

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


def dying_at(path: Path, many: int, number: int = signal.SIGKILL) -> Daemon:
    """One that gets a signal once so many variants are on the disk."""
    return Daemon(path, *dying.at("rods.daemon", EXPANDED, many, number), program=dying.MODULE)


def until(condition: Callable[[], Any], seconds: float = 240.0) -> Any:
    """Waits until `condition()` is true and returns its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return value


def seeds(path: Path, kind: str) -> list[Record]:
    return [record for record in read(path / SEEDS) if record["kind"] == kind]


def variants(path: Path) -> list[Record]:
    return list(read(path / EXPANDED))


def rejected(path: Path) -> list[Record]:
    return list(read(path / REJECTED))


def epochs(path: Path) -> list[Record]:
    return [record for record in read(path / POOL) if record["kind"] == "epoch"]


def idle(path: Path, step: int) -> bool:
    """Whether every pick up to `step`, which was considered, is finished."""
    done = {record["pick"] for record in seeds(path, "finished")}
    return any(record["step"] >= step for record in seeds(path, "considered")) and all(
        record["pick"] in done for record in seeds(path, "picked")
    )
