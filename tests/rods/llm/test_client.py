"""What goes over the wire, who is asked, what is counted, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import resource
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.errors import UserError
from rods.llm import Client, EndpointError, Request, Usage
from tests.rods.llm.conftest import ask, endpoint


def echo(request: dict[str, Any]) -> str:
    """The stub's answer in these tests: the request that it got."""
    return json.dumps(request)


ECHO = "tests.rods.llm.test_client:echo"


def open_sockets() -> int:
    return sum(
        link.readlink().name.startswith("socket:")
        for link in Path("/proc/self/fd").iterdir()
        if link.is_symlink()
    )


async def test_a_request_arrives_as_it_was_meant(stub: Stub) -> None:
    stub.use(Script(answer=ECHO))
    request = ask(
        "snowman ☃",
        max_tokens=7,
        temperature=0.1,
        top_p=0.5,
        random_seed=3,
        schema={"type": "object"},
        tools=({"type": "function", "function": {"name": "look"}},),
        extra={"min_p": 0.1},
    )
    async with Client(
        [endpoint(stub, extra={"chat_template_kwargs": {"enable_thinking": False}})]
    ) as client:
        found = json.loads((await client.complete(request)).text)
    assert found == {
        "model": "stub",
        "messages": [{"role": "user", "content": "snowman ☃"}],
        "max_tokens": 7,
        "temperature": 0.1,
        "top_p": 0.5,
        "seed": 3,
        "tools": [{"type": "function", "function": {"name": "look"}}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
        },
        "chat_template_kwargs": {"enable_thinking": False},
        "min_p": 0.1,
    }


async def test_a_prompt_goes_to_plain_completion(stub: Stub) -> None:
    stub.use(Script(answer=ECHO))
    async with Client([endpoint(stub)]) as client:
        found = json.loads(
            (await client.complete(Request("test", prompt=[1, 2, 3], max_tokens=4))).text
        )
    assert found["prompt"] == [1, 2, 3]
    assert "messages" not in found


async def test_backbones_share_calls_by_weight_and_can_be_pinned_and_drawn(stub: Stub) -> None:
    with Stub() as other:
        both = [endpoint(stub, name="large", weight=3.0), endpoint(other, name="small")]
        async with Client(both) as client:
            found = Counter([(await client.complete(ask())).backbone for _ in range(40)])
            assert found == {"large": 30, "small": 10}
            pinned = [(await client.complete(ask(backbone="small"))).backbone for _ in range(5)]
            assert set(pinned) == {"small"}
            chance = random.Random(0)
            drawn = Counter(client.draw(chance) for _ in range(4000))
            assert 2900 < drawn["large"] < 3100
            with pytest.raises(UserError, match="no endpoint is called 'none'"):
                await client.complete(ask(backbone="none"))


async def test_every_call_is_handed_to_the_sink_once_with_what_it_cost(stub: Stub) -> None:
    stub.use(Script(faults={"500": 0.3}, rules=[("bad", "400")], latency=0.01))
    used: list[Usage] = []
    async with Client([endpoint(stub)], sink=used.append) as client:
        account = client.account("3-abc#0")
        for stage in ("plan", "judge"):
            await asyncio.gather(
                *(
                    client.complete(ask(stage=stage, template="t@1", account=account))
                    for _ in range(10)
                )
            )
        with pytest.raises(EndpointError):
            await client.complete(ask("bad", stage="plan"))
    assert Counter(one.stage for one in used) == {"plan": 11, "judge": 10}
    assert Counter(one.outcome for one in used) == {"stop": 20, "refused": 1}
    assert sum(one.retries for one in used) == stub.counts()["500"] > 0
    first = used[0]
    assert (first.model, first.backbone, first.tokens_in, first.tokens_out) == (
        "stub",
        "stub",
        10,
        250,
    )
    assert (first.template, first.account) == ("t@1", "3-abc#0")
    assert all(one.seconds > 0.01 for one in used[:20])


async def until(stub: Stub, what: str, count: int) -> None:
    for _ in range(400):
        if stub.counts()[what] == count:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(stub.counts())


async def test_cancelled_calls_leave_nothing_and_the_server_hears_of_it(stub: Stub) -> None:
    stub.use(Script(latency=30.0))
    before = open_sockets()
    async with Client([endpoint(stub, concurrency=50)]) as client:
        tasks = [asyncio.create_task(client.complete(ask())) for _ in range(200)]
        await until(stub, "requests", 50)
        assert client.status()[0]["in_flight"] == 50
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in found)
        assert (client.status()[0]["in_flight"], client.status()[0]["waiting"]) == (0, 0)
        await until(stub, "hung_up", 50)  # so that it stops generating
        stub.use(Script())
        assert (await client.complete(ask())).whole, "and the client still works"
    await asyncio.sleep(0.05)
    assert open_sockets() == before
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_ends_the_calls_that_are_still_open(stub: Stub) -> None:
    stub.use(Script(latency=30.0))
    async with Client([endpoint(stub, concurrency=5)]) as client:
        tasks = [asyncio.create_task(client.complete(ask())) for _ in range(20)]
        await asyncio.sleep(0.2)
    found = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 120)
    assert all(isinstance(one, EndpointError) for one in found)
    with pytest.raises(EndpointError, match="closed"):
        await client.complete(ask())
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.sweep
async def test_memory_is_flat_over_many_calls(stub: Stub) -> None:
    stub.use(Script(faults={"500": 0.02, "reset": 0.01, "chunked": 0.1}))

    async def calls(client: Client, number: int) -> int:
        async def work() -> None:
            for _ in range(number // 50):
                await client.complete(ask())

        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(work())
        gc.collect()
        return len(gc.get_objects())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rods.llm.client.FIRST_WAIT", 0.001)
        async with Client([endpoint(stub, concurrency=50)]) as client:
            objects = await calls(client, 5000)
            memory = _resident()
            after = await calls(client, 15_000)
            assert after < objects + 500
            assert _resident() < memory + (8 << 20)  # half a kilobyte a call would be more


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


async def test_descriptors_suffice_for_many_connections(stub: Stub) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are all that is wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 200, limits[1]))
    try:
        stub.use(Script(latency=0.3))
        async with Client([endpoint(stub, concurrency=400)]) as client:
            found = await asyncio.gather(*(client.complete(ask()) for _ in range(400)))
        assert sum(one.retries for one in found) == 0
        assert stub.counts()["most_in_flight"] == 400
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
