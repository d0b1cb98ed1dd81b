"""Variants of scenarios in worlds drawn by chance: how many seeds get one, how fast, and what is in
the way.

Claim: nearly every scenario has a variant with its profile that passes all controls again. Anchor:
the scenarios themselves, of which every one has passed. Command: `python -m
bench.scenario_variants` (`--seed N` draws the worlds of another time).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from bench.figures import Figure, run
from rods.config import Config
from rods.daemon.authors.base import Assignment, Rejection
from rods.daemon.pipeline import Pipeline
from rods.environments.loading import Environments
from rods.family.environments.kind import ProceduralScenarios, ScenarioKind
from rods.family.environments.procedural.scenarios import CONFINED, grow
from rods.gates.similarity import DuplicateIndex, held_out_index
from rods.tasks import OpenTask, Split

# worlds, of which every third is held out; scenarios drawn in each
FULL = (24, 8)
QUICK = (3, 4)
REACH = 0.95


def measure(quick: bool, seed: str = "") -> list[Figure]:
    """The share of seeds that get a variant, seconds a seed, and refusals by reason, in this
    process."""
    random_seed = int(seed) if seed else secrets.randbelow(1_000_000_000)
    count, each = QUICK if quick else FULL
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.chdir(folder)  # a generated world is looked for from the current folder
            tasks: list[OpenTask] = []
            for number in range(count):
                split: Split = "test" if number % 3 == 2 else "train"
                tasks += grow(Path(), random_seed, number, each, ("told", "asked"), split).tasks
            return asyncio.run(_written(tasks, f"{count} worlds, random seed {random_seed}"))
        finally:
            os.chdir(before)


async def _written(tasks: list[OpenTask], what: str) -> list[Figure]:
    seeds = [task for task in tasks if task.split == "train"]
    refused: Counter[str] = Counter()
    seconds: list[float] = []
    written = moved = 0

    def reject(rejection: Rejection) -> None:
        refused[f"{rejection.stage}: {rejection.error}"] += 1

    with ThreadPoolExecutor(1) as threads:
        # No model writes, so nothing is brought into a run.
        author = ProceduralScenarios(threads)
        pipeline = Pipeline(Config(), held_out_index(tasks), threads, [ScenarioKind()])
        neighbours = DuplicateIndex(seeds, staging=True)
        for name in dict.fromkeys(task.environment.name for task in seeds):
            with Environments(CONFINED) as environments:
                environment = environments.load(name)
                for seed in (task for task in seeds if task.environment.name == name):
                    began = time.perf_counter()
                    job = Assignment(f"1-{seed.id}", 0, seed, seed, 1)
                    made = await pipeline.write(job, author, environment, neighbours.admit, reject)
                    seconds.append(time.perf_counter() - began)
                    if isinstance(made, OpenTask):
                        written += 1
                        moved += _tools(made) != _tools(seed)
    return [
        Figure(
            f"{what}: of {len(seeds)} seeds get a variant",
            written / len(seeds),
            "share",
            reach=REACH,
        ),
        Figure("… that calls other tools than its seed", moved / max(written, 1), "share"),
        Figure("variants", written / sum(seconds), "variants/s"),
        Figure("one seed, median", median(seconds), "s"),
        *(
            Figure(f"refused in {where}", times / len(seeds), "a seed")
            for where, times in refused.most_common()
        ),
    ]


def _tools(task: OpenTask) -> Counter[str]:
    return Counter(each["name"] for each in task.provenance["witness"])


if __name__ == "__main__":
    run(measure, seed="the random seed, a whole number; one that nobody has seen by default")
