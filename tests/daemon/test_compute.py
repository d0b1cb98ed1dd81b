"""Orders and the places that take them: how many together, and what a lost worker costs the
others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from rods.config import Operation
from rods.daemon.authors.base import Assignment, Attempted
from rods.daemon.compute import Compute, LostWorker, WorkItem
from rods.errors import InfrastructureError


def item(name: str) -> Assignment[Any]:
    return Assignment(name, 0, cast(Any, None), cast(Any, None), 1)


class Worker:
    """Answers with the pick's name after a turn of the loop; `deadly` items end it."""

    def __init__(self, at_once: int, deadly: str = "") -> None:
        self.at_once = at_once
        self.deadly = deadly
        self.given: list[list[str]] = []

    async def make(self, items: Sequence[WorkItem]) -> Sequence[Any]:
        names = [item.pick for item in items if isinstance(item, Assignment)]
        self.given.append(names)
        await asyncio.sleep(0.01)
        if self.deadly in names:
            raise LostWorker("it died")
        return [Attempted(name) for name in names]

    async def renew(self) -> None:
        pass

    def end(self) -> None:
        pass


def answers(workers: Sequence[Worker], names: str) -> list[Any]:
    async def all_of() -> list[Any]:
        compute = Compute(Operation(), workers)
        return await asyncio.gather(
            *(compute.attempt(item(name)) for name in names), return_exceptions=True
        )

    return [one.outcome if isinstance(one, Attempted) else one for one in asyncio.run(all_of())]


@pytest.mark.parametrize("at_once", [1, 4])
def test_free_places_share_what_waits_up_to_a_message(at_once: int) -> None:
    workers = [Worker(at_once), Worker(at_once)]
    assert answers(workers, "abcdefghij") == list("abcdefghij")
    sizes = [len(given) for worker in workers for given in worker.given]
    assert sum(sizes) == 10 and max(sizes) == at_once
    assert (
        workers[0].given[0] == list("abcd")[:at_once]
        and workers[1].given[0] == list("abcdefg")[at_once:][:at_once][:3]
    )


def test_an_order_that_loses_workers_loses_no_others() -> None:
    worker = Worker(4, deadly="c")
    told = answers([worker], "abcdef")
    assert [one for one in told if isinstance(one, str)] == list("abdef")
    assert isinstance(told[2], InfrastructureError) and "it died" in str(told[2])
    assert worker.given == [list("abcd"), ["a"], ["b"], ["c"], ["c"], ["d"], ["e", "f"]]
