"""Connections to MCP servers, each with a process and a folder of its own where the server is
started here.

The SDK is asynchronous. A session has an event loop of its own, which runs in the thread of whoever
calls, and only then: handing each call to another thread would cost a third of the calls a second.
A few threads start and end sessions.

A session ends with its world, which may be garbage of a cycle: then its finalizer runs in whatever
thread the collector interrupts, also in one that holds the executor's lock. So `Session.end` only
puts it on a queue, which takes no lock, and a thread that does nothing else hands it on.
"""

import asyncio
import atexit
import logging
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import weakref
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from rods.canonical import JsonObject
from rods.deadlines import SERVER_START, STOPPED
from rods.errors import InfrastructureError, UserError
from rods.files import DOCUMENT, read_regular
from rods.llm.connections import Key, handed_on
from rods.logs import log
from rods.signals import Interrupted
from rods.worlds.mcp.description import Description
from rods.worlds.pinned import Room

try:
    from mcp import Client, MCPError as Refusal, StdioServerParameters, stdio_client
    from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT, CallToolResult as Answer, ElicitResult
except ImportError:
    what = "environments that are MCP servers need the package 'mcp'"
    raise UserError(what, remedy="pip install '.[mcp]' in the clone") from None

# what freezes clock and chance in processes of Python and Node
_FROZEN = Path(__file__).parent / "frozen"
# a server leads a group of processes, whose number is in the file $0
_STARTED = 'echo $$ >"$0" && exec "$@"'
# reads until whoever writes has gone; $0 is the folder of all sessions
_AFTERWARDS = """
read -r _
for pid in "$0"/*/pid; do kill -9 "-$(cat "$pid")"; done 2>/dev/null
rm -rf -- "$0"
"""
# where runners of packages (npx, uvx) keep what they have fetched, in the home of who starts them
_CACHES = {
    "npm_config_cache": ".npm",
    "UV_CACHE_DIR": ".cache/uv",
    "UV_PYTHON_INSTALL_DIR": ".local/share/uv/python",
}
PREFIX = "rods-mcp-"  # of the folder in which all sessions of a process have theirs
_THREADS = 8  # that start and end sessions
_SAID = 500  # characters of a server's complaint, of its beginning and of its end
# what a server that was written for an older SDK than the one beside it looks for there
_OLDER = re.compile(
    r"No module named 'mcp\.|cannot import name .* from 'mcp[.']"
    r"|'(Server|FastMCP)' object has no attribute"
)
_CLOSED = "Connection closed"  # what the SDK says in the place of a server that has gone
# how the SDK begins what it says in the place of a server behind an address that sent no answer
_LOST = (
    "SSE stream ",
    "Server returned an error response",
    "Session terminated",
    "Unexpected content type: ",
    "Failed to parse ",
)
__all__ = ["PREFIX", "Answer", "Refusal", "Session", "end_all"]
# what it would say of each such line, with a traceback
logging.getLogger("mcp.client.stdio").disabled = True
_strayed: set[str] = set()  # servers of which somebody was told that they do so
_open: "weakref.WeakSet[Session]" = weakref.WeakSet()


class Session:
    """One connection. It is begun at once; `wait` returns when it stands. Safe to use from any
    thread. Raises UserError where a secret of the server is not in our environment."""

    def __init__(self, server: Description) -> None:
        self.server = server
        self._secrets = {name: handed_on(name) for name in server.secrets}
        self.tools: list[JsonObject] = []  # as the server lists them
        self.about: dict[str, str] = {}  # what it says of itself
        self._owner = os.getpid()
        self._client: Client
        self._lock = threading.Lock()  # held by the thread that runs the loop
        self._loop = asyncio.new_event_loop()
        # of tasks that nobody waits for any more
        self._loop.set_exception_handler(lambda loop, context: None)
        self._ended = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self._leaving = False
        self._gone = threading.Event()
        self._leavers = _leavers(self._owner)
        with self._lock:
            # RuntimeError where the program ends: no folder yet
            self._stands = _threads(self._owner).submit(
                lambda: self._run(self._begin(), 2 * SERVER_START)
            )
            self.place = Path(tempfile.mkdtemp(dir=_guarded(self._owner)[0]))
            self.folder = self.place / "world"
            self.home = self.place / "home"
            self.home.mkdir()
            if server.files:
                shutil.copytree(server.files, self.folder)
            else:
                self.folder.mkdir()
        _open.add(self)

    def wait(self, seconds: float = SERVER_START) -> "Session":
        """Raises InfrastructureError where the server does not start."""
        try:
            self._stands.result(seconds)
        except TimeoutError:
            self.end()
            raise InfrastructureError(
                f"{self._told()} did not start within {seconds:g} s{self._complaint()}"
            ) from None
        return self

    def call(self, tool: str, arguments: JsonObject) -> Answer | Refusal:
        """The server's answer, or its refusal. Raises InfrastructureError where none came; the
        session is over then."""
        seconds = self.server.seconds
        began = time.monotonic()
        try:
            return self._run(self._client.call_tool(tool, arguments, seconds), 2 * seconds)
        except Refusal as error:
            if self._has_said(error, time.monotonic() - began):
                return error
            self.end()
            what = f"gave no answer to {tool}: {Key().complaint(error.message)}"
            raise InfrastructureError(f"{self._told()} {what}") from None
        except Exception as error:
            self.end()
            raise InfrastructureError(
                f"{self._told()} broke over {tool}: {Key().complaint(repr(error))}"
            ) from error

    def _has_said(self, error: Refusal, waited: float) -> bool:
        """Whether the server itself has refused a call so, after so many seconds. The SDK tells a
        lost answer by codes that servers use for errors of their own."""
        if self.server.url and error.message.startswith(_LOST):
            return False
        if error.code == REQUEST_TIMEOUT:
            return waited < self.server.seconds
        if error.code == CONNECTION_CLOSED:
            try:  # of one that is lost there is no further answer
                self._run(self._client.session.list_tools(), self.server.seconds)
            except Refusal as again:  # one that counts its calls refuses this one as well
                return not self.server.url and again.message == error.message != _CLOSED
            except Exception:  # noqa: BLE001 however it is lost
                return False
        return True

    def end(self) -> None:
        """Ends the server soon, without waiting for it. Takes no lock."""
        if self._owner == os.getpid() and not self._leaving:
            self._leaving = True
            self._leavers.put(self)

    def join(self, seconds: float) -> None:
        """Waits until an ended session has gone."""
        if self._leaving:
            self._gone.wait(seconds)

    def _run(self, work: Coroutine[Any, Any, Any], seconds: float) -> Any:
        if asyncio._get_running_loop() is not None:  # no thread runs two
            return _threads(self._owner).submit(self._run, work, seconds).result()
        before = Interrupted.latest
        with self._lock:
            try:
                return self._loop.run_until_complete(asyncio.wait_for(work, seconds))
            finally:
                # asyncio may have given it to another
                if (stopped := Interrupted.latest) and stopped is not before:
                    self.end()
                    raise stopped

    async def _begin(self) -> None:
        standing = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(standing))
        try:
            await asyncio.wait_for(standing, SERVER_START)
        except TimeoutError:  # or whoever ends it would wait for its lock for ever
            self._life.cancel()
            await asyncio.wait({self._life})
            raise

    def close(self) -> None:
        """Ends the server and waits for it. Once, by whoever takes it from the queue."""
        with self._lock:
            self._ended.set()
            try:
                if self._life is not None and not self._life.done():
                    self._loop.run_until_complete(self._life)
            except Exception as error:  # noqa: BLE001
                # it is over, and whatever it broke over was told
                log.debug("an MCP server did not end well", error=repr(error))
            finally:
                self._loop.close()
                shutil.rmtree(self.place, ignore_errors=True)
                self._gone.set()

    async def _live(self, standing: asyncio.Future[None]) -> None:
        """The connection's whole life, in one task: the SDK asks for that."""
        try:
            with (self.place / "errors").open("w") as errors:
                target = self.server.url or stdio_client(self._parameters(), errors)
                async with Client(
                    target,
                    cache=None,
                    message_handler=self._beside,
                    elicitation_callback=None if self.server.answers is None else self._answer,
                ) as client:
                    await self._introduced(client)
                    # jsonschema refuses right prices, and servers forget what they have announced
                    client.session.validate_tool_result = _as_it_is
                    self._client = client
                    standing.set_result(None)
                    await self._ended.wait()
        except Exception as error:
            if standing.done():
                raise
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            standing.set_exception(
                InfrastructureError(
                    f"{self._told()} does not start: "
                    f"{Key().complaint(repr(error))}{self._complaint()}"
                )
            )

    async def _beside(self, message: Any) -> None:
        """Takes what is no answer, and tells of the first line of a server that is no message."""
        if isinstance(message, Exception) and self.server.started not in _strayed:
            _strayed.add(self.server.started)
            log.warning(
                "an MCP server writes lines that are no messages",
                server=self.server.started,
                what=Key().complaint(str(message)),
            )

    async def _answer(self, context: Any, asked: Any) -> ElicitResult:
        """What the user of a server is to say."""
        answers = self.server.answers
        if isinstance(answers, dict):
            return ElicitResult(action="accept", content=answers)
        return ElicitResult(action="decline")

    async def _introduced(self, client: Client) -> None:
        tools: list[Any] = []
        room = Room(DOCUMENT)
        cursor = None
        while True:
            listed = await client.list_tools(cursor=cursor)
            if not room.take(len(listed.model_dump_json())):
                raise ValueError(f"it lists more than {DOCUMENT >> 20} MB of tools")
            tools += listed.tools
            if not (cursor := listed.next_cursor):
                break
        listings = Counter(tool.name for tool in tools)
        if twice := [name for name, times in listings.items() if times > 1]:
            raise ValueError(f"it lists two tools called {twice[0]!r}")
        fields = {"name", "description", "input_schema", "output_schema", "annotations"}
        self.tools = [
            tool.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)
            for tool in sorted(tools, key=lambda tool: tool.name)
        ]
        named = {name: getattr(client.server_info, name, "") for name in ("name", "version")}
        self.about = {**named, "protocol": str(client.protocol_version)}

    def _parameters(self) -> StdioServerParameters:
        folder = str(self.folder)
        command = [part.replace("{folder}", folder) for part in self.server.command]
        variables = {"HOME": str(self.home), "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"}
        variables["TMPDIR"] = str(self.home)  # or names that are taken in one world are so in all
        variables |= {name: str(Path.home() / place) for name, place in _CACHES.items()}
        variables |= {
            key: value.replace("{folder}", folder) for key, value in self.server.env.items()
        }
        variables |= self._secrets
        if self.server.frozen:
            variables["RODS_FROZEN"] = repr(datetime.fromisoformat(self.server.frozen).timestamp())
            variables["PYTHONPATH"] = os.pathsep.join(
                filter(None, [str(_FROZEN), variables.get("PYTHONPATH")])
            )
            variables["NODE_OPTIONS"] = (
                f"--require={_FROZEN / 'frozen.js'} {variables.get('NODE_OPTIONS', '')}".strip()
            )
        return StdioServerParameters(
            command="sh",
            args=["-c", _STARTED, str(self.place / "pid"), *command],
            env=variables,
            cwd=folder,
            encoding_error_handler="replace",
        )

    def _told(self) -> str:
        return f"the MCP server {self.server.url or ' '.join(self.server.command)!r}"

    def _complaint(self) -> str:
        try:
            errors = Key().heard(read_regular(self.place / "errors"), DOCUMENT).strip()
        except (OSError, UserError):
            return ""
        hint = " → try it beside an older SDK: pip install 'mcp<2'" if _OLDER.search(errors) else ""
        if len(errors) > 2 * _SAID:
            errors = f"{errors[:_SAID]} … {errors[-_SAID:]}"
        return f": {errors}{hint}" if errors else ""


async def _as_it_is(name: str, result: Any) -> None:
    """Holds nothing against what a tool gives."""


@cache
def _guarded(pid: int) -> tuple[Path, subprocess.Popen[bytes]]:
    """The folder of the sessions of process `pid`, and who ends their servers and removes it when
    that process has gone, however it went."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    guard = ["sh", "-c", _AFTERWARDS, str(folder)]
    return folder, subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)


@cache
def _threads(pid: int) -> ThreadPoolExecutor:
    atexit.register(end_all, pid)
    return ThreadPoolExecutor(_THREADS, f"mcp-of-{pid}")


@cache
def _leavers(pid: int) -> SimpleQueue[Session]:
    leaving: SimpleQueue[Session] = SimpleQueue()
    threading.Thread(
        target=_end_each, args=(leaving, _threads(pid)), name=f"mcp-ends-of-{pid}", daemon=True
    ).start()
    return leaving


def _end_each(leaving: SimpleQueue[Session], threads: ThreadPoolExecutor) -> None:
    while True:
        session = leaving.get()
        try:
            threads.submit(session.close)
        except RuntimeError:  # the program ends, and its threads have
            session.close()


def end_all(pid: int | None = None) -> None:
    """Ends every session of this process (where it is `pid`) and waits: nobody's server
    stays behind."""
    if pid not in (None, os.getpid()):
        return
    sessions = list(_open)
    until = time.monotonic() + STOPPED
    for session in sessions:
        if time.monotonic() < until:
            session.end()
    for session in sessions:
        session.join(max(0.0, until - time.monotonic()))
