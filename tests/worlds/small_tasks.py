"""A folder with two small generated worlds, tasks in them and a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w

from rods.calls import Call
from rods.conversations import Checks, Script
from rods.environments import addressed
from rods.environments.base import reference
from rods.environments.loading import Environments
from rods.tasks import OpenTask, task_lines
from tests.family.environments.checking.small_world import STATE, spoilt


def small_worlds(folder: Path, count: int = 2) -> list[str]:
    """The names of so many different worlds, whose files are written below `folder`."""
    return [
        addressed.keep(spoilt(("it is full", f"jar {number} is full")), folder)
        for number in range(count)
    ]


def small_tasks(folder: Path, each: int = 2, **values: Any) -> Path:
    """The configuration file of a simulated run on `each` tasks in each of two worlds, one more
    held out."""
    names = small_worlds(folder)
    tasks = []
    with Environments(None, folder) as environments:
        for name in names:
            world = reference(environments.load(name))
            for number in range(each + 1):
                amount = 8 + number
                tasks.append(
                    OpenTask(
                        world,
                        "base",
                        Script((f"Fill the plums up to {amount}, {name[13:18]}.",)),
                        Checks(
                            (
                                Call("holds", {"jar": "plums", "amount": amount}),
                                Call("is_there", {"jar": "pears"}),
                            )
                        ),
                        ("count", "fill"),
                        STATE,
                        split="train" if number < each else "validation",
                    )
                )
    (folder / "tasks.jsonl").write_bytes(task_lines(tasks))
    wanted = {
        "data": {"tasks": "tasks.jsonl"},
        "policy": {"kind": "simulated"},
        "training": {"batch_tasks": 2, "steps": 4},
        "rollouts": {"rollouts_per_task": 4},
        "operation": {
            "trace_every": 1,
            "idle_exit_seconds": 5.0,
            "sandbox": {"seconds": 30.0, "workers": 1},
        },
        **values,
    }
    file = folder / "config.toml"
    file.write_text(tomli_w.dumps(wanted))
    return file
