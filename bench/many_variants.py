"""100,000 variants of BFCL's 400 training tasks in one run: what became of them, and whether time
and memory hold.

Claim: a variant costs as much at the end as at the start, and memory grows only by the index of
near duplicates. Anchor: the same process at the start of the run. Command: `python -m
bench.many_variants`.

A variant counts as written when it has passed every gate and the judge; then it is compared with
all tasks of the benchmark and all variants accepted before it. (A run compares with its pool only,
some hundreds.) That index grows with its contents, so memory is given with and without it, and
after further writing without it. Progress goes to stderr.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from bench.figures import Figure, run
from rods.config import Config
from rods.daemon.authors.base import Assignment, Rejection
from rods.daemon.authors.procedural import ProceduralAuthor
from rods.daemon.pipeline import Pipeline
from rods.environments.loading import Environments
from rods.gates.similarity import SimilarityIndex, held_out_index
from rods.tasks import Task
from rods.worlds.bfcl import tasks

load = Environments().load

FULL = 100_000
QUICK = 300
STEPS = 10  # lines of progress
WARM = 0.02  # share of the run after which what is made once has been made


class Run:
    """Counts and measures while variants are written."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.pool: SimilarityIndex | None = SimilarityIndex()
        for task in tasks():
            if task.split == "train":
                self.pool.add(task)
        self.written = self.jobs = self.accepted = 0
        self.rejected: Counter[str] = Counter()
        self.looking = 0.0  # CPU seconds spent in the index since the last line
        self.looked = 0
        self.lookup: list[float] = []  # milliseconds a comparison, a value a line
        self.warm = 0.0
        self.began = time.process_time()
        self.last = self.began
        self.pace: list[float] = []  # CPU milliseconds a written variant, a value a line

    def admit(self, task: Task) -> list[str]:
        if self.pool is None:
            self.written += 1
            return []
        began = time.process_time()
        match = self.pool.find(task)
        if match is None:
            self.pool.add(task)
        self.looking += time.process_time() - began
        self.looked += 1
        self.written += 1
        self.accepted += match is None
        if self.written >= WARM * self.size and not self.warm:
            self.warm = resident()
        if self.written % max(1, self.size // STEPS) == 0:
            self._line()
        return [] if match is None else [match.rule]

    def reject(self, rejection: Rejection) -> None:
        rule = f" ({rejection.evidence[0]})" if rejection.error == "duplicates" else ""
        self.rejected[f"{rejection.stage}: {rejection.error}{rule}"] += 1

    def _line(self) -> None:
        now = time.process_time()
        self.pace.append(1000 * (now - self.last) * STEPS / self.size)
        self.lookup.append(1000 * self.looking / self.looked)
        self.last = now
        self.looking = 0.0
        self.looked = 0
        print(
            f"{self.written} written, {self.accepted} accepted, {self.jobs} seeds, "
            f"{now - self.began:.0f} s CPU, "
            f"{self.pace[-1]:.1f} ms a variant, {self.lookup[-1]:.3f} ms a comparison, "
            f"{resident():.0f} MB",
            file=sys.stderr,
            flush=True,
        )


def measure(quick: bool) -> list[Figure]:
    """What became of the variants, the time that one takes at the start and at the end, and
    memory."""
    work = Run(QUICK if quick else FULL)
    asyncio.run(_write(work))
    whole = resident()
    figures = _became(work)
    work.pool = None
    rest = resident()
    more = work.written // 20
    work.size += more
    asyncio.run(_write(work))
    return [
        *figures,
        Figure("memory at the end", whole, "MB", f"after {WARM:.0%} of the run", work.warm),
        Figure("memory at the end without the index", rest, "MB"),
        Figure(
            f"memory gained while {more:,} more are written without it", resident() - rest, "MB"
        ),
    ]


def _became(work: Run) -> list[Figure]:
    return [
        Figure("variants written", work.written, ""),
        Figure("from so many picks of a seed", work.jobs, ""),
        Figure("accepted: like no task and no earlier variant", work.accepted, ""),
        *(
            Figure(f"attempts ended by {why}", number, "")
            for why, number in work.rejected.most_common()
        ),
        Figure(
            "CPU time of a variant, last tenth", work.pace[-1], "ms", "first tenth", work.pace[0]
        ),
        Figure(
            "a comparison with all others, last tenth",
            work.lookup[-1],
            "ms",
            "first tenth",
            work.lookup[0],
        ),
    ]


async def _write(work: Run) -> None:
    threads = ThreadPoolExecutor(1)
    held_out = held_out_index([task for task in tasks() if task.split != "train"])
    pipeline = Pipeline(Config(), held_out, threads)
    author = ProceduralAuthor.of(load("bfcl"), threads)
    seeds = [task for task in tasks() if task.split == "train"]
    try:
        for number in count():
            for seed in seeds:
                work.jobs += 1
                job = Assignment(f"{number}-{seed.id}", 0, seed, seed, 1)
                await pipeline.write(job, author, load("bfcl"), work.admit, work.reject)
                if work.written >= work.size:
                    return
    finally:
        threads.shutdown()


def resident() -> float:
    """Megabytes of memory that this process holds, freed pieces given back first."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    run(measure)
