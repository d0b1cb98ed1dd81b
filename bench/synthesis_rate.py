"""The procedural author of desk: variants a second, yield by stage, time from
seed to staging.

Claim: from seed to staging in less than a step. Anchor: a trainer of one step a second; the paper's
step of 222 s (004 Appendix N). Command: `python -m bench.synthesis_rate`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from bench.figures import Figure, run
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.run.creation import create_run
from rods.buffers.run.runfolder import EXPANDED, OBSERVATIONS
from rods.buffers.trainer_log import TrainerLog
from rods.config import Config, parse_config
from rods.daemon.authors.base import Assignment, Author, Rejection
from rods.daemon.authors.procedural import IN_FLIGHT, ProceduralAuthor
from rods.daemon.pipeline import Pipeline, TasksWithCalls
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.gates.similarity import DuplicateIndex, held_out_index
from rods.observations import Group, Rollout
from rods.rules.order import batch
from rods.tasks import AnyTask
from rods.worlds import desk

BATCH = 16


def measure(quick: bool) -> list[Figure]:
    """Writes variants of desk originals in this process, then runs a daemon beside a trainer of one
    step a second."""
    jobs = 60 if quick else 600
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        environment = Environments().load("desk")
        composing = ProceduralAuthor.of(environment, threads)
        desks = desk.generate(7, 200, 200)
        pipeline = Pipeline(Config(), held_out_index(desks), threads, [TasksWithCalls()])
        return [
            *asyncio.run(_rate("desk", jobs, desks, composing, environment, pipeline)),
            *_latency(4 if quick else 12),
        ]


async def _rate(
    what: str,
    jobs: int,
    tasks: Sequence[AnyTask],
    author: Author,
    environment: Environment,
    pipeline: Pipeline,
) -> list[Figure]:
    seeds = [task for task in tasks if task.split == "train"]
    neighbours = DuplicateIndex(seeds, staging=True)
    rejections: Counter[str] = Counter()
    seconds: list[float] = []
    written = 0
    waiting = iter(range(jobs))

    def reject(rejection: Rejection) -> None:
        rejections[f"{rejection.stage}: {rejection.error}"] += 1

    async def work() -> None:
        nonlocal written
        for number in waiting:
            seed = seeds[number % len(seeds)]
            began = time.perf_counter()
            job = Assignment(f"{number}-{seed.id}", 0, seed, seed, 1)
            outcome = await pipeline.write(job, author, environment, neighbours.admit, reject)
            seconds.append(time.perf_counter() - began)
            written += not isinstance(outcome, str)

    began = time.perf_counter()
    computed = time.process_time()
    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    passed = time.perf_counter() - began
    spent = time.process_time() - computed
    return [
        Figure(f"{what}: variants", written / passed, "variants/s"),
        Figure(f"{what}: CPU time", 1000 * spent / jobs, "ms a seed"),
        Figure(f"{what}: one seed", median(seconds) * 1000, "ms (median)"),
        Figure(f"{what}: seeds that became a variant", written / jobs * 100, "%"),
        *(
            Figure(f"{what}: rejected in {where}", count / jobs * 100, "per 100 seeds")
            for where, count in sorted(rejections.items())
        ),
    ]


def _latency(steps: int) -> list[Figure]:
    """Seconds from a step's record to a variant's, while the trainer makes a step a second."""
    config = parse_config(
        {"training": {"batch_tasks": BATCH}, "pool": {"staging_epochs": 0.0}}, where="bench"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        chart = create_run(path, config, desk.generate(7, 200, 20))
        daemon = subprocess.Popen(
            [sys.executable, "-m", "rods.daemon", str(path)], stderr=subprocess.DEVNULL
        )
        try:
            with TrainerLog(chart) as log:
                log.start()
                epoch = log.merge(0, 1)
                time.sleep(2)
                for step in range(1, steps + 1):
                    slots = batch(epoch.slots, BATCH, step - 1)
                    log.write_step(
                        step, 0, [_disagreeing(log.task(slot.task_id)) for slot in slots]
                    )
                    time.sleep(1)
                time.sleep(1)
        finally:
            daemon.terminate()
            daemon.wait()
        closed = {one["step"]: one["time"] for one in _kind(path / OBSERVATIONS, "step")}
        late = sorted(
            one["time"] - closed[one["step"]] for one in _kind(path / EXPANDED, "expanded")
        )
    middle, last = (
        late[int(share * (len(late) - 1))] if late else float("nan") for share in (0.5, 0.99)
    )
    return [
        Figure("seed to staging", middle, "s", "a step of this trainer", 1.0, 1.0, False),
        Figure(
            "seed to staging, 99th percentile",
            last,
            "s",
            "a step of the paper's trainer",
            222.0,
            222.0,
            False,
        ),
    ]


def _disagreeing(task: AnyTask) -> Group:
    turns = task.expected
    rollouts = tuple(
        Rollout(done, turns, int(done == turns), 0.0, done / turns, "finished")
        for done in (0, turns) * 4
    )
    return Group(task.id, 1, "identity", "progress", (0.0, 1.0), rollouts)


def _kind(path: Path, kind: str) -> list[Record]:
    return [record for record in read(path) if record["kind"] == kind]


if __name__ == "__main__":
    run(measure)
