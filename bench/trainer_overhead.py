"""What a run adds to the trainer's step: recording, merging, checkpoints, tracker.

Claim: at most 1 % of a step. Anchor: the same rollouts in a bare loop; TRL with the same rollouts.
Command: `python -m bench.trainer_overhead`.

First on the simulated policy: the same rollouts drawn in a bare loop, and through a run on the
disk. Then, in the full size only, on the demonstration's own run of nano through TRL: the time
spent in the run, over the rest of the step. `--config FILE` measures that run, as many steps as it
has, instead.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.figures import Figure, run
from rods import logs
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.config import Config, parse_config, read_config
from rods.tasks import Task
from rods.trainer.policy import Batch, BatchSlot
from rods.trainer.simulated import SimulatedPolicy
from rods.trainer.training_run import TrainingRun
from rods.worlds import desk
from rods.worlds.sources import load_tasks

TASKS = 400
BATCH = 32
ROLLOUTS = 16
DEMO = Path(__file__).parent.parent / "console" / "demo.toml"
RUNS = Path(__file__).parent.parent / "runs"  # a real disk, as a user's run has
NANO_STEPS = 20
Clock = Callable[[], float]


def measure(quick: bool, config: str = "") -> list[Figure]:
    """Milliseconds a step, every step made durable, a merge every 13 steps; and the share of a step
    of nano."""
    logs.configure("bench", "error")
    if config:
        return [_share(Path(config))]
    tasks = desk.generate(1, TASKS, 8)
    played = simulated(52 if quick else 260)
    alone = bare(played, tasks)
    with tempfile.TemporaryDirectory(dir=RUNS) as folder:
        full = through_a_run(create_run(Path(folder) / "run", played, tasks))
    figures = [
        Figure(
            "a step through a run, 32 tasks × 16 rollouts",
            full,
            "ms",
            "the same rollouts in a bare loop",
            alone,
        )
    ]
    if not quick:
        figures.append(_share(DEMO, NANO_STEPS))
    return figures


def simulated(steps: int) -> Config:
    values = {
        "policy": {"kind": "simulated"},
        "rollouts": {"rollouts_per_task": ROLLOUTS},
        "training": {"batch_tasks": BATCH, "steps": steps},
    }
    return parse_config(values, where="bench")


def bare(config: Config, tasks: list[Task], clock: Clock = time.perf_counter) -> float:
    policy = SimulatedPolicy(config)
    steps = config.training.steps
    stage = config.curriculum.stages[0]
    began = clock()
    for step in range(1, steps + 1):
        first = (step - 1) * BATCH % (TASKS - BATCH)
        slots = tuple(
            BatchSlot(index, task) for index, task in enumerate(tasks[first : first + BATCH])
        )
        policy.practise(policy.groups(Batch(step, 0, 1, stage, slots, "")))
    return (clock() - began) / steps * 1000


def through_a_run(made: Run, clock: Clock = time.perf_counter) -> float:
    with TrainingRun(made) as training:
        policy = SimulatedPolicy(made.config)
        training.begin(policy)
        began = clock()
        while training.stopping is None:
            batch = training.next_batch()
            groups = policy.groups(batch)
            training.record(batch, groups)
            policy.practise(groups)
            training.after_update()
        return (clock() - began) / training.step * 1000


class _Timed(TrainingRun):
    """Adds up the seconds spent in the run, from the first batch on."""

    own = 0.0
    began = 0.0

    def _timed(self, method: Callable[..., Any], *arguments: Any) -> Any:
        began = time.perf_counter()
        self.began = self.began or began
        try:
            return method(*arguments)
        finally:
            self.own += time.perf_counter() - began

    def next_batch(self) -> Batch:
        batch: Batch = self._timed(super().next_batch)
        return batch

    def record(self, *arguments: Any, **spent: int) -> None:  # type: ignore[override]
        record: Any = super().record
        self._timed(partial(record, **spent), *arguments)

    def after_update(self, *arguments: Any) -> None:
        self._timed(super().after_update, *arguments)


def _share(file: Path, steps: int = 0) -> Figure:
    """The time spent in the run over that of the rest of its step, in the run of `file` (its first
    `steps` steps)."""
    from rods.trainer import trl_start

    asked = read_config(file)
    training = asked.training.model_copy(update={"steps": steps or asked.training.steps})
    config = asked.model_copy(update={"training": training})
    with tempfile.TemporaryDirectory(dir=RUNS) as folder:
        timed = _Timed(
            create_run(Path(folder) / "run", config, load_tasks(config.data, file.parent))
        )
        with timed:
            trl_start.train(timed)
            whole = time.perf_counter() - timed.began
        done = timed.step
    rest = (whole - timed.own) / done * 1000
    claim = f"what the run adds to a step of {config.policy.kind}"
    share = timed.own / (whole - timed.own) * 100
    return Figure(claim, share, "%", "TRL with the same rollouts, ms", rest, reach=1, higher=False)


if __name__ == "__main__":
    run(measure, config="the configuration of a run, whose steps are measured")
