"""The procedural author on desk: variants a second, yield by stage, and how long a seed takes to staging.

Claim: from seed to staging in less than a step. Anchor: a trainer of one step a second; the paper's step of 222 s (004
Appendix N). Command: `python -m bench.synthesis_rate`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from bench.figures import Figure, run
from buffers.log.records import Record
from buffers.log.tail import read
from buffers.run.creation import create_run
from buffers.run.runfolder import EXPANDED, OBSERVATIONS
from buffers.trainer_log import TrainerLog
from daemon.authors.procedural import IN_FLIGHT, ProceduralAuthor
from daemon.candidates import Rejection, VariantJob
from daemon.neighbours import Neighbours
from daemon.pipeline import Pipeline
from rods.config import Config, parse_config
from rods.environments.loading import Environments
from rods.gates import held_out_index
from rods.observations import Group, Rollout
from rods.rules.order import batch
from rods.tasks import AnyTask, Task
from worlds import desk

load = Environments().load

BATCH = 16


def measure(quick: bool) -> list[Figure]:
    """Writes variants of desk originals in this process, then runs a daemon beside a trainer of one step a second."""
    return asyncio.run(_rate(60 if quick else 600)) + _latency(4 if quick else 12)


async def _rate(jobs: int) -> list[Figure]:
    tasks = desk.generate(7, 200, 200)
    seeds = [task for task in tasks if task.split == "train"]
    neighbours = Neighbours(seeds, staging=True)
    rejections: Counter[str] = Counter()
    seconds: list[float] = []
    written = 0

    def reject(rejection: Rejection) -> None:
        rejections[rejection.stage] += 1

    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        pipeline = Pipeline(Config(), held_out_index(tasks), threads)
        author, environment = ProceduralAuthor.of(load("desk"), threads), load("desk")
        waiting = iter(range(jobs))

        async def work() -> None:
            nonlocal written
            for number in waiting:
                seed = seeds[number % len(seeds)]
                began = time.perf_counter()
                job = VariantJob(f"{number}-{seed.id}", 0, seed, seed, 1)
                outcome = await pipeline.write(job, author, environment, neighbours.admit, reject)
                seconds.append(time.perf_counter() - began)
                written += isinstance(outcome, Task)

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        passed = time.perf_counter() - began
    stages = ("plan", "execute", "rewrite", "judge", "adversarial", "admission")
    return [
        Figure("synthesis, procedural author on desk", written / passed, "variants/s"),
        Figure("synthesis, one seed", median(seconds) * 1000, "ms (median)"),
        Figure("synthesis, seeds that became a variant", written / jobs * 100, "%"),
        *(
            Figure(f"synthesis, rejected in {stage}", rejections[stage] / jobs * 100, "per 100 seeds")
            for stage in stages
        ),
    ]


def _latency(steps: int) -> list[Figure]:
    """Seconds from a step's record to a variant's, while the trainer makes a step a second."""
    config = parse_config({"training": {"batch_tasks": BATCH}, "pool": {"staging_epochs": 0.0}}, where="bench")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        chart = create_run(path, config, desk.generate(7, 200, 20))
        daemon = subprocess.Popen([sys.executable, "-m", "daemon", str(path)], stderr=subprocess.DEVNULL)
        try:
            with TrainerLog(chart) as log:
                log.start()
                epoch = log.merge(0, 1)
                time.sleep(2)
                for step in range(1, steps + 1):
                    slots = batch(epoch.slots, BATCH, step - 1)
                    log.write_step(step, 0, [_disagreeing(log.task(slot.task_id)) for slot in slots])
                    time.sleep(1)
                time.sleep(1)
        finally:
            daemon.terminate()
            daemon.wait()
        closed = {one["step"]: one["time"] for one in _kind(path / OBSERVATIONS, "step")}
        late = sorted(one["time"] - closed[one["step"]] for one in _kind(path / EXPANDED, "expanded"))
    middle, last = (late[int(share * (len(late) - 1))] if late else float("nan") for share in (0.5, 0.99))
    return [
        Figure("seed to staging", middle, "s", "a step of this trainer", 1.0, 1.0, False),
        Figure("seed to staging, 99th percentile", last, "s", "a step of the paper's trainer", 222.0, 222.0, False),
    ]


def _disagreeing(task: AnyTask) -> Group:
    turns = task.expected
    rollouts = tuple(Rollout(done, turns, int(done == turns), 0.0, done / turns, "finished") for done in (0, turns) * 4)
    return Group(task.id, 1, "identity", "progress", (0.0, 1.0), rollouts)


def _kind(path: Path, kind: str) -> list[Record]:
    return [record for record in read(path) if record["kind"] == kind]


if __name__ == "__main__":
    run(measure)
