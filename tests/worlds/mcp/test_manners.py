"""What servers of others do, each by a server that says just that (plain.py)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rods.analysis.schemas import Checker
from rods.calls import Call
from rods.composing.catalogue import Scene
from rods.console.main import run
from rods.daemon.authors.catalogue_free import catalogue_with_tools
from rods.daemon.authors.catalogue_free.probing import Prober
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.environments.replay import ReplayedWorld
from rods.errors import InfrastructureError
from tests.worlds.mcp.plain import said, tool

pytestmark = [
    pytest.mark.needs("mcp"),
    pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed"),
]
HERE = str(Path(__file__).parents[3])
HEAD = "from tests.worlds.mcp.plain import put, said, serve, tool\n"


class Servers:
    """Environments of servers whose programs are texts."""

    def __init__(self, folder: Path, environments: Environments) -> None:
        self.folder = folder
        self.environments = environments

    def add(self, program: str, *options: str, calls: bool = False) -> int:
        (self.folder / "server.py").write_text(HEAD + program)
        command = ["--", sys.executable, str(self.folder / "server.py")]
        name = ["env", "add", str(self.folder / "plain.json"), "--env", f"PYTHONPATH={HERE}"]
        no_calls = [] if calls else ["--no-calls"]
        return run([*name, *no_calls, "--replace", *options, *command])

    def __call__(self, program: str, *options: str) -> Environment:
        assert self.add(program, *options) == 0
        return self.environments.load(str(self.folder / "plain.json"))


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with Environments() as environments:
        yield Servers(tmp_path, environments)


SEVENTH = {"$schema": "http://json-schema.org/draft-07/schema#"}
WHO = {"name": {"type": "string"}}
WHICH = {"id": {"type": "integer"}}
ID = {"properties": WHICH, "required": ["id"]}
NAME = {"properties": WHO, "required": ["name"]}
KIND = {"kind": {"const": "circle"}, "r": {"type": "number"}}
SIDE = {"kind": {"const": "square"}, "side": {"type": "number"}}
CHOICE: list[Any] = [{"id": 1}, {"name": "a"}]
OLD = ("dependencies of draft 7", "exclusive in draft 4")  # words that are shown as they are
# a schema, arguments that it allows, arguments that it does not
SCHEMAS: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "oneOf": ({"oneOf": [ID, NAME]}, CHOICE, [{}, {"id": 1, "name": "a"}, {"id": 1, "x": 2}]),
    "anyOf": ({"anyOf": [ID, NAME]}, [*CHOICE, {"id": 1, "name": "a"}], [{}, {"name": 3}]),
    "allOf": ({"allOf": [ID, NAME]}, [{"id": 1, "name": "a"}], [*CHOICE, {"id": 1, "name": 2}]),
    "required alone": (
        {"properties": WHO | WHICH, "anyOf": [{"required": ["id"]}, {"required": ["name"]}]},
        CHOICE,
        [{}, {"x": 1}],
    ),
    "required and not described": ({"required": ["x"]}, [{"x": 1}], [{}, {"x": 1, "y": 2}]),
    "kinds": (
        {
            "oneOf": [
                {"properties": KIND, "required": ["kind", "r"], "additionalProperties": False},
                {"properties": SIDE, "required": ["kind", "side"]},
            ]
        },
        [{"kind": "circle", "r": 1.5}, {"kind": "square", "side": 2}],
        [{"kind": "circle"}, {"kind": "disc", "r": 1}, {"kind": "circle", "r": 1, "side": 1}],
    ),
    "if": (
        {
            "properties": {"unit": {"type": "string"}},
            "if": {"properties": {"unit": {"const": "day"}}, "required": ["unit"]},
            "then": {"properties": {"days": {"type": "integer"}}, "required": ["days"]},
            "else": {"properties": {"hours": {"type": "integer"}}},
        },
        [{"unit": "day", "days": 1}, {"unit": "hour", "hours": 2}, {}],
        [{"unit": "day"}, {"unit": "hour", "weeks": 2}, {"unit": "day", "days": "1"}],
    ),
    "a reference at the root": (
        {**SEVENTH, "$ref": "#/definitions/Q", "definitions": {"Q": {"allOf": [ID]}}},
        [{"id": 1}],
        [{}, {"id": "1"}, {"id": 1, "x": 2}],
    ),
    "a reference to the new words": (
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": NAME}},
        [{"name": "a"}],
        [{}, {"name": "a", "x": 2}],
    ),
    "as zod refers": (
        {**SEVENTH, "properties": {"a": WHO["name"], "b": {"$ref": "#/properties/a"}}},
        [{"a": "x", "b": "y"}, {}],
        [{"b": 1}, {"c": "x"}],
    ),
    "a tuple of draft 7": (
        {
            **SEVENTH,
            "properties": {
                "at": {"items": [{"type": "integer"}, WHO["name"]], "additionalItems": False},
                "back": {"$ref": "#/properties/at/items/1"},
            },
        },
        [{"at": [1, "a"], "back": "a"}, {"at": [1]}],
        [{"at": ["a"]}, {"at": [1, "a", 3]}, {"back": 1}],
    ),
    "exclusive in draft 4": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "properties": {"n": {"type": "integer", "minimum": 3, "exclusiveMinimum": True}},
        },
        [{"n": 4}],
        [{"n": 3}, {"m": 4}],
    ),
    "dependencies of draft 7": (
        {**SEVENTH, "properties": WHO | WHICH, "dependencies": {"id": ["name"], "name": ID}},
        [{"id": 1, "name": "a"}, {}],
        [{"id": 1}, {"name": "a"}],
    ),
    "others of a type": ({"additionalProperties": {"type": "integer"}}, [{"x": 1}], [{"x": "1"}]),
    "others in a part": (
        {"anyOf": [{**ID, "additionalProperties": True}]},
        [{"id": 1, "x": 1}],
        [],
    ),
    "others nowhere": (
        {"allOf": [ID], "unevaluatedProperties": False},
        [{"id": 1}],
        [{"id": 1, "x": 1}],
    ),
    "round": (
        {
            "properties": {"tree": {"$ref": "#/$defs/T"}},
            "$defs": {
                "T": {
                    "type": "object",
                    "properties": {"up": {"$ref": "#/$defs/T"}},
                    "additionalProperties": False,
                }
            },
        },
        [{"tree": {"up": {}}}],
        [{"tree": {"up": {"down": 1}}}],
    ),
}


def test_arguments_are_shown_as_they_are_checked(servers: Servers) -> None:
    listed = [tool(f"t{place}", schema) for place, (schema, _, _) in enumerate(SCHEMAS.values())]
    environment = servers(f"serve({listed!r}, lambda name, given: said(repr(given)))")
    world = environment.reset(None)
    for place, (what, (_, right, wrong)) in enumerate(SCHEMAS.items()):
        offered = environment.tools()[f"t{place}"]
        shown = offered.schema()["parameters"]
        assert "$ref" not in str(shown), what
        checker = Checker(shown)
        assert not checker.broken or what in OLD, what
        for given in right:
            result = world.call(Call(offered.name, given))
            assert (result.text, result.error) == (repr(given), None), what
            assert checker.fits(given), (what, given, shown)
            assert given.keys() <= shown["properties"].keys() or "additional" in str(shown), what
        for given in wrong:
            assert world.call(Call(offered.name, given)).error == "bad_arguments", (what, given)
            unnamed = given.keys() - shown["properties"].keys()
            assert unnamed or what in OLD or not checker.fits(given), (what, given, shown)


WRAPPED: list[tuple[Any, str, Any]] = [  # a text as SDKs wrap it, what is shown, its value
    ('{"id": 7}', '{"id": 7}', {"id": 7}),
    ("[1, 2]", "[1, 2]", [1, 2]),
    ("Request not found", "Request not found", None),
    ("", "", None),
]
ACTED: list[tuple[str, dict[str, Any], str | None]] = [  # an answer on the wire, and what is shown
    ("beyond 64 bits", {"content": [], "structuredContent": {"n": 2**70}}, f'{{"n": {2**70}}}'),
    ("far beyond", {"content": [], "structuredContent": {"n": [-(10**400)]}}, str(10**400)),
    ("a field called so", said('{"result":"a"}', structuredContent={"result": "a"}), '{"result":'),
    ("no content", {}, None),
    ("a number as content", {"content": 5}, None),
    ("a block of no kind", {"content": [{"type": "smell"}]}, None),
    ("structured text", said("x", structuredContent="x"), None),
    ("a list of lists", said("x", structuredContent=[[]]), None),
    ("a picture without data", {"content": [{"type": "image", "mimeType": "a/b"}]}, None),
    ("an error that is none", said("x", isError="perhaps"), None),
    ("a text that is a number", {"content": [{"type": "text", "text": 5}]}, None),
    ("null", {"content": None}, None),
]


def test_results_that_sdks_have_wrapped_are_shown_as_the_tool_gave_them(servers: Servers) -> None:
    program = f"""
WRAPPED = {WRAPPED!r}
def answer(name, given):
    text = WRAPPED[given["n"]][0]
    return said(text, structuredContent={{"result": text}})
SHAPES = {{"text": {{"type": "string"}}, "list": {{"type": "array"}}}}
serve([tool(name, {{"properties": {{"n": {{"type": "integer"}}}}}},
            outputSchema={{"type": "object", "properties": {{"result": SHAPES[shape]}}}})
       for name, shape in (("give", "text"), ("list", "list"))], answer)
"""
    environment = servers(program)
    results = {name: offered.result for name, offered in environment.tools().items()}
    assert results["give"] is None and results["list"], "a text that is unwrapped has no schema"
    world = environment.reset(None)
    for place, (_, text, value) in enumerate(WRAPPED):
        result = world.call(Call("give", {"n": place}))
        assert (result.text, result.value) == (text, value)


def test_what_a_server_gives_counts_whatever_its_own_schema_says(servers: Servers) -> None:
    given = [
        said("paid", structuredContent={"price": 19.99}),  # no multiple of 0.01, for jsonschema
        said("paid", structuredContent={"price": "19.99"}),
        said("paid", structuredContent={}),
        said("paid"),
    ]
    program = f"""
GIVEN = {given!r}
price = {{"type": "number", "multipleOf": 0.01}}
serve([tool("pay", {{"properties": {{"n": {{"type": "integer"}}}}}},
            outputSchema={{"type": "object", "properties": {{"price": price}},
                           "required": ["price"]}})],
      lambda name, given: GIVEN[given["n"]])
"""
    world = servers(program).reset(None)
    texts = [world.call(Call("pay", {"n": number})).text for number in range(len(given))]
    assert texts == ['{"price":19.99}', '{"price":"19.99"}', "{}", "paid"]


def test_a_step_whose_answer_cannot_be_read_is_in_no_world(servers: Servers) -> None:
    program = f"""
ACTED = {[raw for _, raw, _ in ACTED]!r}
steps = []
def answer(name, given):
    if name == "count":
        return said(str(len(steps)))
    steps.append(given)
    return ACTED[given["n"]]
serve([tool("act", {{"properties": {{"n": {{"type": "integer"}}}}}}), tool("count")], answer)
"""
    environment = servers(program, "--reads", "count", "--probe", "count()")
    for place, (what, _, shown) in enumerate(ACTED):
        world = environment.reset(None)
        twin = world.fork()
        expected = "0"
        try:
            result = world.call(Call("act", {"n": place}))
            assert shown is None or shown in result.text, what
            expected = "1"
        except InfrastructureError:
            assert shown is None, what
        assert twin.call(Call("count")).text == "0", what
        assert world.call(Call("count")).text == expected, what


NODE_LIKE = """
import os, subprocess, sys, time
if os.fork() == 0:  # a child of the server, as those of npx are
    time.sleep(600)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
serve([tool("pid")], lambda name, given: said(str(os.getpid())))
time.sleep(600)  # does not mind that its input has ended
"""
KILLED = """
import os, signal, sys
from rods.calls import Call
from rods.environments.loading import Environments
environments = Environments()
environment = environments.load(sys.argv[1])
worlds = [environment.reset(None) for _ in range(3)]
print(*[world.call(Call("pid")).text for world in worlds], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_servers_and_their_folders_go_with_a_program_that_is_killed(servers: Servers) -> None:
    assert servers.add("import signal\n" + NODE_LIKE) == 0
    temporary = servers.folder / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-c", KILLED, str(servers.folder / "plain.json")]
    variables = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": HERE}
    killed = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    groups = [int(pid) for pid in killed.stdout.split()]
    assert len(groups) == 3
    until = time.monotonic() + 60
    while any(map(_lives, groups)) or list(temporary.iterdir()):
        assert time.monotonic() < until
        time.sleep(0.02)


def _lives(group: int) -> bool:
    """Whether a process of the group is there, and is not merely waited for by nobody."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                return True
    return False


STRAY = [
    "Server is starting, have a nice day",
    "{",
    "[]",
    "5",
    '{"jsonrpc": "1.0"}',
    '{"jsonrpc": "2.0", "method": 5}',
    b"caf\xe9 \xff\xfe",
    "",
    '{"jsonrpc": "2.0", "id": 999, "result": {}}',
]


def test_lines_that_are_no_messages_are_one_warning_a_server(
    servers: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    program = f"""
def answer(name, given):
    for line in {STRAY!r}:
        put(line)
    return said("tea")
for line in {STRAY!r}:
    put(line)
serve([tool("drink")], answer)
"""
    environment = servers(program)
    for _ in range(2):
        world = environment.reset(None)
        for _ in range(3):
            assert world.call(Call("drink")).text == "tea"
    shown = "".join(capsys.readouterr())
    assert shown.count("are no messages") == 1 and "Traceback" not in shown


LISTS = {  # what is no list of tools, and what is said of it
    "without an end": (
        """
def listed(cursor):
    page = int(cursor or 0)
    return {"tools": [tool(f"t{page}", description="x" * 1_000_000)], "nextCursor": str(page + 1)}
serve(listed, None)
""",
        "more than 16 MB of tools",
    ),
    "two of one name": (
        'serve([tool("a"), tool("b"), tool("a", {"properties": {"x": {}}})], None)',
        "two tools called 'a'",
    ),
    "two of one name on two pages": (
        """
def listed(cursor):
    return {"tools": [tool("a")]} if cursor else {"tools": [tool("a")], "nextCursor": "2"}
serve(listed, None)
""",
        "two tools called 'a'",
    ),
}


@pytest.mark.parametrize("what", LISTS)
def test_what_is_no_list_of_tools_is_said_when_a_server_is_added(
    servers: Servers, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, said_of_it = LISTS[what]
    assert servers.add(program) != 0
    assert said_of_it in capsys.readouterr().err


def test_a_list_that_changes_ends_a_world_and_not_a_batch(servers: Servers) -> None:
    program = """
import pathlib
count = pathlib.Path(__file__).with_suffix(".count")
count.write_text(count.read_text() + "x" if count.exists() else "x")
serve([tool("a")] + [tool("b")] * (len(count.read_text()) == 3), lambda name, given: said(name))
"""
    environment = servers(program)  # the first start
    world = environment.reset(None)
    with pytest.raises(InfrastructureError, match="new b"):
        environment.reset(None)
    assert world.call(Call("a")).text == environment.reset(None).call(Call("a")).text == "a"


def test_a_tool_that_has_gone_or_fails_is_the_policys_to_read(servers: Servers) -> None:
    program = """
def answer(name, given):
    put('{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}')
    return said(f"Unknown tool: {name}", isError=True)
serve([tool("a")], answer, {"tools": {"listChanged": True}})
"""
    world = servers(program).reset(None)
    for _ in range(2):
        result = world.call(Call("a"))
        assert (result.text, result.error) == ("Unknown tool: a", "tool")


def test_files_behind_links_are_not_compared(servers: Servers, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("1")
    program = f"""
import os
def answer(name, given):
    os.symlink({str(tmp_path / "outside.txt")!r}, "link.txt")
    open("huge.bin", "wb").truncate(given["size"])
    return said("made")
serve([tool("make", {{"properties": {{"size": {{"type": "integer"}}}}}})], answer)
"""
    environment = servers(program, "--compared", "**/*")
    one, other, big = (environment.reset(None) for _ in range(3))
    assert not one.call(Call("make", {"size": 3})).error
    (tmp_path / "outside.txt").write_text("2")
    other.call(Call("make", {"size": 3}))
    assert one.same_state(other)
    big.call(Call("make", {"size": 1 << 40}))
    with pytest.raises(InfrastructureError, match="narrow `compared`"):
        big.same_state(one)


ASKED = {  # what a server asks whoever calls it, and what its `answers` say
    "elicitation/create": {
        "message": "Really?",
        "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean"}}},
    },
    "sampling/createMessage": {"messages": [], "maxTokens": 9},
    "roots/list": {},
}


@pytest.mark.parametrize(
    ("answers", "said_to_it"),
    [
        (None, None),
        ("decline", {"action": "decline"}),
        ({"sure": True}, {"action": "accept", "content": {"sure": True}}),
    ],
)
def test_a_server_that_asks_is_answered_by_its_description(
    servers: Servers, answers: Any, said_to_it: Any
) -> None:
    program = f"""
import json, sys
ASKED = {ASKED!r}
def answer(name, given):
    method = given["method"]
    put(json.dumps({{"jsonrpc": "2.0", "id": "q", "method": method, "params": ASKED[method]}}))
    return said(sys.stdin.readline())
serve([tool("ask", {{"properties": {{"method": {{"type": "string"}}}}}})], answer)
"""
    assert servers.add(program) == 0
    file = servers.folder / "plain.json"
    before = servers.environments.load(str(file)).hash
    if answers is not None:
        file.write_text(json.dumps({**json.loads(file.read_text()), "answers": answers}))
    environment = Environments().load(str(file))
    assert (environment.hash == before) == (answers is None)
    world = environment.reset(None)
    for method in ASKED:
        heard = json.loads(world.call(Call("ask", {"method": method})).text)
        if method == "elicitation/create" and answers is not None:
            assert heard["result"] == said_to_it
        else:
            assert "not" in heard["error"]["message"].lower()


OLDER = {  # how a server begins, and whether an older SDK would help
    "from mcp.server.fastmcp import FastMCP": True,
    "from mcp.server import FastMCP": True,
    "from mcp.server import Server\nServer('books').list_tools()": True,
    "import mcp_of_somebody_else": False,
    "raise ImportError('mcp')": False,
    "object().list_tools()": False,
}


@pytest.mark.parametrize("program", OLDER)
def test_why_a_server_does_not_start_is_said_from_its_beginning_on(
    servers: Servers, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "import sys\nprint('The first line.', 'x' * 5000, file=sys.stderr, flush=True)\n"
    for before in ("", long):
        assert servers.add(f"{before}{program}") == 1
        shown = capsys.readouterr().err
        assert ("mcp<2" in shown) == OLDER[program]
        assert "Error" in shown and ("The first line." in shown) == bool(before)
        assert len(shown) < 3000


def test_the_home_of_a_server_has_one_name_and_packages_are_fetched_once(servers: Servers) -> None:
    program = """
import os, pathlib
def answer(name, given):
    if "path" in given:
        pathlib.Path(given["path"]).write_text("here")
    home = pathlib.Path.home()
    places = [str(home), str(home / "a.txt"), str(pathlib.Path.cwd())]
    caches = [os.environ["npm_config_cache"], os.environ["UV_CACHE_DIR"]]
    held = [path.name for path in home.iterdir()]
    return said("", structuredContent={"places": places, "held": held, "caches": caches})
serve([tool("look", {"properties": {"path": {"type": "string"}}})], answer)
"""
    environment = servers(program)
    for _ in range(2):
        world = environment.reset(None)
        look: Any = world.call(Call("look")).value
        assert look["places"] == ["/home/world", "/home/world/a.txt", "/world"]
        assert look["caches"] == [str(Path.home() / ".npm"), str(Path.home() / ".cache/uv")]
        look = world.call(Call("look", {"path": "/home/world/a.txt"})).value
        assert look["held"] == ["a.txt"]


def test_a_check_tries_paths_and_names_that_are_there(
    servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes" / "inner").mkdir(parents=True)
    (tmp_path / "notes" / "inner" / "today.txt").write_text("buy tea")
    program = """
import pathlib
TEXT = {"type": "string"}
def answer(name, given):
    if name == "list_items":
        return said("Items:\\\\n- milk (item-4711)\\\\n- tea (item-4712)")
    if name == "show_item" and given["item_id"] not in ("item-4711", "item-4712"):
        return said("no such item", isError=True)
    if name == "read_file" and not pathlib.Path(given["file_path"]).is_file():
        return said("no such file", isError=True)
    return said("there")
serve([tool("list_items"),
       tool("show_item", {"properties": {"item_id": TEXT}, "required": ["item_id"]}),
       tool("read_file", {"properties": {"file_path": TEXT}, "required": ["file_path"]})], answer)
""".replace("\\\\n", "\\n")
    reads = [
        option for name in ("list_items", "show_item", "read_file") for option in ("--reads", name)
    ]
    servers.add(program, "--files", str(tmp_path / "notes"), "--probe", "list_items()", *reads)
    run(["env", "check", str(servers.folder / "plain.json")])
    shown = capsys.readouterr().out
    assert "3 tools" in shown and "never answered" not in shown, shown


def test_a_check_shows_where_two_answers_differ(
    servers: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    program = """
import os
serve([tool("status")], lambda name, given: said("x" * 5000 + f" started as {os.getpid()}"))
"""
    servers.add(program, "--reads", "status", "--probe", "status()")
    assert run(["env", "check", str(servers.folder / "plain.json")]) == 1
    assert "started as" in "".join(capsys.readouterr())


SHARING = """
import os, pathlib
place = pathlib.Path(os.environ.get("SHELF", {place!r}), "shelf.txt")
books = lambda: place.read_text().split() if place.exists() else []
def answer(name, arguments):
    if name == "add_book":
        place.write_text(" ".join([*books(), "tea"]))
    return said(f"{{len(books())}} books")
serve([tool("add_book"), tool("list_books")], answer)
"""


def checked(servers: Servers, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    run(["env", "check", str(servers.folder / "plain.json")])
    return capsys.readouterr().out


def test_tools_that_are_called_as_if_they_read_are_proposed_to_whoever_adds_their_server(
    servers: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["list_books", "shelf_read", "getShelf", "book-details", "ready_shelf", "spread", "put"]
    program = f"serve([tool(name) for name in {names}], None)"
    assert servers.add(program, "--writes", "getShelf") == 0
    line = "none says: --reads book-details --reads list_books --reads shelf_read\n"
    assert line in capsys.readouterr().out


ASKING = """
import os
os.environ.get("SHELF_FILE_PATH"), os.getenv("ANY_COLOUR"), "SHELF_ROOT" in os.environ
serve([], None)
"""
ASKING_NODE = """
const { SHELF_FILE_PATH, ANY_COLOUR, PATH, SHELF_ROOT } = process.env;
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  const result = method === 'initialize'
    ? { protocolVersion: params.protocolVersion, capabilities: { tools: {} },
        serverInfo: { name: 'plain', version: '1' } }
    : { tools: [] };
  const answer = JSON.stringify({ jsonrpc: '2.0', id, result });
  if (id !== undefined) process.stdout.write(`${answer}\\n`);
});
"""


@pytest.mark.parametrize("node", [False, True])
def test_variables_that_say_where_a_server_keeps_things_are_proposed_to_whoever_adds_it(
    servers: Servers, capsys: pytest.CaptureFixture[str], node: bool
) -> None:
    if node and shutil.which("node") is None:
        pytest.skip("needs Node")
    (servers.folder / "server.js").write_text(ASKING_NODE)
    more = ["--", "node", str(servers.folder / "server.js")] if node else []
    added = ["env", "add", str(servers.folder / "plain.json"), "--no-calls", "--replace"]
    for given, told in ((), True), (("SHELF_ROOT={folder}", "SHELF_FILE_PATH=/a"), False):
        options = [part for pair in given for part in ("--env", pair)]
        assert (run([*added, *options, *more]) if node else servers.add(ASKING, *options)) == 0
        line = "--env 'SHELF_FILE_PATH={folder}/data' --env 'SHELF_ROOT={folder}'\n"
        assert (line in capsys.readouterr().out) is told
    assert "RODS_ASKED" not in (servers.folder / "plain.json").read_text()


def test_a_server_that_keeps_what_it_has_outside_of_its_world_is_told_where_to_put_it(
    servers: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    program = SHARING.format(place=str(servers.folder))
    servers(program, "--reads", "list_books")
    report = checked(servers, capsys)
    assert "books' for the same history" in report
    assert "let the server keep what it has in {folder} (its command, --env)" in report
    servers(program, "--reads", "list_books", "--env", "SHELF={folder}")
    report = checked(servers, capsys)
    assert "plain.json: no fault" in report
    assert "files are written that are not compared: /world/shelf.txt" in report
    servers(program, "--reads", "list_books", "--env", "SHELF={folder}", "--compared", "*.txt")
    assert "not compared" not in checked(servers, capsys)


def test_a_call_that_ends_its_world_costs_no_other_tool_its_proposed_rule(
    servers: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    program = """
schema = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
def answer(name, arguments):
    if name == "break_book":
        raise SystemExit
    return said("ok" if len(arguments["name"]) < 3 else f"Error: no book {arguments['name']}")
serve([tool("break_book", schema), tool("lend_book", schema)], answer)
"""
    assert servers.add(program, calls=True) == 0
    shown = capsys.readouterr().out
    assert "a call that cannot succeed was not answered: the MCP server" in shown
    assert "begins" in shown and "Error: no book" in shown


def test_a_shortened_path_of_a_world_is_the_same_in_all_of_them(servers: Servers) -> None:
    program = """
import os
def answer(name, arguments):
    place = os.getcwd()
    ends = [f"...{place[-length:]}/a" for length in range(8, len(place))]
    begins = [f"{place[:length]}…" for length in range(place.index("rods-mcp-") + 9, len(place))]
    return said(" ".join([place, place.upper(), *ends, *begins, "wait... no"]))
serve([tool("where")], answer)
"""
    environment = servers(program)
    texts = [environment.reset(None).call(Call("where")).text for _ in range(2)]
    assert texts[0] == texts[1]
    assert {*texts[0].split()} == {"/world", ".../world/a", "/world…", "wait...", "no"}


def test_temporary_files_of_a_server_have_the_same_names_in_every_world(servers: Servers) -> None:
    program = """
import tempfile
serve([tool("export")], lambda name, arguments: said(tempfile.mkstemp()[1]))
"""
    environment = servers(program)
    worlds = [environment.reset(None) for _ in range(2)]
    one, other = (world.call(Call("export")).text for world in worlds)
    assert one == other and one.startswith("/home/world/tmp")


def test_a_server_that_refuses_everything_for_a_while_is_there(servers: Servers) -> None:
    program = """
import json, sys
from tests.worlds.mcp import plain
real = plain.put
left = [5]
def put(line):
    left[0] -= 1
    reply = json.loads(line)
    if left[0] < 0:
        reply = {"jsonrpc": "2.0", "id": reply["id"]}
        reply["error"] = {"code": -32000, "message": "Rate limit exceeded: 5 requests"}
    real(json.dumps(reply))
plain.put = put
serve([tool("add")], lambda name, arguments: said("added"))
"""
    world = servers(program).reset(None)
    answers = [world.call(Call("add")) for _ in range(6)]
    assert {answer.error for answer in answers} == {None, "tool"}
    assert answers[-1].text == "Error: Rate limit exceeded: 5 requests"


def test_paths_are_known_to_whoever_tries_calls_files_folders_and_from_the_worlds_own(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a template and a state hold; nothing hidden."""
    for path in (".git/HEAD", "tea/green.txt"):
        (servers.folder / "kept" / path).parent.mkdir(parents=True)
        (servers.folder / "kept" / path).write_text("x")
    program = """
import pathlib
schema = {"properties": {"path": {"type": "string"}}, "required": ["path"]}
def answer(name, arguments):
    folder = pathlib.Path("/" if arguments["path"].startswith("/") else ".", arguments["path"])
    return said("yes", isError=not folder.is_dir())
serve([tool("list_folder", schema)], answer)
"""
    monkeypatch.chdir(servers.folder)
    world = servers(program, "--files", "kept")
    state = {"files": {"coffee/black.txt": "x"}}
    instance = world.reset(state)
    assert isinstance(instance, ReplayedWorld)
    assert set(instance.shown()["paths"]) == {
        *("/world", "/world/tea", "tea", "/world/tea/green.txt", "tea/green.txt"),
        *("/world/coffee", "coffee", "/world/coffee/black.txt", "coffee/black.txt"),
    }
    prober = Prober(world, catalogue_with_tools(world), state)
    working = prober.at("list_folder", Scene(state, {}, {}, {})).working
    assert next(call.arguments["path"] for call, _ in working) == "/world"


def test_where_few_calls_can_be_tried_the_values_that_are_listed_first_are(
    servers: Servers,
) -> None:
    """A read that needs nothing shows them, though no probe does."""
    program = """
import json
schema = {"properties": {"rack": {"type": "string"}, "book": {"type": "string"}},
          "required": ["rack", "book"]}
def answer(name, arguments):
    if name == "racks":
        return said(json.dumps({"racks": [f"rack-{n}" for n in range(9)],
                                "books": [f"book-{n}" for n in range(9)]}))
    return said("moved", isError=arguments != {"rack": "rack-0", "book": "book-0"})
serve([tool("racks", annotations={"readOnlyHint": True}), tool("move", schema)], answer)
"""
    world = servers(program, "--compared", "*.txt")
    prober = Prober(world, catalogue_with_tools(world), {})
    ((call, _),) = prober.at("move", Scene({}, {}, {}, {})).working
    assert call.arguments == {"rack": "rack-0", "book": "book-0"}


def test_an_empty_folder_is_part_of_the_state_where_a_pattern_meets_it(servers: Servers) -> None:
    """Or a call that makes one would change nothing, and its words would have to be shown."""
    program = """
import pathlib
schema = {"properties": {"path": {"type": "string"}}, "required": ["path"]}
def answer(name, arguments):
    pathlib.Path(arguments["path"]).mkdir()
    return said(f"made {arguments['path']}")
serve([tool("make_folder", schema)], answer)
"""
    world = servers(program, "--compared", "**/*")
    first, second, third = (world.reset(None) for _ in range(3))
    first.call(Call("make_folder", {"path": "recipes"}))
    second.call(Call("make_folder", {"path": "/world/recipes"}))
    assert first.same_state(second) and not first.same_state(third)
    first.call(Call("make_folder", {"path": "recipes/soups"}))
    assert not first.same_state(second)
