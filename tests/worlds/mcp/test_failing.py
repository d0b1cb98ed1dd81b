"""A server that flags no failure and says too much of its tools, through the commands."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest

from rods.calls import Call
from rods.console.main import run
from rods.environments.base import reference
from rods.environments.loading import Environments
from rods.tasks import Task, task_lines

pytestmark = [
    pytest.mark.needs("mcp"),
    pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed"),
    pytest.mark.slow,
]
HERE = str(Path(__file__).parents[3])
DESKS = {
    "python": [sys.executable, "-m", "tests.worlds.mcp.requests_desk"],
    "node": ["node", str(Path(__file__).with_name("requests_desk.mjs"))],
}
DESK = pytest.mark.parametrize(
    "desk",
    [
        "python",
        pytest.param("node", marks=pytest.mark.skipif(not which("node"), reason="no Node here")),
    ],
)


def add(file: Path, desk: str, *options: str) -> str:
    command = ["env", "add", str(file), "--env", f"PYTHONPATH={HERE}", *options, "--"]
    assert run([*command, *DESKS[desk]]) == 0
    return str(file)


@pytest.mark.few("node", others="sweep")
@DESK
def test_what_a_server_tells_as_results_and_says_of_itself_is_found_and_overruled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], desk: str
) -> None:
    file = add(tmp_path / "desk.json", desk)
    shown = capsys.readouterr().out
    assert "told as ordinary results" in shown and "Request not found" in shown
    assert run(["env", "check", file]) == 1
    found = capsys.readouterr().out
    assert "think: says that it changes nothing, and does → `rods env add --writes`" in found
    assert "tells failures as ordinary results: close_request(" in found
    assert '"field":"status"' in found
    rules = ["--fails", "status=error", "--fails", "begins=Request not found"]
    add(tmp_path / "desk.json", desk, "--replace", *rules, "--writes", "think")
    assert "told as ordinary results" not in capsys.readouterr().out
    assert run(["env", "check", file]) == 0, capsys.readouterr().out
    with Environments() as environments:
        world = environments.load(file).reset(None)
        call = Call("think", {"thought": "tea", "place": "last"})
        assert world.call(call).value == {"thoughts": 1}
        assert [fork.call(call).value for fork in (world.fork(), world.fork())] == [
            {"thoughts": 2}
        ] * 2


@pytest.mark.few(2, others="sweep")
@DESK
@pytest.mark.parametrize("rules", [(), ("--fails", "begins=Request not found")])
def test_tasks_with_numbers_that_are_not_there_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rules: tuple[str, ...], desk: str
) -> None:
    file = add(tmp_path / "desk.json", desk, "--no-calls", "--writes", "think", *rules)
    with Environments() as environments:
        environment = environments.load(file)
        tools = tuple(environment.tools())
        tasks = [
            Task(
                reference(environment),
                "base",
                ("Please close it.",),
                (tuple(Call("close_request", {"number": number}) for number in numbers),),
                tools=tools,
            )
            for numbers in (("REQ-1",), ("7", "8", "9"), ("REQ-2", "17"))
        ]
    (tmp_path / "tasks.jsonl").write_bytes(task_lines(tasks))
    capsys.readouterr()
    assert run(["data", "check", str(tmp_path / "tasks.jsonl"), "--trust"]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if "Request not found" in line]
    assert [line.split("tasks.jsonl:")[1][0] for line in lines] == ["2", "2", "2", "3"]
