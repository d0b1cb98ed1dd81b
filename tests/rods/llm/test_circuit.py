"""An endpoint that is down pauses the work: calls wait, are not lost, and go on when it is back,
even elsewhere."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.llm import Client, Completion, EndpointError, Request, RequestRefused, pacing
from rods.llm.pacing import THRESHOLD, Circuit
from tests.rods.llm.conftest import ask, endpoint

pytestmark = pytest.mark.usefixtures("quick")


async def until_down(client: Client) -> str:
    async with asyncio.timeout(120):
        while not client.status()[0]["why"]:  # noqa: ASYNC110 — nothing tells
            await asyncio.sleep(0.01)
    return str(client.status()[0]["why"])


def begin(client: Client, number: int) -> list[asyncio.Task[Completion]]:
    return [asyncio.create_task(client.complete(ask())) for _ in range(number)]


@pytest.mark.parametrize("fault", ["503", "reset", "401", "404", "redirect", "html"])
async def test_calls_wait_for_an_endpoint_that_is_down_and_go_on_when_it_is_back(
    stub: Stub, fault: str
) -> None:
    stub.use(Script(faults={fault: 1.0}))
    async with Client([endpoint(stub, retry_seconds=5.0, concurrency=16)]) as client:
        waiting = begin(client, 40)
        await until_down(client)
        stub.forget()
        await asyncio.sleep(0.5)
        assert stub.counts()["requests"] < 25, "one trial a pause"
        assert client.status()[0]["down_seconds"] > 0.4
        stub.use(Script())
        found = await asyncio.wait_for(asyncio.gather(*waiting), 120)
        assert all(one.whole for one in found)
        assert client.status()[0]["down_seconds"] == 0
    assert stub.counts()["good"] == 40


async def test_a_server_that_moved_is_found_through_the_file(stub: Stub, tmp_path: Path) -> None:
    file = tmp_path / "address"
    moving = Stub(Script(latency=0.05))
    file.write_text(f"# where it runs today\n{moving.url}\n")
    async with Client([endpoint(stub, urls=(), url_file=str(file), concurrency=8)]) as client:
        waiting = begin(client, 60)
        await asyncio.sleep(0.2)
        moving.stop()
        await asyncio.sleep(0.2)
        file.write_text("http://half writt")  # nobody reads this as an address
        await asyncio.sleep(0.2)
        file.write_text(f"{stub.url}\n")
        found = await asyncio.wait_for(asyncio.gather(*waiting), 120)
        assert all(one.whole for one in found)
        assert client.status()[0]["servers"] == [stub.url]
    assert stub.counts()["good"] >= 20


async def test_calls_wait_for_a_file_that_is_not_there_yet(stub: Stub, tmp_path: Path) -> None:
    file = tmp_path / "address"
    async with Client([endpoint(stub, urls=(), url_file=str(file))]) as client:
        waiting = begin(client, 12)
        assert "no address" in await until_down(client)
        file.write_text(stub.url)
        assert all(one.whole for one in await asyncio.wait_for(asyncio.gather(*waiting), 120))


async def test_a_file_system_that_does_not_answer_stops_no_other_endpoint(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rods.llm.backbone.PATIENCE", 0.05)
    file = tmp_path / "address"
    # whoever opens it waits for someone who writes, as on a network file system that has gone
    os.mkfifo(file)
    waiting = endpoint(stub, urls=(), url_file=str(file), name="waiting")
    well = endpoint(stub, name="well")
    async with Client([waiting, well]) as client:
        found = await asyncio.wait_for(asyncio.gather(*begin(client, 20)), 120)
        assert all(one.whole and one.backbone == "well" for one in found)
        assert client.status()[0]["servers"] == []
        file.write_text(f"{stub.url}\n")
        pinned = client.complete(
            Request("test", [{"role": "user", "content": "hello"}], backbone="waiting")
        )
        assert (await asyncio.wait_for(pinned, 120)).whole


async def test_one_dead_replica_of_two_costs_nothing_but_a_retry(stub: Stub) -> None:
    dead = Stub()
    dead.stop()
    async with Client([endpoint(stub, urls=(dead.url, stub.url), concurrency=8)]) as client:
        found = await asyncio.gather(*(client.complete(ask()) for _ in range(60)))
        assert client.status()[0]["down_seconds"] == 0
    assert all(one.whole for one in found)
    assert sum(one.retries for one in found) <= 8


async def test_calls_that_are_not_pinned_go_to_the_backbone_that_is_up(stub: Stub) -> None:
    dead = Stub()
    dead.stop()
    both = [endpoint(stub, name="dead", urls=(dead.url,), weight=9.0), endpoint(stub, name="alive")]
    async with Client(both) as client:
        found = await asyncio.wait_for(
            asyncio.gather(*(client.complete(ask()) for _ in range(60))), 120
        )
    assert {one.backbone for one in found} == {"alive"}


async def test_patience_ends_the_waiting(stub: Stub) -> None:
    stub.use(Script(faults={"401": 1.0}))
    async with Client([endpoint(stub, patience_seconds=0.3)]) as client:
        with pytest.raises(EndpointError, match=r"gone for more than 0.3 s: HTTP 401"):
            await asyncio.wait_for(client.complete(ask()), 120)


async def test_patience_ends_the_waiting_for_a_pause_that_is_longer(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "FIRST_PAUSE", 3_600.0)
    stub.use(Script(faults={"401": 1.0}))
    async with Client([endpoint(stub, patience_seconds=0.3)]) as client:
        for _ in range(3):  # whoever comes later waits no more
            with pytest.raises(EndpointError, match="gone for more than"):
                await asyncio.wait_for(client.complete(ask()), 120)


async def test_a_request_that_alone_is_refused_stops_nobody_for_long(stub: Stub) -> None:
    stub.use(Script(rules=[("forbidden", "404")], latency=0.01))
    async with Client([endpoint(stub, concurrency=8)]) as client:
        alone = asyncio.create_task(client.complete(ask("forbidden")))
        others = begin(client, 300)
        with pytest.raises(RequestRefused, match="refuses this request alone"):
            await asyncio.wait_for(alone, 120)
        assert all(one.whole for one in await asyncio.wait_for(asyncio.gather(*others), 120))
    assert stub.counts()["404"] <= 6, "its two, and the trials that fell to it"


async def test_answers_that_were_on_their_way_do_not_turn_an_outage_into_the_fault_of_single_calls(
    stub: Stub,
) -> None:
    stub.use(Script(latency=(0.3, 1.2)))
    async with Client([endpoint(stub, concurrency=12)]) as client:
        waiting = begin(client, 40)
        await asyncio.sleep(0.5)  # some were answered, others are on their way
        stub.use(Script(faults={"401": 1.0}))
        await until_down(client)
        await asyncio.sleep(1.0)  # the others are answered
        assert client.status()[0]["down_seconds"] > 0.9
        stub.use(Script())
        found = await asyncio.wait_for(asyncio.gather(*waiting), 120)
    assert all(one.whole for one in found)


async def test_being_turned_away_does_not_show_that_the_key_is_good(stub: Stub) -> None:
    stub.use(Script(faults={"401": 0.5, "429": 0.5}))
    async with Client([endpoint(stub, concurrency=12)]) as client:
        waiting = begin(client, 20)
        await until_down(client)
        await asyncio.sleep(1.0)
        assert not any(one.done() for one in waiting)
        stub.use(Script())
        assert all(one.whole for one in await asyncio.wait_for(asyncio.gather(*waiting), 120))


async def test_a_cancelled_trial_lets_another_call_try(stub: Stub) -> None:
    stub.use(Script(faults={"401": 1.0}))
    async with Client([endpoint(stub)]) as client:
        first = begin(client, 1)[0]
        await until_down(client)
        stub.use(Script(faults={"stall": 1.0}))
        await asyncio.sleep(0.3)  # the trial hangs now
        second = begin(client, 1)[0]
        first.cancel()
        stub.use(Script())
        assert (await asyncio.wait_for(second, 120)).whole


async def test_scattered_failures_never_open_a_circuit() -> None:
    circuit = Circuit()
    for _ in range(100):
        for _ in range(THRESHOLD - 1):
            trial = await circuit.passage()
            assert trial is not None
            assert not circuit.failed("reset", trial)
        circuit.succeeded(time.monotonic())
    assert circuit.down_since is None


async def test_only_what_was_sent_since_a_circuit_opened_closes_it() -> None:
    circuit = Circuit()
    trial = await circuit.passage()
    assert trial is not None
    before = time.monotonic()
    assert circuit.failed("no key", trial, refusal=True)
    refused = time.monotonic()
    assert not circuit.succeeded(before)
    assert circuit.down_since is not None
    assert circuit.last_answered < refused
    assert circuit.succeeded(time.monotonic())
    assert circuit.down_since is None


async def test_a_pause_is_as_long_as_the_server_asks() -> None:
    circuit = Circuit()
    trial = await circuit.passage()
    assert trial is not None
    assert circuit.failed("loading", trial, refusal=True, after=0.4)
    circuit.leave(trial)
    began = time.monotonic()
    while await circuit.passage() is None:
        pass
    assert time.monotonic() - began > 0.3


async def test_pauses_grow_while_trials_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rods.llm.pacing.LONGEST_PAUSE", 10.0)
    circuit = Circuit()
    trial = await circuit.passage()
    assert trial is not None
    assert circuit.failed("no key", trial, refusal=True)
    pauses = []
    for _ in range(3):
        began = time.monotonic()
        while (trial := await circuit.passage()) is None:
            pass
        pauses.append(time.monotonic() - began)
        assert trial
        circuit.failed("no key", trial, refusal=True)
        circuit.leave(trial)
    # on a busy machine each may be longer than it was to be, none is shorter
    for pause, meant in zip(pauses, (0.05, 0.1, 0.2), strict=True):
        assert pause > 0.9 * meant
