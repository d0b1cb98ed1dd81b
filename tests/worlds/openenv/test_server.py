"""What an environment that is served as an OpenEnv server answers, by its sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from bench.openenv_transcripts import behind, serving
from rods.calls import Call
from rods.environments.base import Features, Parameter, Result, Tool
from rods.errors import InfrastructureError
from tests.environments import load

FAULTS: dict[str, Callable[[], Any]] = {
    "TypeError": lambda: None + 1,  # type: ignore[operator]
    "AttributeError": lambda: None.nothing,  # type: ignore[attr-defined]
    "KeyError": lambda: dict[str, int]()["nothing"],
    "ValueError": lambda: int("x"),
    "ZeroDivisionError": lambda: 1 / 0,
    "RecursionError": lambda: deep(),
}
FAULTY = tuple(
    Tool(name, "toys", "Does it.", (Parameter("by", {"type": "integer"}, required=False),))
    for name in (*FAULTS, "say")
)


def deep() -> Any:
    return deep()


class World:
    """Whose code is at fault, in the tools named like what it raises."""

    shown: Any = None

    def call(self, call: Call) -> Result:
        if call.name == "say":
            return Result("lone \ud800")
        return Result(str(FAULTS[call.name]()))

    def snapshot(self) -> Any:
        return self.shown

    def fork(self) -> World:
        return self

    def same_state(self, other: object) -> bool:
        return True


def reset(state: Any) -> World:
    return World() if not state else state["nothing"]


BROKEN: Any = SimpleNamespace(
    name="broken",
    hash="broken",
    features=Features(deterministic=True, snapshot=True, fork=True, state_visible=True),
    tools=lambda: {tool.name: tool for tool in FAULTY},
    reset=reset,
)


def told(address: str, *messages: Any) -> list[Any]:
    """What one WebSocket answers, to texts as they are and to all else as JSON."""

    async def asked() -> list[Any]:
        async with aiohttp.ClientSession() as client, client.ws_connect(f"{address}/ws") as socket:
            answers = []
            for message in messages:
                await socket.send_str(message if isinstance(message, str) else json.dumps(message))
                answer = await socket.receive(60)
                assert answer.type is aiohttp.WSMsgType.TEXT, (
                    f"the socket was closed over {message!r:.100}"
                )
                answers.append(json.loads(answer.data))
            return answers

    return asyncio.run(asked())


def step(name: str, **arguments: Any) -> dict[str, Any]:
    return {
        "type": "step",
        "data": {"type": "call_tool", "tool_name": name, "arguments": arguments},
    }


def test_a_worlds_own_fault_is_the_servers_and_closes_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(BROKEN) as address:
        monkeypatch.setattr(World, "shown", {1, 2})  # no JSON
        answers = told(
            address,
            *map(step, FAULTS),
            {"type": "state"},
            {"type": "reset", "data": {"state": {"x": 1}}},
        )
        for fault, answer in zip([*FAULTS, "TypeError", "KeyError"], answers, strict=True):
            assert answer["type"] == "error" and answer["data"]["code"] == "EXECUTION_ERROR", answer
            assert fault in answer["data"]["message"]
        (said,) = told(address, step("say"))
        assert said["data"]["observation"]["result"] == "lone \ud800"
        monkeypatch.setattr(World, "shown", {})
        world = behind(address).reset(None)
        with pytest.raises(InfrastructureError, match="TypeError was not carried out"):
            world.call(Call("TypeError"))


def test_what_is_no_message_is_whoever_sends_its_and_closes_no_socket() -> None:
    wrong: list[Any] = [
        {"type": "reset", "data": 3},
        {"type": "reset", "data": {"state": 3}},
        {"type": "reset", "data": {"state": {"nothing": 1}}},
        {"type": "step", "data": [1]},
        {"type": "step", "data": {"tool_name": 5}},
        {"type": "step", "data": {"type": "jump"}},
        {"type": "step", "data": {"tool_name": "list_mail", "arguments": []}},
        *([], 3, "null"),
    ]
    odd = ["{", "[" * 100_000, '{"type": "reset", "data": {"state": ' + "9" * 5000 + "}}"]
    with serving(load("desk")) as address:
        for message, answer in zip(wrong, told(address, *wrong), strict=True):
            assert answer["data"].get("code") == "VALIDATION_ERROR", message
        assert {answer["data"]["code"] for answer in told(address, *odd)} == {"INVALID_JSON"}
        assert told(address, {"type": "jump"})[0]["data"]["code"] == "UNKNOWN_TYPE"


def test_a_seed_is_refused_and_not_ignored() -> None:
    with serving(load("desk")) as address:
        seeded, plain = told(
            address, *({"type": "reset", "data": {"seed": seed}} for seed in (3, None))
        )
        assert (
            seeded["data"]["code"] == "VALIDATION_ERROR" and "no seed" in seeded["data"]["message"]
        )
        assert plain["type"] == "observation"
        with pytest.raises(ValueError, match="no seed"):
            behind(address).reset({"reset": {"seed": 3}})


def test_a_session_more_than_there_are_places_is_refused() -> None:
    with serving(load("desk"), sessions=1) as address:

        async def crowded() -> str:
            async with (
                aiohttp.ClientSession() as client,
                client.ws_connect(f"{address}/ws") as first,
            ):
                await first.send_str(json.dumps({"type": "state"}))
                await first.receive(60)
                async with client.ws_connect(f"{address}/ws") as second:
                    code: str = json.loads((await second.receive(60)).data)["data"]["code"]
                    return code

        assert asyncio.run(crowded()) == "CAPACITY_REACHED"
