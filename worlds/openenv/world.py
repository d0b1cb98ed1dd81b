"""The environment over OpenEnv's sessions. Of its worlds only calls can be asked (`OnlyCalled`);
docs/openenv.md says what their state is, and how a world makes room for another where no more may
live at once."""

import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id
from rods.environments.base import Parameter, Result, Tool, Tools
from rods.environments.replay import Lost, Replayed
from rods.errors import InfrastructureError, UserError
from rods.worlds.openenv.description import ENDING, OpenEnvDescription
from rods.worlds.openenv.sessions import Full, MethodSession, StepSession, alone, session
from rods.worlds.pinned import OnlyCalled

RESET = "reset"  # the key of a state
# seconds since the last call of a world in another thread before it makes room: it may be between
# two
IDLE = 0.05
_PAUSE = 0.02  # seconds between two tries to get a session
_TRIES = 10  # before another world makes room
REWARDED = Tool(
    "rewarded",
    "checks",
    "Whether the environment has given rewards of so much in all, or says that the episode is "
    "worth so much.",
    (Parameter("at_least", {"type": "number"}, "The least."),),
    bounded=True,
    result={"type": "boolean"},
    reads=True,
)


def described(name: str) -> Replayed:
    """The environment whose description is the file `name`; nothing is reached yet. Raises
    UserError."""
    description = OpenEnvDescription.read(name)
    return description.replayed(OpenEnvironment(name, description))


def added(
    path: Path, kind: str, fields: JsonMapping, own: JsonMapping
) -> tuple[OpenEnvDescription, str]:
    """The description of an environment for the file `path`, with its tools, and what to tell of a
    reset of it. `fields` are those of every description; of `own` only `command` is for it, the
    name of a class. Raises UserError."""
    for name in ("files", "env"):
        if own[name]:
            raise UserError("is for MCP servers", where=f"--{name}", remedy="leave it out")
    wanted = {**fields, "kind": kind, "factory": " ".join(own["command"])}
    description, first = introduced(OpenEnvDescription.of(str(path), wanted))
    told = f"a reset shows what no policy is shown; say it in the task's words: {first[:300]}"
    return description, told if first else ""


def introduced(description: OpenEnvDescription) -> tuple[OpenEnvDescription, str]:
    """`description` with the tools of the environment, and where nothing says what is compared,
    everything that it shows of its state; and what it shows first. Raises UserError,
    InfrastructureError."""
    opened = session(description)
    try:
        tools = opened.tools()
        try:
            first = opened.begin(description.reset)
        except ValueError as error:
            raise InfrastructureError(str(error)) from error
        compared = description.compared or sorted(opened.state())
    finally:
        opened.end()
    return description.model_copy(update={"tools": tools, "compared": compared}), first


class OpenEnvironment:
    """The environment called `name`, before it is made one that can be copied. Reaches nothing
    until it is needed."""

    def __init__(self, name: str, described: OpenEnvDescription) -> None:
        self.name = name
        self.described = described
        self.hash = described.hash()
        self.features = described.features(waits=bool(described.url))
        self._tools = described.offered(PurePosixPath(name.removesuffix(ENDING)).name)
        self._checks = {} if REWARDED.name in self._tools else {REWARDED.name: REWARDED}
        self._alone: bool | None = None  # not known before it is needed
        # the one called last is the last
        self._worlds = weakref.WeakValueDictionary[int, OpenEnvWorld]()
        self._order = threading.Lock()  # held for a moment
        self._opening = threading.Lock()  # held while a session is got
        self._held = False  # the tools were seen to be the pinned ones

    def parameters(self) -> JsonMapping:
        """What a run's record says of it: kind, address or factory, and the hash of its pinned
        tools."""
        described = self.described
        reached = {"url": described.url} if described.url else {"factory": described.factory}
        return {"kind": described.kind, **reached, "tools": content_id(described.tools)}

    def tools(self) -> Tools:
        return self._tools

    def checks(self) -> Tools:
        return self._checks

    def reset(self, state: JsonMapping | None) -> "OpenEnvWorld":
        """Raises ValueError for an illegal state, UserError where other tools are listed than those
        pinned, InfrastructureError."""
        parts = dict(state or {})
        arguments = parts.pop(RESET, {})
        if parts:
            other = next(iter(parts))
            raise ValueError(
                f"the state of an OpenEnv environment has {RESET!r} and 'calls', not {other!r}"
            )
        if not isinstance(arguments, Mapping):
            raise ValueError(f"{RESET!r} of a state maps names of arguments to values")
        with self._opening:
            if self._alone is None:
                self._alone = alone(self.described)
            world = OpenEnvWorld(self, self._begun({**self.described.reset, **arguments}))
        self.called(world)
        return world

    def called(self, world: "OpenEnvWorld") -> None:
        """Notes that `world` is the one called last."""
        with self._order:
            self._worlds.pop(id(world), None)
            self._worlds[id(world)] = world

    def close(self) -> None:
        for world in self._living():
            world.leave(wait=True)

    def _begun(self, arguments: JsonMapping) -> StepSession | MethodSession:
        until = time.monotonic() + self.described.seconds
        number = -1
        while True:
            number += 1
            try:
                if self._alone and self._living():
                    raise Full("another object of its class lives")
                opened = session(self.described)
                try:
                    if not self._held:
                        self.described.hold(self.name, opened.tools())
                        self._held = True
                    opened.begin(arguments)
                except BaseException:
                    opened.end()
                    raise
                return opened
            except Full as full:
                if time.monotonic() > until:
                    raise InfrastructureError(
                        f"{self.name}: {full}; nobody here has made room"
                    ) from full
                # a server takes a moment to see that one has left
                one_more = self._alone or number % _TRIES == 0
                if not (
                    one_more and any(world.leave() for world in self._living()) and self._alone
                ):
                    time.sleep(_PAUSE)

    def _living(self) -> "list[OpenEnvWorld]":
        """Worlds that have a session, the one called longest ago first."""
        with self._order:
            return [world for world in self._worlds.values() if world.lives]


class OpenEnvWorld(OnlyCalled):
    """One session. Ends with the object."""

    def __init__(self, environment: OpenEnvironment, opened: StepSession | MethodSession) -> None:
        self._environment = environment
        self._session = opened
        self.lives = True
        self._lock = threading.Lock()
        self._last = (threading.get_ident(), time.monotonic())  # who called it, and when
        weakref.finalize(self, opened.end).atexit = False

    def call(self, call: Call) -> Result:
        """Raises InfrastructureError where no answer comes, Lost where it has made room."""
        with self._lock:
            self._used()
            if call.name in self._environment.checks():
                return self._checked(call)
            if call.name in self._environment.described.without:
                return Result(f"Error: there is no tool {call.name!r}", None, "unknown_tool")
            try:
                return self._session.call(call.name, dict(call.arguments))
            finally:
                self._last = threading.get_ident(), time.monotonic()

    def look(self) -> JsonObject:
        """What is compared of its state."""
        with self._lock:
            self._used()
            state = self._session.state()
        return {key: state.get(key) for key in self._environment.described.compared}

    def leave(self, wait: bool = False) -> bool:
        """Ends the session, unless it is in use. Whether it has ended."""
        if not self._lock.acquire(blocking=wait):
            return False
        try:
            thread, at = self._last
            if not wait and thread != threading.get_ident() and time.monotonic() < at + IDLE:
                return False
            self.lives = False
            self._session.end()
            return True
        finally:
            self._lock.release()

    def _used(self) -> None:
        if not self.lives:
            raise Lost(f"a world of {self._environment.name} has made room for another")
        self._environment.called(self)

    def _checked(self, call: Call) -> Result:
        least = call.arguments.get("at_least")
        if (
            set(call.arguments) != {"at_least"}
            or isinstance(least, bool)
            or not isinstance(least, (int, float))
        ):
            return Result("rewarded takes a number, at_least", None, "bad_arguments")
        holds = self._session.earned() >= least
        return Result("true" if holds else "false", holds)
