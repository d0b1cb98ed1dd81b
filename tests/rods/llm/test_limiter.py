"""How many calls are in flight: never more than allowed, fewer under overload, all again after
it."""

from __future__ import annotations

import asyncio

from bench.fixtures.llm_stub import Script, Stub
from rods.llm import Client
from rods.llm.pacing import Limiter
from tests.rods.llm.conftest import ask, endpoint


def rounds(limiter: Limiter, number: int, busy: float = 0.0) -> None:
    """Ends so many rounds, each with this share of calls for which the server was too busy."""
    for _ in range(number):
        calls = int(limiter.limit)
        for call in range(calls):
            if call < calls * busy:
                limiter.ended(busy=True)
            else:
                limiter.ended(busy=False)


def test_it_starts_at_the_bound_and_stays_there_while_all_is_well() -> None:
    limiter = Limiter(64)
    rounds(limiter, 20)
    assert limiter.limit == 64


def test_it_falls_by_the_share_of_calls_that_were_too_many_and_recovers() -> None:
    limiter = Limiter(64)
    rounds(limiter, 1, busy=0.5)
    assert 32 <= limiter.limit <= 40
    rounds(limiter, 30, busy=1.0)
    assert limiter.limit == 1
    rounds(limiter, 20)
    assert limiter.limit == 64


def test_a_few_refusals_among_good_answers_do_not_starve_the_endpoint() -> None:
    limiter = Limiter(64)
    rounds(limiter, 50, busy=0.05)
    assert limiter.limit >= 56


async def test_it_never_lets_more_through_than_the_limit_and_loses_no_slot() -> None:
    limiter = Limiter(7)
    most = 0

    async def call() -> None:
        nonlocal most
        await limiter.acquire()
        try:
            most = max(most, limiter.held)
            await asyncio.sleep(0.001)
        finally:
            limiter.release()

    tasks = [asyncio.create_task(call()) for _ in range(300)]
    await asyncio.sleep(0.005)
    for task in tasks[::3]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most == 7
    assert (limiter.held, limiter.waiting) == (0, 0)


async def test_a_slot_that_comes_in_the_moment_of_cancellation_is_not_lost() -> None:
    limiter = Limiter(1)
    await limiter.acquire()
    waiting = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)
    limiter.release()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.wait_for(limiter.acquire(), 60)
    assert limiter.held == 1


async def test_who_comes_back_goes_first() -> None:
    limiter = Limiter(1)
    await limiter.acquire()
    order: list[str] = []

    async def call(name: str, first: bool) -> None:
        await limiter.acquire(first=first)
        order.append(name)
        limiter.release()

    waiting = [asyncio.create_task(call(name, False)) for name in ("new", "newer")]
    await asyncio.sleep(0)
    waiting.append(asyncio.create_task(call("retry", True)))
    await asyncio.sleep(0)
    limiter.release()
    await asyncio.gather(*waiting)
    assert order == ["retry", "new", "newer"]


async def test_the_stub_sees_at_most_the_bound(stub: Stub) -> None:
    stub.use(Script(latency=0.02))
    async with Client([endpoint(stub, concurrency=9)]) as client:
        await asyncio.gather(*(client.complete(ask()) for _ in range(100)))
    assert stub.counts()["most_in_flight"] == 9
    assert stub.counts()["connections"] <= 10
