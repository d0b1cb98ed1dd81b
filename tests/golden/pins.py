"""The lines of every golden file, made anew from fixed random seeds. Nothing in them depends on
time, host or paths."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from bench.bfcl_parity.mutations import MutatedRollout, Mutations
from rods.buffers.log.tail import read
from rods.buffers.run.runfolder import POOL
from rods.canonical import canonical
from rods.config import Config, Data
from rods.daemon.authors.base import Assignment, Rejection
from rods.daemon.authors.procedural import ProceduralAuthor
from rods.daemon.pipeline import Pipeline
from rods.episode.engine import NeedVerdict, Verdict
from rods.episode.goals import GroundTruth
from rods.gates.similarity import SimilarityIndex, held_out_index
from rods.tasks import TASK_TYPES, Task, scripted, task_lines
from rods.worlds.bfcl.verdicts import official_verdict, strict_verdict
from rods.worlds.sources import load_tasks
from tests.environments import load
from tests.test_loop import pools, run_to_end

VARIANTS = 50  # of each environment and type
TRIED = 4 * VARIANTS  # seeds at most
ROLLOUTS = 2000
ENVELOPE = frozenset({"seq", "id", "first", "attempt", "crc"})  # of a log's record
POOLS: dict[str, dict[str, Any]] = {
    "desk_quick": {  # tasks are mastered
        "curriculum.stages": [{"epochs": 14}],
        "policy.growth": 0.02,
        "pool.burn_in_observations": 3,
        "pool.drift_observations": 3,
    },
    "desk_full": {  # the pool is too small for what is written
        "curriculum.stages": [{"epochs": 12}],
        "policy.growth": 0.008,
        "pool.max_generated": 12,
        "pool.unsampled_epochs": 1,
    },
    "bfcl": {
        "data.tasks": "bfcl",
        "data.train": 0,
        "data.held_out": 0,
        "training.batch_tasks": 40,
        "curriculum.stages": [{"epochs": 4}],
    },
}


def golden(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.txt")


def written(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def digest(data: bytes, digits: int = 16) -> str:
    return hashlib.sha256(data).hexdigest()[:digits]


def originals(name: str) -> list[Task]:
    """All tasks of a data set: as many as it has by default, for the default random seed where they
    are written."""
    return [scripted(task, "a pin") for task in load_tasks(Data(tasks=name), Path())]


def ids(name: str, scratch: Path) -> list[str]:
    """Ids and whole records of a data set by split and type: how many, and one hash of each."""
    groups: dict[str, list[Task]] = {}
    for task in originals(name):
        groups.setdefault(f"{task.split} {task.type}", []).append(task)
    lines = [f"all {digest(canonical([task.id for task in originals(name)]))}"]
    for group, tasks in groups.items():
        hashes = digest(canonical([task.id for task in tasks])), digest(task_lines(tasks))
        lines.append(f"{group} {len(tasks)} ids {hashes[0]} records {hashes[1]}")
    if name == "desk":
        lines += [f"{task.id} {task.type} {task.split}" for task in originals(name)]
    return lines


def variants(name: str, type: str, scratch: Path, wanted: int = VARIANTS) -> list[str]:
    """What becomes of seeds of one type, each in its turn, until `wanted` variants are accepted:
    the seed, its type, the variant's id (`-` and the last error where there is none), attempts,
    distance to the seed's profile, a hash of the record with its provenance, and what was rejected
    on the way."""
    tasks = originals(name)
    seeds = [task for task in tasks if task.type == type and task.split == "train"]
    pool = SimilarityIndex()
    for task in tasks:
        if task.split == "train":
            pool.add(task)

    def admit(task: Task) -> list[str]:
        if (match := pool.find(task)) is not None:
            return [str(match)]
        pool.add(task)
        return []

    async def write(threads: ThreadPoolExecutor) -> list[str]:
        pipeline = Pipeline(
            Config(), held_out_index([task for task in tasks if task.split != "train"]), threads
        )
        author = ProceduralAuthor.of(load(name), threads)
        environment = load(name)
        lines: list[str] = []
        accepted = 0
        for number in range(TRIED):
            again, place = divmod(number, len(seeds))
            seed = seeds[place]
            rejected = list[Rejection]()
            first = Assignment(f"{again}-{seed.id}", 0, seed, seed, 1)
            got = await pipeline.write(first, author, environment, admit, rejected.append)
            made = f"{got.id} {_record(got)}" if isinstance(got, Task) else f"- {got}"
            lines.append(
                " ".join(
                    [seed.id, seed.type, made, *(f"{each.stage}:{each.error}" for each in rejected)]
                )
            )
            accepted += isinstance(got, Task)
            if accepted == wanted:
                return lines
        return lines

    with ThreadPoolExecutor(1) as threads:
        return asyncio.run(write(threads))


def _record(task: Task) -> str:
    """Attempts, distance and a hash of a variant's record, its keys in their order. The author's
    own hashes are left out: they are of how it keeps its tables, not of what it writes with
    them."""
    left_out = ("prompts", "profile_distance")
    provenance = {key: value for key, value in task.provenance.items() if key not in left_out}
    record = orjson.dumps({**task.as_json(), "provenance": provenance})
    return (
        f"{task.provenance['attempts']} {task.provenance['profile_distance']:.6f} "
        f"{digest(record, 12)}"
    )


def pool(name: str, scratch: Path) -> list[str]:
    """A lockstep run of both processes with the simulated policy and the procedural author, several
    seeds of which are worked on at once: the pool of every epoch, and the log of the decisions,
    byte for byte."""
    run = run_to_end(scratch, sync="lockstep", **POOLS[name])
    epochs = [f"epoch {epoch} {digest(members, 64)}" for epoch, members in enumerate(pools(run))]
    decisions = [
        canonical({key: value for key, value in record.items() if key not in ENVELOPE}).decode()
        for record in read(run / POOL)
    ]
    return [*epochs, f"{POOL} {digest((run / POOL).read_bytes(), 64)}", *decisions]


def verdicts(scratch: Path) -> list[str]:
    """Mutated rollouts of BFCL's tasks: the task, `.` for a resolved turn (or what failed: `e` for
    no calls, `s` for the state, `r` for the results), the official and the strict verdict, and a
    hash of calls and results."""
    tasks = originals("bfcl")
    bfcl = load("bfcl")
    goals = {task.id: GroundTruth(bfcl, task) for task in tasks}

    def line(number: int, rollout: MutatedRollout) -> str:
        task = rollout.task
        world = bfcl.reset(task.state)
        goal = goals[task.id]
        so_far: list[str] = []
        found: list[Verdict] = []
        marks = []
        for turn, steps in enumerate(rollout.turns):
            so_far += [world.call(call).text for step in steps for call in step]
            attempted = sum(map(len, steps))
            found.append(goal.verdict(world, NeedVerdict(turn, so_far, attempted)))
            parts = goal.parts(world, turn, so_far)
            failed = ("e", not attempted), ("s", not parts.state), ("r", not parts.response)
            marks.append(
                "." if found[-1].resolved else "".join(mark for mark, so in failed if so) or "x"
            )
        whole = "".join(
            "+" if passes(task, found) else "-" for passes in (official_verdict, strict_verdict)
        )
        made = digest(canonical([rollout.as_text(), so_far]), 8)
        return (
            f"{number} {task.provenance['id'].removeprefix('multi_turn_')} {','.join(marks)} "
            f"{whole} {made}"
        )

    return [
        line(number, rollout) for number, rollout in enumerate(Mutations(tasks, 0).take(ROLLOUTS))
    ]


PINS: dict[str, Callable[[Path], list[str]]] = {
    **{f"tasks_{name}": partial(ids, name) for name in ("desk", "bfcl")},
    **{
        f"variants_{name}_{type}": partial(variants, name, type)
        for name in ("desk", "bfcl")
        for type in TASK_TYPES
    },
    **{f"pool_{name}": partial(pool, name) for name in POOLS},
    "verdicts_bfcl": verdicts,
}
