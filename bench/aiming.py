"""Aimed synthesis on desk: of the seeds that an operator may be used on, those of which it gave a
variant, by author.

Claim: each operator leads half of its seeds to a variant, whoever writes. Anchor: isomorphic
variants ("sideways") of the same seeds by the same author. Command: `python -m bench.aiming
[--author NAME]`.

The authors are `procedural`, and the language models' with the world's `recipes` and with single
`tools` alone; for models a stand-in answers that plays every role by rule. Each seed has the
attempts of the default configuration. Progress is printed besides.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.figures import Figure, run
from bench.fixtures.llm_stub import Script, Stub
from rods.config import Config, Endpoint, parse_config
from rods.daemon.authors.base import Assignment, StagedAuthor
from rods.daemon.authors.llm import LLMAuthor
from rods.daemon.authors.llm.asking import Asker
from rods.daemon.authors.procedural import IN_FLIGHT, ProceduralAuthor
from rods.daemon.duplicate_index import DuplicateIndex
from rods.daemon.pipeline import Pipeline
from rods.environments.loading import Environments
from rods.family.aiming.operators import TABLES, applicable, measures
from rods.gates.similarity import held_out_index
from rods.llm import Client
from rods.tasks import Task
from rods.worlds import desk

WORLD = "desk"
Writer = Callable[[str], StagedAuthor]  # by the name of a variant


def measure(quick: bool, author: str = "") -> list[Figure]:
    """Writes a variant of each seed by each operator that may be used on it, and sideways."""
    made = desk.generate(7, 40, 4)
    held_out = [task for task in made if task.split != "train"]
    seeds = [task for task in made if task.split == "train"]
    config = parse_config({"aiming": {"enabled": True, "operators": list(TABLES)}}, where="bench")
    world = Environments().load(WORLD)
    figures = list[Figure]()
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        composing = ProceduralAuthor.of(world, threads)
        if author in ("", "procedural"):
            tasks = [*seeds[: 4 if quick else 16], *held_out]
            figures += asyncio.run(
                _written("procedural", config, tasks, lambda _: composing, threads)
            )
        with Stub(Script(answer="bench.fixtures.llm_stub.roles:answer")) as stub:
            for name in ("recipes", "tools"):
                if author == name or (not author and not quick):
                    tasks = [*seeds[: 2 if quick else 8], *held_out]
                    figures += asyncio.run(
                        _asked(name, config, name == "recipes", tasks, stub.url, threads)
                    )
    return figures


async def _asked(
    name: str,
    config: Config,
    recipes: bool,
    tasks: list[Task],
    url: str,
    threads: ThreadPoolExecutor,
) -> list[Figure]:
    settings = config.pipeline.model_copy(update={"author": "llm", "recipes": recipes})
    world = Environments().load(WORLD)
    async with Client([Endpoint(model="stub", urls=(url,))]) as client:

        def author(variant: str) -> StagedAuthor:
            asker = Asker(
                client, "stub", client.account(variant), settings.answer_tries, roles=config.roles
            )
            return LLMAuthor(world, asker, settings, threads)

        return await _written(
            name, config.model_copy(update={"pipeline": settings}), tasks, author, threads
        )


async def _written(
    name: str, config: Any, tasks: list[Task], writer: Writer, threads: ThreadPoolExecutor
) -> list[Figure]:
    world = Environments().load(WORLD)
    pipeline = Pipeline(config, held_out_index(tasks), threads)
    seeds = [task for task in tasks if task.split == "train"]
    may = {task.id: applicable(config.aiming, measures(task.type, task.calls)) for task in seeds}

    async def share(operator: str, aim: Mapping[str, Any], fitting: list[Task]) -> tuple[int, int]:
        neighbours = DuplicateIndex(seeds, staging=True)
        waiting = iter(fitting)
        written = 0

        async def work() -> None:
            nonlocal written
            for task in waiting:
                job = Assignment(f"1-{operator}-{task.id}", 0, task, task, 1, aim=aim)
                made = await pipeline.write(
                    job, writer(job.pick), world, neighbours.admit, lambda _: None
                )
                written += isinstance(made, Task)

        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        return written, len(fitting)

    plain, seen = await share("sideways", {"direction": "sideways"}, seeds)
    anchor = f"sideways, {plain} of {seen}"
    figures = []
    for operator, table in TABLES.items():
        aim = {"direction": table["direction"], "operators": [operator]}
        made, fit = await share(operator, aim, [task for task in seeds if operator in may[task.id]])
        claim = f"{name}: {operator}, of {fit} seeds"
        figures.append(Figure(claim, 100 * made / max(1, fit), "%", anchor, 100 * plain / seen, 50))
        print(f"{claim}: {made}", file=sys.stderr, flush=True)
    return figures


if __name__ == "__main__":
    run(measure, author="procedural, recipes or tools; by default all")
