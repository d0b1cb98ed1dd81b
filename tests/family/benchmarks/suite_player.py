"""Two policies for the stub server: one that knows the calls of BFCL's single turns, and one that
declines."""

from __future__ import annotations

from functools import cache
from typing import Any

from bench.fixtures.single_turns import reply, truth
from rods.family.benchmarks.bfcl_single.benchmark import SingleTurns
from rods.family.benchmarks.folder import Settings


def knows(request: dict[str, Any]) -> str:
    return _known().get(
        "".join(message["content"] for message in request["messages"]), "I cannot do that."
    )


def declines(request: dict[str, Any]) -> str:
    return "I cannot do that."


@cache
def _known() -> dict[str, str]:
    right: dict[str, str] = {}
    benchmark = SingleTurns()
    settings = Settings({}, part="all", types=tuple(benchmark.kinds), tasks_per_type=2)
    maker = benchmark.maker(settings)
    for task in settings.choose(benchmark.tasks(), benchmark.kind):
        job: Any = maker.job(task)
        if calls := truth(benchmark, task):
            item = benchmark.items[benchmark.identifier(task)]
            right["".join(one.content for one in job.asked)] = reply(item, job, calls)
    return right
