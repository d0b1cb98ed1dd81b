"""An environment of ours as an OpenEnv server (`rods env serve`): its tools are called by OpenEnv's actions of tools, a
session a world.

What a tool says is the `result` of an observation, a text; what it refuses is its `error`, with the text as message.
`reset` takes the state as `state`, as tasks have it. No rewards: tasks and their goals stay with whoever trains.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
from aiohttp import WSMsgType, web
from cyclopts import Parameter
from cyclopts.types import PositiveInt, UInt16

from rods.calls import Call
from rods.environments.base import Environment, Instance
from rods.environments.loading import Environments
from rods.errors import InfrastructureError, Unsupported
from rods.faults import WRONG_ARGUMENTS
from rods.files import explained
from rods.signals import on_signal
from rods.worlds.openenv.sessions import LARGEST, RefusedStep

_KINDS = {"unknown_tool": "tool_not_found", "hidden_tool": "tool_not_found", "timeout": "timeout"}
_SCHEMAS = orjson.loads(Path(__file__).with_name("served.json").read_bytes())  # of actions, observations, states


class ServedEpisode:
    """One session: a world of `environment`, with answers to OpenEnv's messages."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._world: Instance | None = None
        self._id, self._steps = str(uuid.uuid4()), 0

    def answer(self, message: Any) -> dict[str, Any]:
        """The answer to one message, errors included."""
        try:
            kind, data = message.get("type", ""), message.get("data", {})
            if kind == "reset":
                return _observed(self._reset(data))
            if kind == "step":
                return _observed(self._step(data))
            if kind == "state":
                return {"type": "state", "data": self._state()}
            return _error("UNKNOWN_TYPE", f"Unknown message type: {kind}")
        except RefusedStep as error:
            return _error(error.code, error.text)
        except InfrastructureError as error:
            return _error("SESSION_ERROR", str(error))
        except (TypeError, AttributeError, KeyError) as error:
            return _error("VALIDATION_ERROR", f"Invalid message: {error!r}")

    def _reset(self, data: Mapping[str, Any]) -> dict[str, Any]:
        try:
            self._world = self.environment.reset(data.get("state"))
        except ValueError as error:
            raise RefusedStep("VALIDATION_ERROR", f"the state is illegal: {error}") from error
        self._id, self._steps = data.get("episode_id") or str(uuid.uuid4()), 0
        return {}

    def _step(self, action: Mapping[str, Any]) -> dict[str, Any]:
        kind = action.get("type", "call_tool")
        if kind == "list_tools":
            documents = [tool.schema() for tool in self.environment.tools().values()]
            keys = {"name": "name", "description": "description", "parameters": "input_schema"}
            return {"tools": [{keys[key]: part for key, part in document.items()} for document in documents]}
        name, arguments = action.get("tool_name"), action.get("arguments", {})
        if kind != "call_tool" or not isinstance(name, str) or not isinstance(arguments, dict):
            raise RefusedStep("VALIDATION_ERROR", "an action is a call of a tool: tool_name and arguments")
        if self._world is None:
            self._reset({})
        assert self._world is not None
        result = self._world.call(Call(name, arguments))
        self._steps += 1
        if result.error == "infrastructure":
            raise InfrastructureError(result.text)
        if result.error is None:
            return {"tool_name": name, "result": result.text, "error": None}
        told = "invalid_args" if result.error in WRONG_ARGUMENTS else _KINDS.get(result.error, "execution_error")
        return {"tool_name": name, "result": None, "error": {"error_type": told, "message": result.text}}

    def _state(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"episode_id": self._id, "step_count": self._steps}
        if self._world is not None:
            with contextlib.suppress(Unsupported):
                shown["world"] = self._world.snapshot()
        return shown


def _observed(observation: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "observation", "data": {"observation": observation, "reward": None, "done": False}}


def _error(code: str, text: str) -> dict[str, Any]:
    return {"type": "error", "data": {"message": text, "code": code}}


def application(environment: Environment, sessions: int) -> web.Application:
    """The server. It carries out calls in its own thread, those of environments that wait in others. `sessions` worlds
    live at once; a further one is refused as OpenEnv's server does it."""
    living = 0

    async def answered(episode: ServedEpisode, message: Any) -> dict[str, Any]:
        if environment.features.waits:
            return await asyncio.to_thread(episode.answer, message)
        return episode.answer(message)

    async def play(request: web.Request) -> web.WebSocketResponse:
        nonlocal living
        socket = web.WebSocketResponse(max_msg_size=LARGEST)
        await socket.prepare(request)
        if living >= sessions:
            full = _error("CAPACITY_REACHED", f"all {sessions} sessions are in use")
            await socket.send_str(orjson.dumps(full).decode())
            await socket.close()
            return socket
        living += 1
        try:
            episode = ServedEpisode(environment)
            async for message in socket:
                if message.type is not WSMsgType.TEXT:
                    break
                try:
                    asked = orjson.loads(message.data)
                except orjson.JSONDecodeError as error:
                    answer = _error("INVALID_JSON", f"Invalid JSON: {error}")
                else:
                    if isinstance(asked, dict) and asked.get("type") == "close":
                        break
                    answer = await answered(episode, asked)
                await socket.send_str(orjson.dumps(answer).decode())
        finally:
            living -= 1
        return socket

    async def once(request: web.Request) -> web.Response:
        """A message by HTTP, which OpenEnv answers from a world of its own each time."""
        kind = request.path.removeprefix("/")
        try:
            data = await request.json() if request.can_read_body else {}
        except ValueError as error:
            return web.json_response({"detail": str(error)}, status=422)
        message = {"type": kind, "data": data.get("action", {}) if kind == "step" else data}
        answer = await answered(ServedEpisode(environment), message)
        if answer["type"] == "error":
            wrong = answer["data"]["code"] == "VALIDATION_ERROR"
            return web.json_response({"detail": answer["data"]["message"]}, status=422 if wrong else 500)
        return web.json_response(answer["data"])

    async def about(request: web.Request) -> web.Response:
        said: dict[str, dict[str, Any]] = {
            "/health": {"status": "healthy"},
            "/schema": _SCHEMAS,
            "/metadata": {
                "name": environment.name,
                "description": f"{len(environment.tools())} tools, served by RODS",
                "version": environment.hash,
            },
        }
        return web.json_response(said[request.path])

    app = web.Application(client_max_size=LARGEST)
    app.add_routes([web.get("/ws", play), web.post("/reset", once), web.post("/step", once), web.get("/state", once)])
    app.add_routes([web.get(path, about) for path in ("/health", "/schema", "/metadata")])
    return app


@contextlib.asynccontextmanager
async def served(environment: Environment, port: int, sessions: int) -> AsyncIterator[str]:
    """Serves on 127.0.0.1, on a free port for 0; gives the address. Raises OSError where it cannot listen."""
    runner = web.AppRunner(application(environment, sessions), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


Name = Annotated[str, Parameter(help="Any environment, named as tasks name it.")]
Port = Annotated[UInt16, Parameter(help="The port on 127.0.0.1; 0 takes a free one.")]
Sessions = Annotated[PositiveInt, Parameter(help="How many worlds live at once; a further session is refused.")]


def serve_environment(name: Name, /, *, port: Port = 0, sessions: Sessions = 64) -> None:
    """Serve an environment with OpenEnv's protocol until Ctrl-C: a WebSocket, a world (docs/openenv.md).

    Its tools are called by OpenEnv's actions of tools, `reset` takes a task's state as `state`. Prints the address.
    """

    async def serve(environment: Environment) -> None:
        """Answers until a signal comes."""
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()

        def stop(number: int) -> None:
            loop.call_soon_threadsafe(stopped.set)

        on_signal(stop)
        with explained("cannot listen there", f"port {port}", "leave out --port: a free one is taken"):
            async with served(environment, port, sessions) as address:
                print(address, flush=True)
                await stopped.wait()

    with Environments() as environments:
        asyncio.run(serve(environments.load(name)))
