"""What a variant costs the daemon that accepts it, wherever it was made: near duplicates, and its
records.

Claim: at most 2 ms of CPU time a variant. Anchor: none; it bounds how many places one daemon can
keep busy (docs/scale.md). Command: `python -m bench.acceptor`; `--originals 1000000` for so many
tasks to compare with.

Variants of desk size, 64 in flight, are admitted and written as the service does it: picked,
expanded, finished, and one failed candidate each, on the disk of the current folder. Making them is
left out, and so is handing them out, which `bench.compute` measures.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bench.figures import Figure, run
from bench.near_duplicates import tasks
from rods.buffers.daemon_log import DaemonLog
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.config import parse_config
from rods.gates.similarity import DuplicateIndex
from rods.worlds import desk

# variants in flight, picks a step
AT_ONCE = 64
PICKS = 8


def measure(quick: bool, originals: str = "") -> list[Figure]:
    """CPU milliseconds of the whole process, variants a second, bytes on record."""
    count = 1_000 if quick else 10_000
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        made = create_run(
            Path(folder) / "run", parse_config({}, where="bench"), desk.generate(7, 100, 0)
        )
        known = int(originals) if originals else 10_000
        index = DuplicateIndex(tasks(range(known)), staging=True)
        seconds, spent = asyncio.run(_accepted(made, index, count))
        size = sum(
            file.stat().st_size for file in made.path.glob("*.jsonl") if file.name != "tasks.jsonl"
        )
    return [
        Figure(
            f"accepting a variant beside {known:,} tasks",
            1e3 * spent / count,
            "ms of CPU time",
            reach=2.0,
            higher=False,
        ),
        Figure("variants accepted", count / seconds, "a second"),
        Figure("on record of a variant", size / count, "bytes"),
    ]


async def _accepted(made: Run, index: DuplicateIndex, count: int) -> tuple[float, float]:
    log = DaemonLog(made)
    new = list(tasks(range(count), "new"))
    seed = next(iter(log.run.training))
    waiting = iter(range(0, count, PICKS))
    began = time.perf_counter()
    spent = time.process_time()

    async def work() -> None:
        for first in waiting:
            step = first // PICKS + 1
            for number in range(first, min(first + PICKS, count)):
                pick = f"{step}-{seed}{number}"
                task = new[number]
                await log.rejected(
                    pick, 0, stage="judge", error="grounding", evidence=["a value"], raw="x" * 600
                )
                assert not index.admit(task)
                fields = {"generation": 1, "seed": seed, "root": seed, "plan": ["recipe"] * 8}
                await log.expanded(pick, 0, replace(task, provenance=fields))
                index.written(task.id)
                await log.finished(pick, [task.id], 0)

    for first in range(0, count, PICKS):  # a step is considered after the other
        picks = range(first, min(first + PICKS, count))
        told = [
            {"task": f"{seed}{number}", "type": "base", "score": 1.0, "why": {"generation": 0}}
            for number in picks
        ]
        await log.picked(first // PICKS + 1, 0, told)
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    seconds = time.perf_counter() - began
    spent = time.process_time() - spent
    log.close()
    return seconds, spent


if __name__ == "__main__":
    run(measure, originals="tasks to compare with")
