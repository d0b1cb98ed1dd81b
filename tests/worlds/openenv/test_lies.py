"""What an environment behind an address says and no environment would: the machinery's failure."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from rods.calls import Call
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.errors import InfrastructureError

SCHEMA = {"title": "Move", "type": "object", "properties": {"to": {"type": "integer"}}}
GOOD = {"observation": {"at": 1}, "reward": 0.5, "done": False}
ANSWERS: dict[str, Any] = {  # what stands in the place of an answer
    "a text as reward": {"data": GOOD | {"reward": "x"}},
    "a list as reward": {"data": GOOD | {"reward": [1]}},
    "no number as reward": {"data": GOOD | {"reward": float("nan")}},
    "too much reward": {"data": GOOD | {"reward": 10**400}},
    "a text as done": {"data": GOOD | {"done": "no"}},
    "an integer beyond 64 bits": {"data": GOOD | {"observation": {"at": 2**70}}},
    "a list": [],
    "a number": 5,
    "null": None,
    "no object as data": {"data": [1]},
    "an error without an object": {"type": "error", "data": "x"},
    "an error with odd faults": {
        "type": "error",
        "data": {"code": "VALIDATION_ERROR", "errors": [{"loc": 3}]},
    },
    "half a line": "{",
}


class Liar:
    """A server that takes each step, and then says `answer` to what is of `kind`."""

    def __init__(self) -> None:
        self.kind = ""
        self.answer: Any = None
        self.schema: Any = {"action": SCHEMA}
        self.steps: dict[int, int] = {}

    async def schemas(self, request: web.Request) -> web.Response:
        return web.json_response(self.schema)

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        steps = 0
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                break
            kind = json.loads(message.data)["type"]
            steps += kind == "step"
            state = {"at": steps}
            answer = {"type": kind, "data": state if kind == "state" else GOOD}
            if kind == self.kind:
                answer = self.answer
            await socket.send_str(answer if isinstance(answer, str) else json.dumps(answer))
        return socket


@pytest.fixture
def liar() -> Iterator[tuple[Liar, str]]:
    liar = Liar()
    loop = asyncio.new_event_loop()
    application = web.Application()
    application.add_routes([web.get("/schema", liar.schemas), web.get("/ws", liar.socket)])
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    loop.run_until_complete(runner.setup())
    site = web.TCPSite(runner, "127.0.0.1", 0)
    loop.run_until_complete(site.start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    host, port = runner.addresses[0][:2]
    yield liar, f"http://{host}:{port}"
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


def described(folder: Path, url: str) -> Environment:
    schema = {"type": "object", "properties": SCHEMA["properties"]}
    tools = [{"name": "step", "description": "Takes one action.", "inputSchema": schema}]
    fields = {"url": url, "compared": ["at"], "tools": tools, "seconds": 10}
    (folder / "liar.openenv.json").write_text(json.dumps(fields))
    return Environments().load(str(folder / "liar.openenv.json"))


@pytest.mark.parametrize("what", ANSWERS)
def test_a_lie_is_the_machinerys_and_leaves_no_step(
    liar: tuple[Liar, str], tmp_path: Path, what: str
) -> None:
    server, url = liar
    environment = described(tmp_path, url)
    world = environment.reset(None)
    assert world.call(Call("step", {"to": 1})).value == {"at": 1}
    twin = world.fork()
    server.answer = ANSWERS[what]
    for server.kind in ("step", "state", "reset"):
        if server.kind == "reset":
            with pytest.raises(InfrastructureError):
                environment.reset(None)
        elif server.kind == "state":
            if "reward" in what or "done" in what or "bits" in what:
                continue  # nothing of a state
            with pytest.raises(InfrastructureError):
                world.call(Call("step", {"to": 2}))
                world.same_state(environment.reset(None))
        else:
            with pytest.raises(InfrastructureError):
                world.call(Call("step", {"to": 2}))
    server.kind = ""
    fresh = environment.reset(None)
    fresh.call(Call("step", {"to": 1}))
    assert twin.same_state(fresh), "the step that was taken is no part of a copy"


@pytest.mark.parametrize("schema", [[], 5, {}, {"action": 5}, {"action": None}, {"action": "x"}])
def test_a_schema_that_is_none_is_the_machinerys(
    liar: tuple[Liar, str], tmp_path: Path, schema: Any
) -> None:
    server, url = liar
    server.schema = schema
    with pytest.raises(InfrastructureError):
        described(tmp_path, url).reset(None)
