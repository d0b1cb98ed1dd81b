"""An environment of ours as an OpenEnv server (`rods env serve`), a WebSocket a world:
docs/openenv.md says how tools, results, refusals and states are told by OpenEnv's messages."""

import asyncio
import contextlib
import json
import threading
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from aiohttp import WSMsgType, web
from cyclopts import Parameter
from cyclopts.types import PositiveInt, UInt16

from rods.calls import Call
from rods.environments.base import Environment, Instance, Result
from rods.environments.loading import Environments
from rods.errors import InfrastructureError, Unsupported, say
from rods.faults import WRONG_ARGUMENTS
from rods.files import explained
from rods.signals import on_signal
from rods.worlds.openenv.sessions import LARGEST, RefusedStep

_KINDS = {"unknown_tool": "tool_not_found", "hidden_tool": "tool_not_found", "timeout": "timeout"}
_KINDS |= dict.fromkeys(WRONG_ARGUMENTS, "invalid_args")
# of actions, observations, states
_SCHEMAS = json.loads(Path(__file__).with_name("served.json").read_bytes())


class ServedEpisode:
    """One session: a world of `environment`, with answers to OpenEnv's messages. Safe to use from
    threads."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._world: Instance | None = None
        self._id = str(uuid.uuid4())
        self._steps = 0
        self._turn = threading.Lock()

    def ask(self, kind: str, data: Any) -> dict[str, Any]:
        """The data of the answer to a message of OpenEnv (reset, step, state). Raises RefusedStep,
        and nothing else: with the code VALIDATION_ERROR for what is no message, EXECUTION_ERROR for
        whatever the world raises."""
        try:
            with self._turn:
                if kind == "state":
                    return self._state()
                observation = (self._reset if kind == "reset" else self._step)(
                    _mapping(data, "data")
                )
                return {"observation": observation, "reward": None, "done": False}
        except RefusedStep:
            raise
        except Exception as error:
            broke = isinstance(error, InfrastructureError)
            raise RefusedStep(
                "SESSION_ERROR" if broke else "EXECUTION_ERROR", repr(error)
            ) from error

    def _reset(self, data: Mapping[str, Any]) -> dict[str, Any]:
        if data.get("seed") is not None:
            raise RefusedStep(
                "VALIDATION_ERROR", "there is no seed here: a world is what its `state` says"
            )
        try:
            self._world = self.environment.reset(
                data.get("state") and _mapping(data["state"], "a state")
            )
        except ValueError as error:
            raise RefusedStep("VALIDATION_ERROR", f"the state is illegal: {error}") from error
        self._id = data.get("episode_id") or str(uuid.uuid4())
        self._steps = 0
        return {}

    def _step(self, action: Mapping[str, Any]) -> dict[str, Any]:
        kind = action.get("type", "call_tool")
        if kind == "list_tools":
            return self._listed()
        if kind != "call_tool":
            raise RefusedStep(
                "VALIDATION_ERROR", f"an action is a call_tool or list_tools, not {kind!r}"
            )
        name = action.get("tool_name")
        result, wrong = self._called(name, action.get("arguments", {}))
        if wrong:
            return {
                "tool_name": name,
                "result": None,
                "error": {"error_type": wrong, "message": result.text},
            }
        return {"tool_name": name, "result": result.text, "error": None}

    def _listed(self) -> dict[str, Any]:
        keys = {"name": "name", "description": "description", "parameters": "input_schema"}
        documents = [tool.schema() for tool in self.environment.tools().values()]
        return {
            "tools": [{keys[key]: part for key, part in document.items()} for document in documents]
        }

    def _called(self, name: Any, arguments: Any) -> tuple[Result, str]:
        """What a tool answers, and where it refuses, what OpenEnv calls that."""
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise RefusedStep(
                "VALIDATION_ERROR", "a call has the name of a tool, and arguments, an object"
            )
        if self._world is None:
            self._reset({})
        assert self._world is not None
        result = self._world.call(Call(name, arguments))
        self._steps += 1
        if result.error == "infrastructure":
            raise InfrastructureError(result.text)
        return result, _KINDS.get(result.error, "execution_error") if result.error else ""

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"episode_id": self._id, "step_count": self._steps}
        if self._world is not None:
            with contextlib.suppress(Unsupported):
                state["world"] = self._world.snapshot()
                json.dumps(state)  # here, where it is the world's fault if it is none
        return state


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RefusedStep("VALIDATION_ERROR", f"{what} is an object, not {value!r:.100}")
    return value


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        return _mapping(json.loads(text), "a message")
    except (ValueError, RecursionError) as error:
        raise RefusedStep("INVALID_JSON", f"Invalid JSON: {error}") from error


def application(environment: Environment, sessions: int) -> web.Application:
    """The server. It carries out calls in its own thread, those of environments that wait in
    others. `sessions` worlds live at once; a further one is refused as OpenEnv's server does it."""
    living = 0

    async def asked(episode: ServedEpisode, kind: str, data: Any) -> dict[str, Any]:
        if environment.features.waits:
            return await asyncio.to_thread(episode.ask, kind, data)
        return episode.ask(kind, data)

    async def answered(episode: ServedEpisode, text: str) -> dict[str, Any] | None:
        """The answer to one message of a WebSocket; None where it asks to close."""
        try:
            message = _parsed(text)
            kind = message.get("type", "")
            if kind == "close":
                return None
            if kind not in ("reset", "step", "state"):
                raise RefusedStep("UNKNOWN_TYPE", f"Unknown message type: {kind}")
            data = await asked(episode, kind, message.get("data", {}))
            return {"type": "state" if kind == "state" else "observation", "data": data}
        except RefusedStep as error:
            return _error(error)

    async def play(request: web.Request) -> web.WebSocketResponse:
        nonlocal living
        socket = web.WebSocketResponse(max_msg_size=LARGEST)
        await socket.prepare(request)
        if living >= sessions:
            full = RefusedStep("CAPACITY_REACHED", f"all {sessions} sessions are in use")
            await socket.send_json(_error(full))
            await socket.close()
            return socket
        living += 1
        try:
            episode = ServedEpisode(environment)
            async for message in socket:
                if (
                    message.type is not WSMsgType.TEXT
                    or (answer := await answered(episode, message.data)) is None
                ):
                    break
                await socket.send_json(answer)
        finally:
            living -= 1
        return socket

    async def about(request: web.Request) -> web.Response:
        return web.json_response(pages[request.path])

    pages: dict[str, Any] = {
        "/health": {"status": "healthy"},
        "/schema": _SCHEMAS,
        "/metadata": {
            "name": environment.name,
            "version": environment.hash,
            "description": f"{len(environment.tools())} tools, served by RODS",
        },
    }
    app = web.Application(client_max_size=LARGEST)
    app.add_routes([web.get("/ws", play), *(web.get(path, about) for path in pages)])
    return app


def _error(error: RefusedStep) -> dict[str, Any]:
    return {"type": "error", "data": {"message": error.text, "code": error.code}}


@contextlib.asynccontextmanager
async def served(environment: Environment, port: int, sessions: int) -> AsyncIterator[str]:
    """Serves on 127.0.0.1, on a free port for 0; gives the address. Raises OSError where it cannot
    listen."""
    runner = web.AppRunner(
        application(environment, sessions), access_log=None, shutdown_timeout=1.0
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


Name = Annotated[str, Parameter(help="Any environment, named as tasks name it.")]
Port = Annotated[UInt16, Parameter(help="The port on 127.0.0.1; 0 takes a free one.")]
Sessions = Annotated[
    PositiveInt, Parameter(help="How many worlds live at once; a further session is refused.")
]


def serve_environment(name: Name, /, *, port: Port = 0, sessions: Sessions = 64) -> None:
    """Serve an environment with OpenEnv's protocol until Ctrl-C: a WebSocket, a world
    (docs/openenv.md).

    Its tools are called by OpenEnv's actions of tools, `reset` takes a task's state as `state`.
    Prints the address.
    """

    async def serve(environment: Environment) -> None:
        """Answers until a signal comes."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            loop.call_soon_threadsafe(stopped.set)

        on_signal(stop)
        with explained(
            "cannot listen there", f"port {port}", "leave out --port: a free one is taken"
        ):
            async with served(environment, port, sessions) as address:
                say(address)
                await stopped.wait()

    with Environments() as environments:
        asyncio.run(serve(environments.load(name)))
