"""Variants of a few BFCL seeds of every type and class, written once for all tests through the daemon's pipeline."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from rods.config import Config
from rods.daemon.authors.procedural import ProceduralAuthor
from rods.daemon.candidates import VariantJob
from rods.daemon.pipeline import Pipeline
from rods.gates.similarity import SimilarityIndex, held_out_index
from rods.tasks import TASK_TYPES, Task
from rods.worlds.bfcl import fetch, tasks
from tests.environments import load


def number(task: Task) -> int:
    """The number that the benchmark gave it."""
    return int(task.provenance["id"].rsplit("_", 1)[1])


@cache
def seeds() -> tuple[Task, ...]:
    """Ten training tasks of each type, over all four primary classes; not those whose empty turns fit no type."""
    fetch()
    found: list[Task] = []
    for kind in TASK_TYPES:
        ours = [task for task in tasks() if task.type == kind and task.split == "train" and number(task) != 167]
        found += sorted(ours, key=number)[3::9][:10]
    return tuple(found)


@cache
def held_out() -> SimilarityIndex:
    return held_out_index([task for task in tasks() if task.split != "train"])


@cache
def written() -> tuple[tuple[Task, Task | str], ...]:
    return tuple((seed, variant(seed)) for seed in seeds())


def variants() -> list[tuple[Task, Task]]:
    return [(seed, made) for seed, made in written() if isinstance(made, Task)]


def variant(seed: Task, random_seed: int = 0) -> Task | str:
    """The variant of `seed`, or why there is none."""
    threads = ThreadPoolExecutor(1)
    config = Config.model_validate({"random_seeds": {"daemon": random_seed}})
    pipeline = Pipeline(config, held_out(), threads)
    job = VariantJob(f"1-{seed.id}", 0, seed, seed, 1)
    who = ProceduralAuthor.of(load("bfcl"), threads)
    try:
        return asyncio.run(pipeline.write(job, who, load("bfcl"), lambda _: [], lambda _: None))
    finally:
        threads.shutdown()
