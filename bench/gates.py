"""What the gates refuse: variants spoilt in seven ways, untouched ones, and BFCL's own tasks.

Claim: at least 95 % of each kind of corruption is refused, and at most 5 % of the untouched
variants. Anchor: the gates alone, without a phrase book; BFCL's own tasks, written and checked by
people. Command: `python -m bench.gates`.

Nothing but the task is looked at (no draft). "With the phrase book" is what a variant of the
procedural author meets: gates, and the judge's reading of the text. "Gates alone" is what holds for
texts in anybody's words. The gates on profile and near duplicates are not asked: they would only
refuse more.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

from bench.figures import Figure, run
from bench.fixtures.corruptions import KINDS, Corruptions, objections
from rods.canonical import keyed_random
from rods.composing.catalogue import catalogue_for
from rods.config import Config
from rods.daemon.authors.base import Assignment
from rods.daemon.authors.procedural import ProceduralAuthor
from rods.daemon.pipeline import Pipeline
from rods.environments.loading import Environments
from rods.gates.similarity import SimilarityIndex
from rods.tasks import TASK_TYPES, Task, TaskType
from rods.worlds import desk
from rods.worlds.bfcl import tasks

load = Environments().load

# variants of each environment
FULL = 500
QUICK = 24
READING = ("leaks", "grounding", "requests", "missing")


def measure(quick: bool) -> list[Figure]:
    """For each environment and kind of corruption, the share that is refused; and of the
    untouched."""
    size = QUICK if quick else FULL
    figures: list[Figure] = []
    for name in ("desk", "bfcl"):
        variants = accepted(name, size)
        began = time.process_time()
        refused = [objections(load(name), task, catalogue_for(load(name))) for task in variants]
        spent = 1000 * (time.process_time() - began) / len(variants)
        figures += [
            Figure(
                f"{name}: untouched variants refused",
                _share(refused),
                "share",
                reach=0.05,
                higher=False,
            ),
            Figure(f"{name}: CPU time of all gates and the reading", spent, "ms a variant"),
        ]
        corruptions = Corruptions(load(name), variants)
        for kind in KINDS:
            spoilt = [
                corruptions.corrupt(task, kind, keyed_random(1, kind, task.id)) for task in variants
            ]
            found = [
                objections(load(name), task, catalogue_for(load(name)))
                for task in spoilt
                if task is not None
            ]
            alone = _share([each - {"reading"} for each in found])
            claim = f"{name}: {kind}, {len(found)} tasks, with the phrase book"
            figures.append(Figure(claim, _share(found), "share", "gates alone", alone, reach=0.95))
        figures += _without(name, size)
    return figures + _written(quick)


def _without(name: str, size: int) -> list[Figure]:
    """What the gates that read texts and look for ways round find in variants written without
    them."""
    config = Config.model_validate({"gates": dict.fromkeys(READING, False)})
    refused = [objections(load(name), task) for task in accepted(name, size, config)]
    return [
        Figure(f"{name}: variants written without it that {gate} refuses", share, "share")
        for gate in READING
        if (share := sum(gate in each for each in refused) / len(refused))
    ]


def _written(quick: bool) -> list[Figure]:
    """How many of BFCL's own tasks, written and checked by people, each gate would refuse."""
    own = tasks()[:: 20 if quick else 1]
    refused = [objections(load("bfcl"), task) for task in own]
    counts = Counter(gate for each in refused for gate in each)
    counts["any of them"] = sum(map(bool, refused))
    return [
        Figure(f"BFCL's own {len(own)} tasks that {gate} would refuse", count / len(own), "share")
        for gate, count in counts.most_common()
    ]


def accepted(
    name: str, count: int, config: Config | None = None, types: Collection[TaskType] = TASK_TYPES
) -> list[Task]:
    """Variants as the daemon accepts them, of training tasks of `types` in turn."""
    seeds = (
        [task for task in tasks() if task.split == "train"]
        if name == "bfcl"
        else desk.generate(7, 200, 0)
    )
    seeds = [task for task in seeds if task.type in types]
    threads = ThreadPoolExecutor(1)
    pipeline = Pipeline(config or Config(), SimilarityIndex(), threads)
    author = ProceduralAuthor.of(load(name), threads)

    async def written() -> list[Task]:
        found: list[Task] = []
        for number, seed in enumerate(cycle(_mixed(seeds))):
            if len(found) == count:
                return found
            job = Assignment(f"{number}-{seed.id}", 0, seed, seed, 1)
            made = await pipeline.write(job, author, load(name), lambda _: [], lambda _: None)
            found += [made] if isinstance(made, Task) else []
        raise AssertionError("unreachable: a cycle never ends")

    try:
        return asyncio.run(written())
    finally:
        threads.shutdown()


def _mixed(seeds: Sequence[Task]) -> list[Task]:
    mixed = list(seeds)
    keyed_random(0, "bench gates").shuffle(mixed)
    return mixed


def _share(found: Sequence[set[str]]) -> float:
    return sum(map(bool, found)) / len(found)


if __name__ == "__main__":
    run(measure)
