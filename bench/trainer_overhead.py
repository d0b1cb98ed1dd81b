"""What a run adds to the trainer's step: recording, merging, checkpoints, tracker (DESIGN §7: at most 1 % of a step).

Measured on the simulated policy: the same rollouts drawn in a bare loop, and through a run on the disk. The step that
the share refers to is the paper's, 3.7 minutes (004 Appendix N), and nano's, about 2.7 s for 32 tasks × 8 rollouts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from bench.figures import Figure, run
from buffers.run import Run
from rods import logs
from rods.config import Config, parse_config
from rods.environments import desk
from rods.tasks import Task
from trainer.policy import Batch, BatchSlot
from trainer.simulated import SimulatedPolicy
from trainer.training_run import TrainingRun

TASKS, BATCH, ROLLOUTS = 400, 32, 16
NANO_STEP = 2700.0  # ms


def measure(quick: bool) -> list[Figure]:
    """Milliseconds a step, every step made durable, a merge every 13 steps."""
    steps = 52 if quick else 260
    tasks = desk.generate(1, TASKS, 8)
    values = {
        "policy": {"kind": "simulated"},
        "rollouts": {"rollouts_per_task": ROLLOUTS},
        "training": {"batch_tasks": BATCH, "steps": steps},
        "operation": {"log_level": "error"},
    }
    config = parse_config(values, where="bench")
    bare = _bare(config, tasks, steps)
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent.parent / "runs") as folder:
        logs.configure("bench", "error")
        full = _through_a_run(Run.create(Path(folder) / "run", config, tasks))
    added = full - bare
    return [
        Figure("a step through a run, 32 tasks × 16 rollouts", full, "ms", "the same rollouts in a bare loop", bare),
        Figure("what the run adds, share of a step of nano", added / NANO_STEP * 100, "%", reach=1, higher=False),
    ]


def _bare(config: Config, tasks: list[Task], steps: int) -> float:
    policy = SimulatedPolicy(config)
    stage = config.curriculum.stages[0]
    began = time.perf_counter()
    for step in range(1, steps + 1):
        first = (step - 1) * BATCH % (TASKS - BATCH)
        slots = tuple(BatchSlot(index, task) for index, task in enumerate(tasks[first : first + BATCH]))
        policy.practise(policy.groups(Batch(step, 0, 1, stage, slots, "")))
    return (time.perf_counter() - began) / steps * 1000


def _through_a_run(made: Run) -> float:
    with TrainingRun(made) as training:
        policy = SimulatedPolicy(made.config)
        training.begin(policy)
        began = time.perf_counter()
        while training.stopping is None:
            batch = training.next_batch()
            groups = policy.groups(batch)
            training.record(batch, groups)
            policy.practise(groups)
            training.after_update()
        return (time.perf_counter() - began) / training.step * 1000


if __name__ == "__main__":
    sys.exit(run(measure))
