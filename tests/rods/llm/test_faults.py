"""Whatever an endpoint does, a call ends well or with a typed error, and what the model did wrong
is told apart."""

from __future__ import annotations

import asyncio

import pytest

from bench.fixtures.llm_stub import Script, Stub
from bench.fixtures.llm_stub.script import MACHINERY
from rods.llm import Client, Completion, EndpointError, Request, RequestRefused
from tests.rods.llm.conftest import ask, endpoint


async def answers(client: Client, number: int, request: Request | None = None) -> list[Completion]:
    return list(await asyncio.gather(*(client.complete(request or ask()) for _ in range(number))))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=[pytest.mark.slow] * fault.startswith("stall"))
        for fault in MACHINERY
    ],
)
async def test_a_failing_machine_is_asked_again_until_every_call_is_answered(
    stub: Stub, fault: str
) -> None:
    # a busy machine answers within the seconds after which a stalled call is given up
    stalls = fault.startswith("stall")
    calls = 12 if stalls else 40
    stub.use(Script(faults={fault: 0.3}, random_seed=5))
    async with Client([endpoint(stub, read_seconds=6.0 if stalls else 120.0)]) as client:
        found = await answers(client, calls)
    counts = stub.counts()
    assert all(one.whole and len(one.text) == 1000 for one in found)
    assert counts[fault] > calls / 8, "the fault must have happened"
    assert counts["good"] == calls, "no call is answered twice"
    assert sum(one.retries for one in found) == counts[fault]


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
async def test_all_faults_together_lose_and_double_nothing(stub: Stub) -> None:
    stub.use(Script(faults=dict.fromkeys(MACHINERY, 0.05 / len(MACHINERY)), latency=(0.001, 0.01)))
    # what is answered is not given up meanwhile
    async with Client([endpoint(stub, read_seconds=8.0)]) as client:
        found = await answers(client, 500)
    assert len(found) == stub.counts()["good"] == 500
    assert all(one.whole for one in found)


@pytest.mark.parametrize(
    ("fault", "finish"),
    [
        ("empty_choices", "empty"),
        ("null_content", "empty"),
        ("thoughts_alone", "empty"),
        ("abort", "aborted"),
        ("abort_midway", "aborted"),
        ("content_filter", "filtered"),
        ("length", "length"),
        ("no_room", "context"),
    ],
)
async def test_a_model_that_was_wrong_is_data_and_not_asked_again(
    stub: Stub, fault: str, finish: str
) -> None:
    stub.use(Script(faults={fault: 1.0}))
    async with Client([endpoint(stub)]) as client:
        found = await client.complete(ask())
    assert (found.finish, found.whole, found.retries) == (finish, False, 0)
    assert stub.counts()["requests"] == 1


@pytest.mark.parametrize(
    "fault", ["surrogates", "not_utf8", "huge", "big_numbers", "chunked", "close", "parts"]
)
async def test_odd_answers_are_read_and_can_be_written(stub: Stub, fault: str) -> None:
    stub.use(Script(faults={fault: 1.0}))
    async with Client([endpoint(stub)]) as client:
        found = await answers(client, 3)
    assert all(one.finish == "stop" for one in found)
    assert all(one.text.encode() for one in found), "no lone surrogates"
    if fault == "huge":
        assert len(found[0].text) > 900_000
    if fault in ("chunked", "close", "parts"):
        assert len(found[0].text) == 1000
    assert stub.counts()["requests"] == 3


@pytest.mark.parametrize("fault", ["no_usage", "bad_usage"])
async def test_tokens_are_guessed_where_the_server_does_not_count(stub: Stub, fault: str) -> None:
    stub.use(Script(faults={fault: 1.0}))
    async with Client([endpoint(stub)]) as client:
        found = await client.complete(ask("x" * 4000))
    assert found.tokens_out == 250
    assert 1000 <= found.tokens_in <= 1100


async def test_a_request_that_the_server_calls_wrong_is_not_repeated(stub: Stub) -> None:
    stub.use(Script(rules=[("bad", "400")]))
    async with Client([endpoint(stub)]) as client:
        with pytest.raises(RequestRefused, match="unknown parameter"):
            await client.complete(ask("bad"))
        assert (await client.complete(ask("good"))).whole, "and the endpoint is not blamed"
    assert stub.counts()["requests"] == 3, "whether it answers anything was asked in between"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("fault", "said"), [("429", "slow down"), ("500", "engine fell over"), ("reset", "reset")]
)
async def test_a_call_that_never_succeeds_is_given_up_and_the_others_are_not(
    stub: Stub, fault: str, said: str
) -> None:
    stub.use(Script(rules=[("poison", fault)], latency=0.01))
    # a stub on a busy machine may take long to answer: that is not what is tried here
    async with Client([endpoint(stub, read_seconds=60.0, retry_seconds=4.0)]) as client:
        async with asyncio.timeout(240), asyncio.TaskGroup() as group:
            others = [group.create_task(client.complete(ask())) for _ in range(50)]
            with pytest.raises(EndpointError, match=rf"given up after \d+ attempts.*{said}"):
                await client.complete(ask("poison"))
        assert all(other.result().whole for other in others)
    assert stub.counts()[fault] >= 2


async def test_retry_after_is_honoured_and_too_long_a_one_ends_the_call(stub: Stub) -> None:
    loop = asyncio.get_running_loop()
    stub.use(Script(rules=[("first", "429_date")]))
    async with Client([endpoint(stub)]) as client:
        began = loop.time()
        waiting = asyncio.create_task(client.complete(ask("first")))
        await asyncio.sleep(0.1)
        stub.use(Script())
        assert (await waiting).retries >= 1
        assert loop.time() - began > 0.05
        stub.use(Script(faults={"429_hour": 1.0}))
        with pytest.raises(EndpointError, match="left alone for 3600 s"):
            await client.complete(ask())


async def test_a_refused_schema_is_left_out_and_soon_not_sent_at_all(stub: Stub) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with Client([endpoint(stub)]) as client:
        assert (await client.complete(ask(schema=schema))).constrained
    stub.use(Script(refuse_schema=True))
    stub.forget()
    async with Client([endpoint(stub)]) as client:
        found = [await client.complete(ask(schema=schema)) for _ in range(20)]
    assert all(one.whole and not one.constrained for one in found)
    assert stub.counts()["requests"] == 28, "eight schemas are tried, then no more"


async def test_a_server_that_takes_some_schemas_is_soon_sent_none_of_a_kind_that_it_refuses(
    stub: Stub,
) -> None:
    stub.use(Script(rules=[("odd", "400")]))
    good = {"type": "object"}
    odd = {"type": "object", "title": "odd"}
    async with Client([endpoint(stub)]) as client:
        for number in range(20):
            assert (await client.complete(ask(schema=good, template="plan@1"))).constrained
            assert not (
                await client.complete(ask(schema={**odd, "n": number}, template="judge@1"))
            ).constrained
    assert stub.counts()["requests"] == 20 + 8 * 2 + 12


async def test_schemas_can_be_switched_off(stub: Stub) -> None:
    stub.use(Script(refuse_schema=True))
    async with Client([endpoint(stub, structured=False)]) as client:
        assert not (await client.complete(ask(schema={"type": "object"}))).constrained
    assert stub.counts()["requests"] == 1
