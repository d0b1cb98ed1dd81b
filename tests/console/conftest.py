"""A small real run that the tests of this room share: simulated policy, both processes, in
lockstep."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rods.console.main import verbs
from tests import forked

CONFIG = """
sync = "lockstep"
[data]
tasks = "desk"
train = 16
held_out = 12
[policy]
kind = "simulated"
[rollouts]
rollouts_per_task = 4
[training]
batch_tasks = 8
steps = 14
checkpoint_steps = 4
[selection]
seeds_per_step = 6
exclusion_steps = 1
[operation]
deadline_seconds = 60
"""
IMPORTS = (
    "rods.console.main",
    *(target.partition(":")[0] for target, *_ in verbs().values() if target),
)
Rods = Callable[..., "subprocess.CompletedProcess[str]"]


def rods(
    *arguments: str | Path, stdin: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a process of its own."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return forked.run("rods.console", arguments, IMPORTS, stdin=stdin, cwd=cwd, env=env)


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that `rods up` brought to its end. Read it, do not write into it."""
    return finished(tmp_path_factory.mktemp("console"))


def finished(folder: Path, text: str = CONFIG) -> Path:
    """A run in `folder` that `rods up` brought to its end."""
    folder.mkdir(exist_ok=True)
    config = folder / "run.toml"
    config.write_text(text)
    done = rods("up", folder / "run", "--config", config)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "run"


@pytest.fixture
def run_copy(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of the finished run that a test may change."""
    shutil.copytree(finished_run, tmp_path / "copy")
    return tmp_path / "copy"
