"""A merge at the epoch boundary while staging is full: how long the trainer waits for it.

Claim: under a second. Anchor: the time of reading a staged variant, which a trainer does between
its steps. Command: `python -m bench.merge`.

The candidates that a merge looks at are real tasks; those far behind in the queue are copies under
other names.
"""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.figures import Figure, run
from rods.buffers.log.record_bytes import line, record
from rods.buffers.run.creation import create_run
from rods.buffers.run.runfolder import expanded_segment
from rods.buffers.trainer_log import TrainerLog
from rods.config import parse_config
from rods.observations import Group, Rollout
from rods.rules.order import batch
from rods.tasks import Task
from rods.worlds import desk

TASKS = 400
BATCH = 32
MERGES = 3
RUNS = Path(__file__).parent.parent / "runs"  # a real disk, as a user's run has


def measure(quick: bool) -> list[Figure]:
    """Wall seconds; the median of three merges, each of which injects a fifth of the pool."""
    staged = 10_000 if quick else 100_000
    tasks = desk.generate(1, TASKS, 8)
    with tempfile.TemporaryDirectory(dir=RUNS) as folder:
        made = create_run(
            Path(folder) / "run",
            parse_config({"training": {"batch_tasks": BATCH}}, where="bench"),
            tasks,
        )
        _stage(made.path / expanded_segment(0), _variants(tasks[0], 500), staged)
        began = time.perf_counter()
        with TrainerLog(made) as log:
            reading = time.perf_counter() - began
            log.start()
            opened = log.merge(0, 1)
            slots = batch(opened.slots, BATCH, 0)
            groups = [
                Group(slot.task_id, 1, "identity", "progress", (0.0, 1.0), ROLLOUTS, slot.role)
                for slot in slots
            ]
            seconds = []
            for epoch in range(1, MERGES + 1):
                log.write_step(log.state.last_step + 1, epoch - 1, groups)
                began = time.perf_counter()
                log.merge(epoch, 1)
                seconds.append(time.perf_counter() - began)
    claim = f"a merge with {staged:,} staged variants"
    return [
        Figure(claim, sorted(seconds)[MERGES // 2], "s", reach=1.0, higher=False),
        Figure("reading a staged variant", reading / staged * 1e6, "µs"),
    ]


ROLLOUTS = tuple(
    Rollout(done, 2, int(done == 2), 0.0, done / 2, "finished") for done in (0, 1, 1, 2)
)


def _variants(seed: Task, count: int) -> list[dict[str, Any]]:
    """Enough for what all merges may look at, and more."""
    provenance = {
        "generation": 1,
        "seed": seed.id,
        "root": seed.id,
        "plan": ["recipe"] * 8,
        "attempts": 1,
    }
    fresh = itertools.islice(desk.fresh_tasks(3, "bench merge"), count)
    return [dataclasses.replace(task, provenance=provenance).as_json() for task, _ in fresh]


def _stage(path: Path, variants: list[dict[str, Any]], count: int) -> None:
    with path.open("wb") as file:
        for seq in range(1, count + 1):
            task = variants[(seq - 1) % len(variants)]
            if seq > len(variants):
                task = {**task, "id": f"{seq:020x}"}
            pick = {
                "pick": f"{seq // 16 + 1}-{seq % 16:020x}",
                "index": 0,
                "step": seq // 16 + 1,
                "rank": seq % 16,
            }
            file.write(line(seq, record("expanded", **pick, task=task, time=0.0)))


if __name__ == "__main__":
    run(measure)
