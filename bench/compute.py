"""Where the procedural author computes: what handing attempts to other processes costs, how it
scales, what kills do.

Claim: handing out and taking back costs at most 5 % of an attempt; two places give at least 0.9
times twice what one gives; with places that are killed again and again none of the variants is lost
or written twice, and they are those of one process alone. Anchor: the same seeds in this process,
and on one place. Command: `python -m bench.compute`, and `--on ray` for a cluster of three nodes on
this machine, of which a node or an actor is killed every ten seconds. `--variants N` sets how many
seeds are taken with kills; places are compared by the first 2,000, and what is beyond them is
written in a process alone meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from bench.figures import Figure, run
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.config import parse_config
from rods.daemon.attempt_worker import Inline
from rods.daemon.authors.base import Assignment
from rods.daemon.authors.procedural import IN_FLIGHT, ProceduralAuthor
from rods.daemon.compute import compute_of
from rods.daemon.pipeline import Pipeline
from rods.gates.similarity import held_out_index
from rods.worlds import desk

EVERY = 10.0  # seconds between kills
MEASURED = 2000  # seeds that places are compared by
Written = dict[str, str]  # by pick: the variant's id, or why there is none


def measure(quick: bool, on: str = "processes", variants: str = "") -> list[Figure]:
    """Writes variants of desk originals in this process, on one place, on two, and on three while
    they are killed."""
    count = int(variants) if variants else 200 if quick else 2000
    with tempfile.TemporaryDirectory() as folder:
        few = min(count, MEASURED)
        alone, here, spent = _timed(_alone(folder), few)
        figures = [Figure("this process", few / here, "seeds/s")]
        if on == "ray":
            from ray.cluster_utils import Cluster

            cluster = Cluster(
                initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
            )
            for _ in range(2):
                cluster.add_node(num_cpus=1)
            changes: dict[str, Any] = {"ray": {"address": cluster.address}}
            kill = _node_or_actor(cluster)
        else:
            changes = {}
            kill = _process
        seconds = {}
        for places in (1, 2):
            made, seconds[places], cost = _timed(
                _run(Path(folder) / f"{places}", on, places, changes), few
            )
            same = sum(made[pick] == alone[pick] for pick in made) / few
            share = cost / spent
            figures += [
                Figure(f"{places} on {on}", few / seconds[places], "seeds/s"),
                Figure(f"{places} on {on}: as in this process", same, "of all", "all", 1.0, 1.0),
                Figure(
                    f"{places} on {on}: CPU time here",
                    share,
                    "of an attempt",
                    "its CPU time",
                    1.0,
                    0.05,
                    False,
                ),
            ]
        gain = seconds[1] / seconds[2]
        figures.append(Figure("two places", gain / 2, "of linear", "one place", 1.0, 0.9))
        with ProcessPoolExecutor(1, get_context("spawn")) as beside:
            whole = beside.submit(_written_alone, folder, count) if count > few else None
            made, took, _ = _timed(_run(Path(folder) / "killed", on, 3, changes), count, kill)
            alone = alone if whole is None else whole.result()
        lost = len(alone.keys() - made.keys())
        changed = sum(made.get(pick, one) != one for pick, one in alone.items())
        figures += [
            Figure(f"3 on {on}, one killed every {EVERY:.0f} s", count / took, "seeds/s"),
            Figure("lost", lost, f"of {count}", "none", 0, 0, False),
            Figure("not as in this process", changed, f"of {count}", "none", 0, 0, False),
        ]
        return figures


def _alone(folder: str) -> Run:
    return _run(Path(tempfile.mkdtemp(dir=folder)) / "run", "threads", 0)


def _written_alone(folder: str, count: int) -> Written:
    return _timed(_alone(folder), count)[0]


def _run(path: Path, on: str, places: int, changes: dict[str, Any] | None = None) -> Run:
    operation = {"compute": on, "compute_places": places, **(changes or {})}
    return create_run(
        path, parse_config({"operation": operation}, where="bench"), desk.generate(7, 200, 200)
    )


def _timed(
    made_for: Run, count: int, kill: Callable[[], str] | None = None
) -> tuple[Written, float, float]:
    """What so many seeds gave, seconds, and CPU seconds of this process, from the first answer of
    every place on."""
    return asyncio.run(_written(made_for, count, kill))


async def _written(
    made_for: Run, count: int, kill: Callable[[], str] | None
) -> tuple[Written, float, float]:
    held_out = held_out_index(made_for.tasks)
    compute = compute_of(made_for.path, made_for.config, held_out)
    seeds = [task for task in made_for.tasks if task.split == "train"]
    environment = made_for.environments.load("desk")
    threads = Inline()
    written = Written()
    pipeline = Pipeline(made_for.config, held_out, threads, places=compute)
    author = ProceduralAuthor.of(environment, threads)

    async def write(number: int, key: str) -> None:
        seed = seeds[number % len(seeds)]
        job = Assignment(f"{key}{number}-{seed.id}", 0, seed, seed, 1)
        outcome = await pipeline.write(
            job, author, environment, lambda task: [], lambda rejection: None
        )
        assert job.pick not in written, "one answer for a pick"
        written[job.pick] = outcome if isinstance(outcome, str) else outcome.id

    async def work(waiting: Iterator[int], key: str) -> None:
        for number in waiting:
            await write(number, key)

    async def all_of(numbers: int, key: str) -> None:
        waiting = iter(range(numbers))
        at_once = IN_FLIGHT * (compute.at_once if compute else 1)
        await asyncio.gather(*(work(waiting, key) for _ in range(at_once)))

    # a worker imports, and reads the run
    places = compute.status()["compute"]["places"] if compute else 1
    await all_of(50 * places, "warm")
    written.clear()
    killing = asyncio.create_task(_kill(kill, written, count)) if kill else None
    began = time.perf_counter()
    computed = time.process_time()
    await all_of(count, "")
    passed = time.perf_counter() - began
    spent = time.process_time() - computed
    if killing is not None:
        killing.cancel()
    if compute is not None:
        print(f"{made_for.path.name}: {compute.status()}", file=sys.stderr, flush=True)
        compute.close()
    return written, passed, spent


async def _kill(kill: Callable[[], str], written: Written, count: int) -> None:
    while True:
        await asyncio.sleep(EVERY)
        print(f"{len(written)} of {count}; killed {kill()}", file=sys.stderr, flush=True)


def _process() -> str:
    """Kills a worker process of this one."""
    workers = [str(child.pid) for child in active_children() if child.name == "rods-worker"]
    return _killed(random.choice(workers)) if workers else "nobody"


def _parent(pid: str) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]


def _killed(pid: str) -> str:
    with suppress(ProcessLookupError):
        os.kill(int(pid), signal.SIGKILL)
    return f"process {pid}"


def _node_or_actor(cluster: Any) -> Callable[[], str]:
    """Kills an actor's process, or every third time a node, in whose place another one comes."""
    times = 0

    def kill() -> str:
        nonlocal times
        times += 1
        if times % 3 == 0:
            cluster.remove_node(
                random.choice(sorted(cluster.worker_nodes, key=str)), allow_graceful=False
            )
            cluster.add_node(num_cpus=1, wait=False)
            return "a node"
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                # behind a raylet of this cluster
                ours = _parent(_parent(process.name)) == str(os.getpid())
                if ours and (process / "cmdline").read_text().startswith("ray::_Worker"):
                    found.append(process.name)
        return _killed(random.choice(found)) if found else "nobody"

    return kill


if __name__ == "__main__":
    run(measure, on="processes or ray", variants="how many seeds")
