"""How an environment from outside is reached: one session an episode.

OpenEnv's messages (`reset`, `step`, `state`) go over a WebSocket of their own, or to an object in
this process that is treated as OpenEnv's own server treats it. A TRL environment class has methods
instead. What a step earns is added up.
"""

import asyncio
import contextlib
import inspect
import json
import math
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, get_type_hints

import aiohttp
import docstring_parser
import orjson
from docstring_parser import DocstringStyle
from pydantic import BaseModel, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from rods.analysis.schemas import Checker
from rods.canonical import JsonMapping, JsonObject, canonical, present, without
from rods.environments.base import MOST_ANSWERED, Result
from rods.environments.replay import Lost
from rods.errors import InfrastructureError, RodsError, UserError
from rods.functions import named_function
from rods.llm.connections import MAX_BODY, Key, read_reply
from rods.worlds.openenv.description import OpenEnvDescription
from rods.worlds.pinned import closed, json_value

STEP = "step"  # the one tool of an environment whose actions are no tool calls
# fields of every state that say nothing of the world
_OF_EPISODES = frozenset({"episode_id", "step_count"})
# titles of the actions of tools
_GENERAL = frozenset({"Action", "CallToolAction", "ListToolsAction"})
_ERRORS = {
    "tool_not_found": "unknown_tool",
    "invalid_args": "bad_arguments",
    "execution_error": "tool",
}
# what the environment says of a message; else: machinery
_OUTSIDE = frozenset({"VALIDATION_ERROR", "EXECUTION_ERROR"})


class Full(Lost):
    """The environment takes no further session now."""


class RefusedStep(Exception):
    """What an environment answers to a message that it does not carry out: `code` as OpenEnv has
    it, and a text."""

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        self.text = Key().heard(text, MOST_ANSWERED)
        super().__init__(self.text)


@contextlib.contextmanager
def _read() -> Iterator[None]:
    """What an environment has said is read here: what cannot be is its machinery's failure."""
    try:
        yield
    except (RodsError, RefusedStep):
        raise
    except Exception as error:
        what = f"what the environment says cannot be read: {Key().complaint(repr(error))}"
        raise InfrastructureError(what) from error


def session(described: OpenEnvDescription) -> "StepSession | MethodSession":
    """A new one. Raises Full, InfrastructureError, and UserError where there is nothing of that
    name."""
    if described.kind == "trl":
        return MethodSession(_instance(described))
    return StepSession(Socket(described) if described.url else InProcess(_instance(described)))


def alone(described: OpenEnvDescription) -> bool:
    """Whether objects of the factory may not live beside each other, which OpenEnv's do only where
    they say so."""
    if described.url or described.kind == "trl":
        return False  # a server refuses by itself
    return not getattr(_factory(described), "SUPPORTS_CONCURRENT_SESSIONS", False)


def _factory(described: OpenEnvDescription) -> Any:
    return named_function(described.factory, where=f"factory {described.factory!r}")


def _instance(described: OpenEnvDescription) -> Any:
    try:
        return _factory(described)()
    except TypeError as error:
        raise UserError(
            f"cannot be called without arguments: {error}",
            where=f"factory {described.factory!r}",
            remedy="name a function that makes the object",
        ) from error


class StepSession:
    """An episode in an OpenEnv environment. Where its actions are calls of tools, these are the
    tools; else it has one tool, STEP, whose arguments are the fields of an action."""

    def __init__(self, messages: "Socket | InProcess") -> None:
        self._messages = messages
        self._actions = messages.actions()
        self._calls = self._actions.get("title") in _GENERAL
        self._earned = 0.0
        self._over = False

    def earned(self) -> float:
        """What the episode is worth so far: the sum of its steps' rewards; 0 without any."""
        return self._earned

    @_read()
    def tools(self) -> list[JsonObject]:
        """Records of name, description and inputSchema, by name."""
        if not self._calls:
            schema = without(self._actions, "title", "description")
            schema["properties"] = without(schema.get("properties", {}), "metadata")
            about = " ".join(self._actions.get("description", "").split())
            return [
                {"name": STEP, "description": about or "Takes one action.", "inputSchema": schema}
            ]
        try:
            listed = self._messages.ask("step", {"type": "list_tools"})["observation"].get(
                "tools", []
            )
        except RefusedStep as error:
            raise InfrastructureError(f"it does not list its tools: {error}") from error
        return [
            {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "inputSchema": tool.get("input_schema", tool.get("inputSchema", {})),
            }
            for tool in sorted(listed, key=lambda tool: str(tool["name"]))
        ]

    def begin(self, arguments: JsonMapping) -> str:
        """Resets it. Returns what it shows first. Raises ValueError for arguments that it
        refuses."""
        try:
            return self._shown(self._messages.ask("reset", arguments))
        except RefusedStep as error:
            raise ValueError(f"reset is refused: {error}") from error

    def call(self, name: str, arguments: JsonObject) -> Result:
        action = arguments
        if self._calls:
            action = {"type": "call_tool", "tool_name": name, "arguments": arguments}
        elif name != STEP:
            return Result(f"Error: there is no tool {name!r}", None, "unknown_tool")
        if self._over:
            return Result("Error: the episode is over", None, "hidden_tool")  # not executed
        try:
            answer = self._messages.ask("step", action)
        except RefusedStep as error:
            # what a tool refuses is an observation
            if self._calls and error.code == "EXECUTION_ERROR":
                raise InfrastructureError(f"{name} was not carried out: {error}") from error
            kind = "bad_arguments" if error.code == "VALIDATION_ERROR" else "tool"
            return Result(f"Error: {error}", None, kind)
        text = self._shown(answer)
        observation = answer["observation"]
        if not self._calls:
            return Result(text, observation)
        if wrong := observation.get("error"):
            kind = wrong.get("error_type", "")
            text = str(wrong.get("message", ""))
            if kind not in _ERRORS:
                raise InfrastructureError(
                    f"{name} was not carried out: {Key().complaint(f'{kind}: {text}')}"
                )
            return Result(Key().heard(text, MOST_ANSWERED), None, _ERRORS[kind])
        return _result(observation.get("result"))

    def state(self) -> JsonObject:
        """What can be seen of its state, without what differs from episode to episode."""
        try:
            state = self._messages.ask("state", {})
        except RefusedStep as error:
            raise InfrastructureError(f"it does not show its state: {error}") from error
        return without(state, *_OF_EPISODES)

    def end(self) -> None:
        self._messages.end()

    @_read()
    def _shown(self, answer: JsonMapping) -> str:
        done = answer.get("done")
        reward = answer.get("reward") or 0.0
        if done not in (True, False, None) or not math.isfinite(reward):
            raise ValueError(f"done {done!r}, reward {reward!r}")
        observation = answer.get("observation")
        shown = orjson.dumps(observation).decode() if observation else ""
        self._over = bool(done)
        self._earned += reward
        return shown


def _result(answer: Any) -> Result:
    """What a tool has answered: texts as they are, all else as JSON; of an answer of MCP, its data
    or its texts."""
    if isinstance(answer, Mapping) and "content" in answer and "structured_content" in answer:
        if answer.get("is_error"):
            return Result(_texts(answer["content"]), None, "tool")
        answer = _texts(answer["content"]) if answer.get("data") is None else answer["data"]
    if isinstance(answer, str):
        return Result(answer, json_value(answer))
    return Result(orjson.dumps(answer).decode(), answer)


class Socket:
    """OpenEnv's messages over a WebSocket. `actions` is the JSON Schema of an action, `ask` the
    answer to a message: it raises RefusedStep, Full, InfrastructureError."""

    def __init__(self, described: OpenEnvDescription) -> None:
        self._url = described.url.rstrip("/")
        self._seconds = described.seconds
        self._client: aiohttp.ClientSession
        self._socket: aiohttp.ClientWebSocketResponse
        self._owner = os.getpid()
        self._ended = False
        self._run(self._connect())

    @_read()
    def actions(self) -> JsonObject:
        schema: JsonObject = self._run(self._get("/schema"))["action"]
        return dict(schema)

    @_read()
    def ask(self, kind: str, data: JsonMapping) -> JsonObject:
        message = {"type": kind} if kind == "state" else {"type": kind, "data": dict(data)}
        answer = self._run(self._exchange(json.dumps(message)))
        content: JsonObject = answer.get("data") or {}
        if answer.get("type") != "error":
            return content
        code = str(content.get("code"))
        text = str(content.get("message"))
        if code in _OUTSIDE:
            details = content.get("errors")
            raise RefusedStep(code, _faults(details) if details else text)
        self.end()
        if code == "CAPACITY_REACHED":
            raise Full(f"{self._url} takes no further session: {Key().complaint(text)}")
        raise InfrastructureError(f"{self._url}: {Key().complaint(f'{code}: {text}')}")

    def end(self) -> None:
        if not self._ended and self._owner == os.getpid():
            self._ended = True
            asyncio.run_coroutine_threadsafe(self._close(), _loop(self._owner))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        limited = asyncio.wait_for(work, self._seconds)
        try:
            return asyncio.run_coroutine_threadsafe(limited, _loop(os.getpid())).result()
        except TimeoutError:
            self.end()
            raise InfrastructureError(
                f"{self._url} gave no answer within {self._seconds:g} s"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self.end()
            raise InfrastructureError(
                f"{self._url} cannot be asked: {Key().complaint(repr(error))}"
            ) from error

    async def _connect(self) -> None:
        self._client = aiohttp.ClientSession()
        self._socket = await self._client.ws_connect(f"{self._url}/ws", max_msg_size=MAX_BODY)

    async def _get(self, path: str) -> Any:
        async with self._client.get(f"{self._url}{path}", raise_for_status=True) as response:
            return orjson.loads(await read_reply(response))

    async def _exchange(self, message: str) -> Any:
        with contextlib.suppress(ConnectionResetError):  # what it has said last says why
            await self._socket.send_str(message)
        answer = await self._socket.receive()
        if answer.type is not aiohttp.WSMsgType.TEXT:
            raise ConnectionError(f"the connection ended ({answer.type.name})")
        return json.loads(answer.data)

    async def _close(self) -> None:
        if hasattr(self, "_socket"):
            await self._socket.close()
        await self._client.close()


_loops: dict[int, asyncio.AbstractEventLoop] = {}
_making = threading.Lock()


def _loop(pid: int) -> asyncio.AbstractEventLoop:
    """The loop, in a thread of its own, in which process `pid` waits for answers."""
    with _making:
        if pid not in _loops:
            _loops[pid] = asyncio.new_event_loop()
            threading.Thread(target=_loops[pid].run_forever, name="openenv", daemon=True).start()
        return _loops[pid]


class InProcess:
    """OpenEnv's messages as `Socket` has them, to an object with `reset`, `step` and `state` in
    this process."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._ended = False
        self._action = _action_class(environment)
        self.actions = self._action.model_json_schema

    def ask(self, kind: str, data: JsonMapping) -> JsonObject:
        try:
            if kind == "reset":
                return _observed(self._environment.reset(**data))
            if kind == "state":
                state = self._environment.state
                return dict(
                    state.model_dump(mode="json") if isinstance(state, BaseModel) else state
                )
            if self._action.__name__ in _GENERAL:
                from openenv.core.env_server.serialization import deserialize_action

                action = deserialize_action(dict(data), self._action)
            else:
                action = self._action.model_validate(dict(data))
            return _observed(self._environment.step(action))
        except ValidationError as error:
            raise RefusedStep("VALIDATION_ERROR", _faults(error.errors())) from error
        except Exception as error:
            raise RefusedStep("EXECUTION_ERROR", str(error)) from error

    def end(self) -> None:
        close: Callable[[], None] | None = getattr(self._environment, "close", None)
        if close is not None and not self._ended:
            self._ended = True
            close()


def _action_class(environment: Any) -> type[BaseModel]:
    """What `step` is annotated to take."""
    try:
        hints = get_type_hints(environment.step)
        taken = hints[next(iter(inspect.signature(environment.step).parameters))]
        if inspect.isclass(taken) and issubclass(taken, BaseModel):
            return taken
    except (NameError, AttributeError, KeyError, StopIteration, TypeError):
        pass
    raise UserError(
        "does not say what its step takes",
        where=type(environment).__name__,
        remedy="annotate it, `def step(self, action: MyAction)`, or serve the environment and "
        "give --url",
    )


def _observed(observation: BaseModel) -> JsonObject:
    """An observation as OpenEnv sends it."""
    fields = observation.model_dump(mode="json", exclude={"reward", "done", "metadata"})
    return {
        "observation": fields,
        "reward": getattr(observation, "reward", None),
        "done": getattr(observation, "done", False),
    }


def _faults(errors: Any) -> str:
    return "; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in errors[:3])


class MethodSession:
    """An episode in an object of a TRL environment class: its public methods, but for `reset` and
    `get_reward`, are tools, as for `GRPOTrainer(environment_factory=…)`. Answers have the texts
    that TRL shows."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        kind = type(environment)
        functions = dict(inspect.getmembers(kind, predicate=inspect.isfunction))
        if "reset" not in functions:
            raise UserError("has no method reset", where=kind.__name__, remedy="TRL asks for one")
        own = {"reset", "get_reward"}
        self._methods = {
            name: method for name, method in functions.items() if name not in own and name[0] != "_"
        }
        self._checkers: dict[str, Checker] = {}
        self._scored = "get_reward" in functions

    def earned(self) -> float:
        return float(_waited(self._environment.get_reward())) if self._scored else 0.0

    def tools(self) -> list[JsonObject]:
        return [_record(name, function) for name, function in sorted(self._methods.items())]

    def begin(self, arguments: JsonMapping) -> str:
        try:
            first = _waited(self._environment.reset(**arguments))
        except Exception as error:
            raise ValueError(
                f"reset is refused: {Key().heard(str(error), MOST_ANSWERED)}"
            ) from error
        return "" if first is None else _texts(first)

    def call(self, name: str, arguments: JsonObject) -> Result:
        function = self._methods.get(name)
        if function is None:
            return _failed(f"Tool {name} not found.", "unknown_tool")
        if name not in self._checkers:
            self._checkers[name] = Checker(closed(_record(name, function)["inputSchema"]))
        if what := self._checkers[name].fault(arguments):
            return _failed(what, "bad_arguments")
        try:
            value = _waited(function(self._environment, **arguments))
        except Exception as error:  # noqa: BLE001
            # as TRL: whatever a tool raises is what the policy is told
            return _failed(str(error), "tool")
        try:
            return Result(_texts(value), json_value(canonical(value)))
        except ValueError:
            return Result(_texts(value), None)

    def state(self) -> JsonObject:
        attributes = {}
        for name, value in vars(self._environment).items():
            if not name.startswith("_"):
                with contextlib.suppress(ValueError):  # no JSON: cannot be compared
                    attributes[name] = orjson.loads(canonical(value))
        return attributes

    def end(self) -> None:  # TRL has no word for it
        pass


def _waited(value: Any) -> Any:
    """The value of an asynchronous method too."""
    if not inspect.iscoroutine(value):
        return value
    return asyncio.run_coroutine_threadsafe(value, _loop(os.getpid())).result()


def _failed(text: str, kind: str) -> Result:
    return Result(str({"error": Key().heard(text, MOST_ANSWERED)}), None, kind)


def _texts(value: Any) -> str:
    """As TRL shows it: blocks of content one by one, all else by `str`."""
    if isinstance(value, list) and all(
        isinstance(block, Mapping) and "type" in block for block in value
    ):
        return "\n".join(str(block.get("text", f"[{block['type']}]")) for block in value)
    return str(value)


def _record(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """A method as a tool: its annotations, and its docstring in Google's style, which TRL asks
    for."""
    about = docstring_parser.parse(inspect.getdoc(function) or name, DocstringStyle.GOOGLE)
    described = {
        parameter.arg_name: " ".join((parameter.description or "").split())
        for parameter in about.params
    }
    hints = get_type_hints(function, include_extras=True)
    properties: JsonObject = {}
    required = []
    for arg in list(inspect.signature(function).parameters.values())[1:]:
        try:
            properties[arg.name] = TypeAdapter(hints[arg.name]).json_schema() | present(
                description=described.get(arg.name)
            )
        except (KeyError, PydanticSchemaGenerationError):
            raise UserError(
                f"{arg.name!r} has no type with a JSON form",
                where=f"tool {name}",
                remedy=f"write for instance `{arg.name}: int`",
            ) from None
        if arg.default is inspect.Parameter.empty:
            required.append(arg.name)
        elif arg.default is not None:
            properties[arg.name]["default"] = arg.default
    return {
        "name": name,
        "description": " ".join((about.description or "").split()),
        "inputSchema": {"type": "object", "properties": properties, "required": required},
    }
