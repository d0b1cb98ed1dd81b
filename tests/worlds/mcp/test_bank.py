"""State in files that are no text, and errors of a server's own, over a server in processes of its
own (bank.py) and one behind an address that loses answers."""

from __future__ import annotations

import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods import dialects
from rods.calls import Call
from rods.environments.base import Environment, reference
from rods.environments.loading import Environments
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import Reply
from rods.episode.goals import goal_of
from rods.errors import InfrastructureError
from rods.tasks import Task
from tests.worlds.mcp.test_mcp import add

pytestmark = [
    pytest.mark.slow,  # a server starts in a second, and most need two
    pytest.mark.needs("mcp"),
    pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed"),
]
BANK = (sys.executable, "-m", "tests.worlds.mcp.bank")
PICTURE = bytes(range(256))


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    name = tmp_path_factory.mktemp("bank") / "bank.json"
    assert add(name, "--compared", "*", "--reads", "size", command=BANK) == 0
    fields = orjson.loads(name.read_bytes()) | {"seconds": 3.0, "probes": []}
    name.write_bytes(orjson.dumps(fields))
    with Environments() as environments:
        yield environments.load(str(name))


def pay(*amounts: int) -> list[Call]:
    return [Call("pay_in", {"amount": amount}) for amount in amounts]


def save(cell: int, year: int) -> list[Call]:
    return [Call("save_sheet", {"cell": cell, "year": year})]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (pay(200), pay(201), False),
        (pay(200, 7), pay(7, 200), True),
        (pay(200), pay(200, 200), False),
        (save(1, 2020), save(1, 2021), True),
        (save(1, 2020), save(2, 2020), False),
    ],
)
def test_worlds_are_equal_by_what_their_files_hold(
    bank: Environment, one: list[Call], other: list[Call], equal: bool
) -> None:
    first = bank.reset(None)
    second = bank.reset(None)
    for world, calls in ((first, one), (second, other)):
        for call in calls:
            assert world.call(call).error is None
    assert first.same_state(second) == equal


def test_a_state_may_have_files_that_are_no_text(bank: Environment) -> None:
    state = {"files": {"a/b.png": {"base64": b64encode(PICTURE).decode()}, "c.txt": "é"}}
    world = bank.reset(state)
    assert world.call(Call("size", {"path": "a/b.png"})).text == PICTURE.hex()
    assert world.call(Call("size", {"path": "/world/c.txt"})).text == "é".encode().hex()


@pytest.mark.parametrize("text", ["/world/c.txt", "list '/world', then /world/a"])
def test_a_text_is_written_as_it_is_so_that_edits_and_searches_meet_what_was_said(
    bank: Environment, text: str
) -> None:
    world = bank.reset(None)
    note = {"path": "/world/c.txt"}
    assert world.call(Call("write", {**note, "content": text})).error is None
    assert world.call(Call("size", note)).text == text.encode().hex()
    edits = [{"oldText": "/world", "newText": "~"}]
    assert world.call(Call("edit", {**note, "edits": edits})).error is None
    edited = text.replace("/world", "~").encode()
    assert world.call(Call("size", note)).text == edited.hex()


def test_a_path_in_a_command_is_one_of_the_folder(bank: Environment) -> None:
    world = bank.reset(None)
    query = "ATTACH '/world/more.db' AS more; CREATE TABLE more.paid (amount INTEGER)"
    assert world.call(Call("ask", {"query": query})).error is None
    assert world.call(Call("size", {"path": "more.db"})).error is None


@pytest.mark.parametrize(
    "held", [{"base64": "no base64!"}, {"base64": 5}, {"base64": "", "x": ""}, {"hex": "00"}, 5]
)
def test_what_is_neither_text_nor_base64_is_refused(bank: Environment, held: Any) -> None:
    with pytest.raises(ValueError, match=r"'a.png' of a state|of a state maps"):
        bank.reset({"files": {"a.png": held}})


@pytest.mark.parametrize("code", [-32000, -32001, -32603, 7])
def test_a_refusal_is_the_policys_to_read_whatever_its_code(bank: Environment, code: int) -> None:
    world = bank.reset(None)
    world.call(*pay(200))
    for why in ("Rate limit exceeded", "Connection closed", "SSE stream ended"):
        result = world.call(Call("refuse", {"code": code, "why": why}))
        assert (result.text, result.error) == (f"Error: {why}", "tool")
    twin = bank.reset(None)
    twin.call(*pay(200))
    assert world.same_state(twin), "it is the same world still"


def test_an_episode_goes_on_behind_a_refusal(bank: Environment) -> None:
    task = Task(reference(bank), "base", ("Pay.",), (tuple(pay(5)),), ("pay_in", "refuse"))
    hermes = dialects.load("hermes")
    said = iter([[Call("refuse", {"code": -32000, "why": "Slow down"})], pay(5), []])

    def complete(waiting: Any) -> list[Reply]:
        calls = next(said)
        return [Reply(hermes.write(calls) if calls else "Done.")]

    job = Job(task, bank, hermes, goal_of(bank, task))
    (trace,) = run_lockstep([job], complete)
    assert trace.end == "finished" and trace.resolved == 1


@pytest.mark.parametrize("call", [Call("die"), Call("wait", {"seconds": 30.0})])
def test_what_a_server_never_answered_is_the_machinerys_failure(
    bank: Environment, call: Call
) -> None:
    with pytest.raises(InfrastructureError, match=r"gave no answer|broke over"):
        bank.reset(None).call(call)


TOOL = {
    "name": "go",
    "description": "Goes.",
    "inputSchema": {
        "type": "object",
        "properties": {"how": {"type": "string"}},
        "required": ["how"],
    },
}


@contextmanager
def behind_an_address() -> Iterator[str]:
    """An MCP server over HTTP that answers a call as its argument says: by a refusal of its own, or
    by what a proxy, or a connection that breaks, makes of an answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(405, "text/plain", b"")

        def do_DELETE(self) -> None:
            self._send(200, "text/plain", b"")

        def do_POST(self) -> None:
            asked = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "id" not in asked:
                self._send(202, "application/json", b"")
                return
            result: Any = None
            error: Any = {"code": -32601, "message": "no such method"}
            if asked["method"] == "initialize":
                result = {
                    "protocolVersion": asked["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "far", "version": "1"},
                }
            elif asked["method"] == "tools/list":
                result = {"tools": [TOOL]}
            elif asked["method"] == "tools/call":
                how = asked["params"]["arguments"]["how"]
                if how == "well":
                    result = {"content": [{"type": "text", "text": "gone"}]}
                elif how.startswith("-"):
                    error = {"code": int(how), "message": "Rate limit exceeded"}
                else:
                    self._lose(how)
                    return
            reply = {"error": error} if result is None else {"result": result}
            self._send(
                200,
                "application/json",
                orjson.dumps({"jsonrpc": "2.0", "id": asked["id"], **reply}),
            )

        def _lose(self, how: str) -> None:
            if how == "stream":
                self._send(200, "text/event-stream", b": nothing\n\n")
            elif how == "broken stream":
                self._send(200, "text/event-stream", b"data: {", length=99)
            elif how == "half":
                self._send(200, "application/json", b'{"jsonrpc": "2.0", "id')
            elif how == "page":
                self._send(200, "text/html", b"<p>Please sign in</p>")
            else:
                self._send(int(how), "text/html", b"<p>Bad gateway</p>")

        def _send(self, status: int, kind: str, body: bytes, length: int = -1) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("mcp-session-id", "1")
            self.send_header("Content-Length", str(len(body) if length < 0 else length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()


def test_behind_an_address_only_what_the_server_said_is_the_policys(tmp_path: Path) -> None:
    name = tmp_path / "far.json"
    with behind_an_address() as url:
        assert add(name, "--url", url, command=()) == 0
        far = Environments().load(str(name))
        for code in ("-32000", "-32001", "-32603"):
            world = far.reset(None)
            result = world.call(Call("go", {"how": code}))
            assert (result.text, result.error) == ("Error: Rate limit exceeded", "tool")
            assert world.call(Call("go", {"how": "well"})).text == "gone"
        for how in ("stream", "broken stream", "half", "page", "502", "404"):
            with pytest.raises(InfrastructureError):
                print(how, far.reset(None).call(Call("go", {"how": how})))
