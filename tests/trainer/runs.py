"""Small runs, started as real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np
import tomli_w

from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.trainer.advantages import AdvantageEstimate, Array
from tests import forked

IMPORTS = (
    "rods.trainer.main",
    "rods.trainer.simulated",
    "rods.trainer.trl_grpo",
    "rods.trainer.trl_start",
    "rods.trainer.nano.warm_start",
)

SMALL: dict[str, dict[str, Any]] = {
    "data": {"tasks": "desk", "train": 24, "held_out": 12},
    "policy": {"kind": "simulated"},
    "rollouts": {"rollouts_per_task": 4},
    "training": {"batch_tasks": 8, "steps": 40, "checkpoint_steps": 10},
}


# The demo's policy, whose weights come with the package: it makes calls that desk refuses.
NANO: dict[str, Any] = {
    "policy.kind": "nano",
    "policy.dialect": "compact",
    "policy.carelessness": 0.5,
    "data.tasks": "desk-small",
    "data.train": 20,
    "data.held_out": 4,
    "data.random_seed": 7,
    "rollouts.rollouts_per_task": 4,
    "rollouts.max_steps": 6,
    "rollouts.max_reply_tokens": 48,
    "rollouts.max_context_tokens": 640,
    "training.batch_tasks": 10,
    "training.checkpoint_steps": 1,
    "training.kl": 0.0,
    "operation.trace_every": 1,
    "operation.threads": 1,
}

# Its cheapest steps. What it learns from does not depend on what it earns.
BRIEF: dict[str, Any] = NANO | {
    "data.train": 12,
    "rollouts.max_steps": 3,
    "rollouts.max_reply_tokens": 16,
    "training.batch_tasks": 4,
    "training.learning_rate": 0.01,
    "training.optimizer": "muon",
    "training.deterministic": True,
    "training.advantage_hook": "tests.trainer.runs:alternating",
    "curriculum.stages": [{"reward": "format", "expand": False}],
}


def alternating(estimate: AdvantageEstimate) -> Array:
    signs: Array = np.resize([-1.0, 1.0], estimate.advantages.size)
    return signs.reshape(estimate.advantages.shape)


def write_config(file: Path, changes: dict[str, Any] | None = None) -> Path:
    """SMALL with `changes`: `{"training.steps": 5}` sets a key, `{"sync": "lockstep"}` a top-level
    one."""
    values: dict[str, Any] = {section: dict(keys) for section, keys in SMALL.items()}
    for key, value in (changes or {}).items():
        section, _, name = key.rpartition(".")
        (values.setdefault(section, {}) if section else values)[name] = value
    file.write_text(tomli_w.dumps(values), encoding="utf-8")
    return file


def command(run: Path, config: Path | None = None) -> list[str]:
    return [sys.executable, "-m", "rods.trainer", *_arguments(run, config)]


def _arguments(run: Path, config: Path | None) -> list[str]:
    return [str(run), *(["--config", str(config)] if config else [])]


def train(
    run: Path, config: Path | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """`rods-train` from start to end."""
    return forked.run("rods.trainer", _arguments(run, config), IMPORTS, timeout=600, **options)


def train_replayed(
    run: Path, config: Path, drawn: Path, given: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`rods-train` in a process that writes the tokens which it draws to `drawn`, and draws those
    in `given` (tests.trainer.replayed)."""
    arguments = _arguments(run, config)
    env = replaying(drawn, given)
    return forked.run("tests.trainer.replayed", arguments, IMPORTS, timeout=600, env=env)


def replaying(drawn: Path, given: Path | None = None) -> dict[str, str]:
    """The environment of such a process."""
    return {**os.environ, "RODS_DRAWN": str(drawn)} | ({"RODS_GIVEN": str(given)} if given else {})


def start(run: Path, config: Path, errors: IO[bytes] | None = None) -> forked.Process:
    """`rods-train` as a process, to be watched and killed. What it says goes to `errors`."""
    with Path(os.devnull).open("r+b") as nothing:
        return forked.Process(
            "rods.trainer", _arguments(run, config), IMPORTS, (nothing, nothing, errors or nothing)
        )


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a person sees: the last on standard error, which must be no traceback."""
    assert "Traceback" not in done.stderr, done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("rods-train: "), done.stderr
    return line


def live_steps(path: Path) -> list[tuple[int, int, list[dict[str, Any]]]]:
    """(step, epoch, groups) of every live step."""
    steps = RunState(Run.open(path)).steps()
    return [(step.step, step.epoch, [group.as_json() for group in step.groups]) for step in steps]
