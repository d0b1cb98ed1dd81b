"""Scenarios of a drawn world, for tests of their variants."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rods.config import Sandbox
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.family.environments.procedural.scenarios import grow
from rods.tasks import OpenTask, read_tasks, task_lines

SLOW = Sandbox(workers=1, seconds=10.0)  # a busy machine's clock is no fault of a world
SCENARIOS = 10


@contextmanager
def drawn(factory: pytest.TempPathFactory) -> Iterator[tuple[Environment, list[OpenTask]]]:
    """A world below the current folder, and its tasks of both modes. They are drawn and checked
    once for all processes of the tests, and only read."""
    base = factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "drawn_world"
    folder.mkdir(exist_ok=True)
    file = folder / "tasks.jsonl"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            grown = grow(folder, 77, 0, SCENARIOS, ("told", "asked"))
            file.write_bytes(task_lines(grown.tasks))
    tasks = [task for task in read_tasks(file) if isinstance(task, OpenTask)]
    (name,) = {task.environment.name for task in tasks}
    with pytest.MonkeyPatch.context() as patch, Environments(SLOW) as environments:
        patch.chdir(folder)
        yield environments.load(name), tasks
