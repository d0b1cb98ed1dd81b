"""MCP servers as environments, against a server of ours in processes of its own
(bench/fixtures/mcp_shop.py)."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from rods import dialects
from rods.calls import Call
from rods.console.main import run
from rods.environments.base import Environment, Instance, Result, reference
from rods.environments.loading import Environments
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import Reply
from rods.episode.goals import goal_of
from rods.errors import InfrastructureError, UserError
from rods.gates.ground_truth import replay
from rods.tasks import Task
from tests.conftest import WHOLE
from tests.worlds.mcp.forks import agreed

pytestmark = [
    pytest.mark.needs("mcp"),
    # looked for and not imported: every process of a run reads this file
    pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed"),
]
HERE = str(Path(__file__).parents[3])
SHOP = [sys.executable, "-m", "bench.fixtures.mcp_shop"]
SEQUENCES = 4 if os.environ.get(WHOLE) else 2  # four servers each
MINTED = 'basket="id":"(b[0-9a-f]{12})"'


def add(name: Path, *options: str, command: tuple[str, ...] = tuple(SHOP)) -> int:
    given = [*([] if "--url" in options else ["--env", f"PYTHONPATH={HERE}"])]
    rest = ["--", *command] if command else []
    return run(["env", "add", str(name), "--no-calls", *given, "--minted", MINTED, *options, *rest])


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mcp")
    (folder / "notes").mkdir()
    (folder / "notes" / "today.txt").write_text("buy tea")
    name = folder / "shop.json"
    assert add(name, "--files", "notes", "--probe", "read_marks()", "--compared", "**/*") == 0
    return name


@pytest.fixture(scope="module")
def shop(described: Path) -> Iterator[Environment]:
    before = set(_servers())  # of tests of other modules that this process runs in between
    with Environments() as environments:
        yield environments.load(str(described))
    _await(lambda: gc.collect() is not None and not set(_servers()) - before)


def _servers() -> list[int]:
    """Processes of the shop that this process has started."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    every = {
        int(each)
        for task in Path(f"/proc/{os.getpid()}/task").iterdir()
        for each in _children(task)
    }
    return sorted(
        pid
        for pid in every | {int(each) for each in children}
        if "mcp_shop" in _read(Path(f"/proc/{pid}/cmdline"))
    )


def _children(task: Path) -> list[str]:
    return _read(task / "children").split()


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


def _await(holds: Any, seconds: float = 90.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_description_pins_the_tools_and_says_what_shows_the_state(
    described: Path, capsys: Any
) -> None:
    found = json.loads(described.read_text())
    assert [tool["name"] for tool in found["tools"]][:3] == ["chance", "mark", "open_basket"]
    assert found["reads"] == ["picture", "pid", "read_marks", "read_note", "show"]
    assert found["server"]["name"] == "shop"
    assert add(described) == 2 and "--replace" in capsys.readouterr().err, "not written over"
    assert add(described.with_name("none.json"), command=("no-such-command",)) == 1
    assert "does not start" in capsys.readouterr().err
    assert (
        add(
            described.with_name("none.json"),
            command=(sys.executable, "-c", "raise SystemExit('no licence')"),
        )
        == 1
    )
    assert "no licence" in capsys.readouterr().err, "what the server had to say"


@pytest.mark.slow
def test_a_program_named_by_a_relative_path_is_meant_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "bin" / "server"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert add(tmp_path / "shop.json", command=("bin/server", *SHOP[1:])) == 0
    assert json.loads((tmp_path / "shop.json").read_text())["command"] == [str(program), *SHOP[1:]]
    (tmp_path / "server.py").write_text(
        "from runpy import run_module\n\nrun_module('bench.fixtures.mcp_shop', "
        "run_name='__main__')\n"
    )
    assert add(tmp_path / "script.json", command=(sys.executable, "server.py")) == 0
    assert f"started by: {sys.executable} {tmp_path}/server.py" in capsys.readouterr().out
    monkeypatch.chdir("/")
    with Environments() as environments:
        assert (
            environments.load(str(tmp_path / "shop.json"))
            .reset(None)
            .call(Call("read_marks", {}))
            .error
            is None
        )


def test_a_key_reaches_the_server_and_no_file(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = "c0ffee-not-for-files"
    name = tmp_path / "shop.json"
    assert add(name, "--env", f"SHOP_KEY={value}") == 2
    assert "SHOP_KEY by secrets" in capsys.readouterr().err and not name.exists()
    assert add(name, "--secret", "SHOP_KEY") == 2
    assert "environment variable SHOP_KEY" in capsys.readouterr().err
    monkeypatch.setenv("SHOP_KEY", value)
    assert add(name, "--secret", "SHOP_KEY") == 0
    assert json.loads(name.read_text())["secrets"] == ["SHOP_KEY"] and value not in name.read_text()
    with Environments() as environments:
        world = environments.load(str(name)).reset({})
        server = json.loads(world.call(Call("pid")).text)["pid"]
        assert f"SHOP_KEY={value}".encode() in Path(f"/proc/{server}/environ").read_bytes().split(
            b"\0"
        )
    tells = (
        sys.executable,
        "-c",
        "import os; raise SystemExit('no licence for ' + os.environ['SHOP_KEY'])",
    )
    capsys.readouterr()
    assert add(tmp_path / "none.json", "--secret", "SHOP_KEY", command=tells) == 1
    told = capsys.readouterr().err
    assert "no licence for ***" in told and value not in told


def test_results_come_as_they_are_and_what_is_wrong_is_refused_before_the_server_sees_it(
    shop: Environment,
) -> None:
    world = shop.reset({"files": {"lists/a.txt": "milk"}})
    assert world.call(Call("mark", {"text": "x"})) == Result("1 marks", None)
    assert world.call(Call("picture")).text == "[image, image/png, 6 bytes]"
    refused = [
        (Call("nothing"), "unknown_tool"),
        (Call("mark", {"text": 5}), "bad_arguments"),
        (Call("mark"), "bad_arguments"),
        (Call("mark", {"text": "x", "more": 1}), "bad_arguments"),
        (Call("show", {"basket": "none"}), "tool"),
    ]
    assert [world.call(call).error for call, _ in refused] == [error for _, error in refused]
    assert "no basket none" in world.call(refused[-1][0]).text
    note = world.call(Call("write_note", {"path": "/world/b.txt", "text": "see /world"}))
    assert note.text == "wrote /world/b.txt in /world", "nobody sees where the folder lies"
    assert world.call(Call("read_note", {"path": "/world/lists/a.txt"})).text == "milk"
    assert world.call(Call("read_note", {"path": "/world/today.txt"})).text == "buy tea"
    assert (
        shop.tools()["put"].parameter_names == ("basket", "item")
        and shop.tools()["show"].group == "shop"
    )
    illegal: list[Any] = [
        {"rows": []},
        *({"files": {path: ""}} for path in ("../x", "/etc/x", "")),
        {"files": {"a": 1}},
    ]
    for state in illegal:
        with pytest.raises(ValueError):
            shop.reset(state)


@pytest.mark.slow
def test_worlds_share_nothing_and_clock_and_chance_are_frozen(shop: Environment) -> None:
    one = shop.reset(None)
    other = shop.reset(None)
    first = one.call(Call("chance"))
    assert first == other.call(Call("chance")) and first.value["dates"] is True
    assert (
        first.value["now"] == "2026-01-05T09:00:00+00:00" and first.value["today"] == "2026-01-05"
    )
    assert first != one.call(Call("chance")), "each draw is another one"
    one.call(Call("mark", {"text": "one"}))
    assert other.call(Call("read_marks")).value == {"marks": []} and not one.same_state(other)
    copy = one.fork()
    basket = one.call(Call("open_basket", {"owner": "Ann"})).value["id"]
    assert (
        basket.startswith("basket-") and copy.call(Call("show", {"basket": basket})).error == "tool"
    )
    assert copy.call(Call("open_basket", {"owner": "Ann"})).value[
        "id"
    ] == basket and copy.same_state(one)
    copy.call(Call("write_note", {"path": "/world/today.txt", "text": "buy milk"}))
    assert not copy.same_state(one), "files that are declared belong to the state"
    assert len({world.call(Call("pid")).text for world in (one, other, copy)}) == 3


def shop_call(chance: random.Random, seen: Sequence[Result]) -> Call:
    """Any call, also of baskets that are not there, and of chance."""
    shown = [
        each.value["id"] for each in seen if isinstance(each.value, dict) and "id" in each.value
    ]
    basket = chance.choice([*shown[-2:], "none"][:2])
    path = f"/world/{chance.choice('ab')}.txt"
    some = [
        Call("open_basket", {"owner": chance.choice(["Ann", "Bo"])}),
        *[Call("put", {"basket": basket, "item": chance.choice(["milk", "tea"])})] * 2,
        Call("show", {"basket": basket}),
        Call("mark", {"text": chance.choice("xy")}),
        Call("read_marks"),
        Call("write_note", {"path": path, "text": chance.choice(["milk", "tea"])}),
        Call("read_note", {"path": path}),
        Call("chance"),
    ]
    return chance.choice(some)


@pytest.mark.slow
def test_copies_and_equality_agree_with_worlds_of_their_own_on_random_calls(
    described: Path,
) -> None:
    name = described.with_name("forks.json")
    probes = ("--probe", "read_marks()", "--probe", "show(basket='{basket}')", "--compared", "**/*")
    assert add(name, "--files", "notes", *probes) == 0
    with Environments() as environments:
        found = agreed(environments.load(str(name)), shop_call, SEQUENCES)
    assert found[True] and found[False] and found.total() == SEQUENCES


@pytest.mark.slow
def test_a_server_that_is_killed_within_a_call_is_the_machinerys_failure(shop: Environment) -> None:
    task = Task(
        reference(shop), "base", ("Wait.",), ((Call("mark", {"text": "x"}),),), ("mark", "wait")
    )
    killed: list[int] = []
    began: list[float] = []

    def complete(waiting: Any) -> list[Reply]:
        world: Any = worlds[0]
        killed.append(world.call(Call("pid")).value["pid"])
        began.append(time.monotonic())
        signal.signal(signal.SIGALRM, lambda *_: os.kill(killed[0], signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        return [
            Reply('<tool_call>{"name": "wait", "arguments": {"seconds": 20}}</tool_call>')
            for _ in waiting
        ]

    worlds: list[Instance] = []
    job = Job(
        task,
        shop,
        dialects.load("hermes"),
        goal_of(shop, task),
        world=lambda: _kept(worlds, shop.reset(None)),
    )
    (trace,) = run_lockstep([job], complete)
    assert trace.end == "infrastructure" and time.monotonic() - began[0] < 15
    until_gone(killed[0])
    assert worlds[0].call(Call("read_marks")).value == {"marks": []}, "and its world is made anew"


def until_gone(process: int, seconds: float = 30.0) -> None:
    """Waits until nobody has that number: whoever is killed is there until it is waited for."""
    deadline = time.monotonic() + seconds
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(process, 0)
            time.sleep(0.02)


def _kept(worlds: list[Instance], world: Instance) -> Instance:
    worlds.append(world)
    return world


def test_a_changed_tool_list_is_refused(described: Path) -> None:
    found = json.loads(described.read_text())
    changed = described.with_name("changed.json")
    changed.write_bytes(orjson.dumps({**found, "command": [*SHOP, "--more"]}))
    with Environments() as environments, pytest.raises(UserError, match="new more"):
        environments.load(str(changed)).reset(None)
    changed.write_bytes(orjson.dumps({**found, "comand": []}))
    with pytest.raises(UserError, match="comand"):
        Environments().load(str(changed))


@pytest.mark.slow
def test_a_world_that_is_garbage_ends_though_the_collector_interrupts_whoever_starts_another(
    shop: Environment,
) -> None:
    from rods.worlds.mcp.sessions import _threads

    before = set(_servers())
    world: Any = shop.reset(None)
    (server,) = set(_servers()) - before
    cycle = [world]
    cycle.append(cycle)

    def collects() -> None:
        with _threads(os.getpid())._shutdown_lock:  # as `submit` does
            gc.collect()

    del world, cycle
    collecting = threading.Thread(target=collects, daemon=True)
    collecting.start()
    collecting.join(20)
    assert not collecting.is_alive()
    until_gone(server)


@pytest.mark.slow
def test_a_server_that_says_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    from rods.worlds.mcp.description import Description
    from rods.worlds.mcp.sessions import Session

    monkeypatch.setattr("rods.worlds.mcp.sessions.SERVER_START", 1.0)
    session = Session(Description(command=["sleep", "777"]))
    with pytest.raises(InfrastructureError, match="did not start"):
        session.wait()
    session.join(60)
    assert not session.place.exists(), "with its folder"


def test_what_a_server_complains_of_is_shown_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    from rods import known_keys
    from rods.worlds.mcp.description import Description
    from rods.worlds.mcp.sessions import _SAID, Session

    key = "sk-planted-5e1f0c77a9"
    monkeypatch.setattr(known_keys, "_known", {key})
    for after in (0, _SAID - 10):
        complaint = f"import sys; sys.exit('{key}' + '~' * {after})"
        with pytest.raises(InfrastructureError, match="does not start") as caught:
            Session(Description(command=[sys.executable, "-c", complaint])).wait()
        said = str(caught.value).partition("does not start")[2]
        assert key[-6:] not in said and ("***" in said or after)


@pytest.mark.slow
def test_two_connections_to_one_address_give_equal_verdicts_with_other_handles(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([*SHOP, "--http", str(port)], cwd=HERE, stderr=subprocess.DEVNULL)
    try:
        _await(lambda: not socket.socket().connect_ex(("127.0.0.1", port)))
        name = tmp_path / "far.json"
        url = f"http://127.0.0.1:{port}/mcp"
        assert add(name, "--url", url, "--probe", "show(basket='{basket}')", command=()) == 0
        far = Environments().load(str(name))
        basket = far.reset(None).call(Call("open_basket", {"owner": "Ann"})).value["id"]
        calls = (
            Call("open_basket", {"owner": "Ann"}),
            Call("put", {"basket": basket, "item": "tea"}),
        )
        results = [
            [f'{{"id":"{basket}","owner":"Ann"}}', f'{{"basket":"{basket}","items":["tea"]}}']
        ]
        task = Task(
            reference(far),
            "base",
            ("Go.",),
            (calls,),
            ("open_basket", "put"),
            provenance={"results": results},
        )
        assert not replay(far, task) and not replay(far, task)
        with pytest.raises(ValueError, match="no folder"):
            far.reset({"files": {"a": "b"}})
        server.kill()
        server.wait()
        with pytest.raises(InfrastructureError):
            far.reset(None)
    finally:
        server.kill()
        server.wait()


DEADLY = """import os, time
from bench.fixtures.mcp_shop import *

for tool in (open_basket, put, show, read_marks):
    server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=tool in (show, read_marks)))
server.add_tool(lambda: time.sleep(4), name="sleep")
server.add_tool(lambda: os._exit(1), name="die")
server.run()
"""


@pytest.mark.sweep
def test_tools_that_sleep_and_that_kill_the_server_end_a_probe_in_time(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rods.worlds.checking.environments.ALL_CALLS_WAITED", 30.0)
    name = tmp_path / "deadly.json"
    assert add(name, "--probe", "read_marks()", command=(sys.executable, "-c", DEADLY)) == 0
    capsys.readouterr()
    began = time.monotonic()
    assert run(["env", "check", str(name)]) == 1
    took = time.monotonic() - began
    said = capsys.readouterr().out
    assert "sleep took" in said and "die: raised" in said, said
    assert not [
        tool for tool in ("open_basket", "put", "show", "read_marks") if f"{tool} took" in said
    ], said
    assert took < 300, took


def test_the_server_of_the_guide_says_why_it_refuses_and_formats_no_traceback(
    tmp_path: Path,
) -> None:
    from rods.worlds.mcp.description import Description
    from rods.worlds.mcp.sessions import Session

    (snippet,) = re.findall(
        r"^```python\n(.*?)^```$",
        (Path(HERE) / "docs/mcp.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    session = Session(Description(command=[sys.executable, "-c", snippet])).wait()
    answers = [
        cast(Any, session.call(tool, {"ring": 2}))
        for tool in ("light", "light", "put_out", "put_out")
    ]
    assert [answer.is_error for answer in answers] == [False, True, False, True]
    assert "ring 2 is lit already" in answers[1].content[0].text
    assert not (session.place / "errors").read_text(), "of the last, which broke"
    session.end()


STOPS = """import os, signal, time
from bench.fixtures.mcp_shop import *

def stop():
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)

server.add_tool(read_marks, annotations=ToolAnnotations(read_only_hint=True))
server.add_tool(stop)
server.run()
"""


@pytest.mark.slow
def test_a_signal_in_the_middle_of_a_call_ends_a_check_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "places").mkdir()
    name = tmp_path / "stops.json"
    assert add(name, "--probe", "read_marks()", command=(sys.executable, "-c", STOPS)) == 0
    given = {**os.environ, "TMPDIR": str(tmp_path / "places"), "PYTHONPATH": HERE}
    command = [sys.executable, "-m", "rods.console", "env", "check", str(name)]
    ended = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    begins, *between, interrupted = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout, interrupted) == (
        128 + signal.SIGTERM,
        "",
        "rods: interrupted",
    )
    assert "17 worlds × 2 tools × 11 calls" in begins and all(
        line.startswith(f"{name}: ") for line in between
    )
    assert not list((tmp_path / "places").iterdir())
