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
from rods.worlds.desk.generator import generate
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


def posted(address: str, *messages: tuple[str, Any]) -> list[tuple[int, Any]]:
    """Status and body of what is posted, path by path."""

    async def asked() -> list[tuple[int, Any]]:
        answers = []
        async with aiohttp.ClientSession() as client:
            for path, message in messages:
                text = message if isinstance(message, str) else json.dumps(message)
                async with client.post(f"{address}{path}", data=text) as response:
                    answers.append((response.status, await response.json()))
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
        for status, body in posted(
            address, *(("/step", {"action": step(fault)["data"]}) for fault in FAULTS)
        ):
            assert status == 500 and body["detail"]
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
        bodies = [("/step", {"action": 3}), ("/step", [1]), ("/reset", 3), ("/reset", "{")]
        assert [status for status, _ in posted(address, *bodies)] == [422] * 4


def test_a_seed_is_refused_and_not_ignored() -> None:
    with serving(load("desk")) as address:
        seeded, plain = told(
            address, *({"type": "reset", "data": {"seed": seed}} for seed in (3, None))
        )
        assert (
            seeded["data"]["code"] == "VALIDATION_ERROR" and "no seed" in seeded["data"]["message"]
        )
        assert plain["type"] == "observation"
        ((status, body),) = posted(address, ("/reset", {"seed": 3}))
        assert status == 422 and "no seed" in body["detail"]
        with pytest.raises(ValueError, match="no seed"):
            behind(address).reset({"reset": {"seed": 3}})


def rpc(method: str, **params: Any) -> tuple[str, Any]:
    return "/mcp", {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def test_clients_in_production_mode_play_by_mcp() -> None:
    desk = load("desk")
    (task,) = generate(0, 1, 0)
    calls = [each for turn in task.calls for each in turn]
    with serving(desk, sessions=2) as address:
        (_, listed), (_, one), (_, other), (status, full) = posted(
            address, rpc("tools/list"), *[rpc("openenv/session/create")] * 3
        )
        assert {
            tool["name"] for tool in listed["result"]["tools"]
        } == desk.tools().keys() and listed["id"] == 7
        assert all(tool["inputSchema"]["type"] == "object" for tool in listed["result"]["tools"])
        assert (
            status == 200
            and full["error"]["code"] == -32000
            and "all 2 sessions" in full["error"]["message"]
        )
        assert told(address, {"type": "state"})[0]["data"]["code"] == "CAPACITY_REACHED"
        mine, yours = (each["result"]["session_id"] for each in (one, other))
        world = desk.reset(None)
        untouched = desk.reset(None)
        for call in calls:
            given = dict(call.arguments)
            (_, answer), (_, without) = posted(
                address,
                rpc("tools/call", name=call.name, arguments=given, session_id=mine),
                rpc("tools/call", name=call.name, arguments=given),
            )
            for result, got in ((world.call(call), answer), (desk.reset(None).call(call), without)):
                if result.error is None:
                    assert (
                        got["result"]["data"] == result.text == got["result"]["content"][0]["text"]
                    )
                else:
                    assert got["error"]["message"] == result.text
        (_, closed), (_, again), (_, place) = posted(
            address,
            *[rpc("openenv/session/close", session_id=mine)] * 2,
            rpc("openenv/session/create"),
        )
        assert (
            closed["result"] == {"session_id": mine, "closed": True}
            and "session_id" in place["result"]
        )
        assert again["error"]["code"] == -32602
        call = calls[0]
        ((_, first),) = posted(
            address,
            rpc("tools/call", name=call.name, arguments=dict(call.arguments), session_id=yours),
        )
        assert (
            untouched.call(call).text in json.dumps(first)
            or first["result"]["data"] == untouched.call(call).text
        )


def test_by_mcp_too_each_is_told_whose_fault_it_is() -> None:
    with serving(BROKEN) as address:
        for fault, (status, body) in zip(
            FAULTS,
            posted(address, *(rpc("tools/call", name=fault) for fault in FAULTS)),
            strict=True,
        ):
            assert status == 200 and body["error"]["code"] == -32603, fault
            assert body["error"]["data"] == {"error_type": "EXECUTION_ERROR"}
    wrong = [
        (rpc("tools/call", name="nothing"), -32602),
        (rpc("tools/call"), -32602),
        (rpc("tools/list", session_id="none"), -32602),
        (rpc("openenv/session/close"), -32602),
        (rpc("initialize"), -32601),
        (("/mcp", "{"), -32700),
        (("/mcp", [1]), -32602),
    ]
    with serving(load("desk")) as address:
        told = [body["error"]["code"] for _, body in posted(address, *(each for each, _ in wrong))]
    assert told == [code for _, code in wrong]
