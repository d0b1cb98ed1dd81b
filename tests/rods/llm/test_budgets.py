"""Budgets stop the work cleanly: nothing over the limit is sent, nothing that was sent is cut
off."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.usage import UsageLog
from rods.config import Budgets
from rods.errors import BudgetSpent
from rods.llm import Budget, Client, Usage
from tests.rods.llm.conftest import ask, endpoint


async def test_requests_end_at_the_limit_repeated_ones_included(stub: Stub) -> None:
    stub.use(Script(faults={"429": 0.3}, random_seed=1))
    budget = Budget(Budgets(requests=50), requests=10)
    async with Client([endpoint(stub)], budget=budget) as client:
        found = await asyncio.gather(
            *(client.complete(ask()) for _ in range(60)), return_exceptions=True
        )
    assert stub.counts()["requests"] == 40
    assert sum(isinstance(one, BudgetSpent) for one in found) == 60 - stub.counts()["good"]
    assert budget.spent
    assert budget.requests == 50


async def test_the_requests_of_the_budget_are_those_of_the_log_refused_schemas_included(
    stub: Stub, tmp_path: Path
) -> None:
    """One attempt with a schema that is refused is two requests, for the server, the budget and the
    next start."""
    stub.use(Script(rules=[("odd", "400")], faults={"429": 0.2}, random_seed=1))
    odd = {"type": "object", "title": "odd"}
    async with UsageLog(tmp_path, "daemon") as usage:
        budget = Budget(Budgets(requests=30))
        async with Client([endpoint(stub)], budget=budget, sink=usage) as client:
            for number in range(4):
                await client.complete(ask(schema={"type": "object"}, template="good"))
                await client.complete(ask(schema=odd, template=f"odd {number}"))
            with pytest.raises(BudgetSpent):
                for number in range(30):
                    await client.complete(ask(schema=odd, template=f"other {number}"))
    assert stub.counts()["requests"] == budget.requests == usage.requests == 30
    async with UsageLog(tmp_path, "daemon") as again:
        assert again.requests == 30


async def test_tokens_are_never_overspent_and_hardly_any_are_left(stub: Stub) -> None:
    stub.use(Script(latency=0.01))  # 260 tokens an answer
    budget = Budget(Budgets(tokens=20_000))
    used = list[Usage]()
    async with Client([endpoint(stub)], budget=budget, sink=used.append) as client:
        request = ask(max_tokens=300)
        found = await asyncio.gather(
            *(client.complete(request) for _ in range(200)), return_exceptions=True
        )
    answered = [one for one in found if not isinstance(one, BaseException)]
    assert all(isinstance(one, BudgetSpent) for one in found if isinstance(one, BaseException))
    assert (
        budget.tokens == sum(one.tokens_in + one.tokens_out for one in used) == 260 * len(answered)
    )
    assert 20_000 - 400 < budget.tokens <= 20_000
    assert stub.counts()["hung_up"] == 0


async def test_a_variant_may_make_so_many_calls(stub: Stub) -> None:
    async with Client([endpoint(stub)], budget=Budget(Budgets(variant_calls=3))) as client:
        account = client.account("7-abc")
        other = client.account("7-def")
        for _ in range(3):
            await client.complete(ask(account=account))
        with pytest.raises(BudgetSpent, match="7-abc: 3 calls"):
            await client.complete(ask(account=account))
        assert (await client.complete(ask(account=other))).whole
    assert (account.calls, other.calls) == (3, 1)


async def test_cancelled_calls_give_their_reservation_back(stub: Stub) -> None:
    stub.use(Script(latency=30.0))
    budget = Budget(Budgets(tokens=5000))
    async with Client([endpoint(stub)], budget=budget) as client:
        tasks = [asyncio.create_task(client.complete(ask(max_tokens=400))) for _ in range(30)]
        await asyncio.sleep(0.2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        stub.use(Script())
        assert (await client.complete(ask(max_tokens=4000))).whole
