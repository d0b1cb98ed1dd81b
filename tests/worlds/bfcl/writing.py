"""Variants of a few BFCL seeds of every type and class, written once for all tests through the
daemon's pipeline."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import orjson
from filelock import FileLock

from rods.config import Config
from rods.daemon.authors.base import Assignment
from rods.daemon.authors.procedural import ProceduralAuthor
from rods.daemon.pipeline import Pipeline
from rods.gates.similarity import SimilarityIndex, held_out_index
from rods.tasks import TASK_TYPES, Task
from rods.worlds.bfcl import fetch, tasks
from tests.environments import load

CACHE = Path(__file__).parents[3] / ".pytest_cache" / "bfcl_variants"


def number(task: Task) -> int:
    """The number that the benchmark gave it."""
    return int(task.provenance["id"].rsplit("_", 1)[1])


@cache
def seeds() -> tuple[Task, ...]:
    """Ten training tasks of each type, over all four primary classes; not those whose empty turns
    fit no type."""
    fetch()
    found: list[Task] = []
    for kind in TASK_TYPES:
        ours = [
            task
            for task in tasks()
            if task.type == kind and task.split == "train" and number(task) != 167
        ]
        found += sorted(ours, key=number)[3::9][:10]
    return tuple(found)


@cache
def held_out() -> SimilarityIndex:
    return held_out_index([task for task in tasks() if task.split != "train"])


@cache
def written() -> tuple[tuple[Task, Task | str], ...]:
    """Each seed and its variant, or why there is none. They take most of a minute: workers of one
    run of pytest share them, below pytest's cache."""
    if not (run := os.environ.get("PYTEST_XDIST_TESTRUNUID")):
        return tuple((seed, variant(seed)) for seed in seeds())
    file = CACHE / f"{run}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_suffix(".lock")):
        if not file.exists():
            made = [
                each.as_json() if isinstance(each, Task) else each for each in map(variant, seeds())
            ]
            file.write_bytes(orjson.dumps(made))
        known = orjson.loads(file.read_bytes())
    return tuple(
        zip(
            seeds(),
            (each if isinstance(each, str) else Task.from_json(each) for each in known),
            strict=True,
        )
    )


def variants() -> list[tuple[Task, Task]]:
    return [(seed, made) for seed, made in written() if isinstance(made, Task)]


def variant(seed: Task, random_seed: int = 0) -> Task | str:
    """The variant of `seed`, or why there is none."""
    threads = ThreadPoolExecutor(1)
    config = Config.model_validate({"random_seeds": {"daemon": random_seed}})
    pipeline = Pipeline(config, held_out(), threads)
    job = Assignment(f"1-{seed.id}", 0, seed, seed, 1)
    who = ProceduralAuthor.of(load("bfcl"), threads)
    try:
        return asyncio.run(pipeline.write(job, who, load("bfcl"), lambda _: [], lambda _: None))
    finally:
        threads.shutdown()
