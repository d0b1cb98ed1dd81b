"""MCP servers that nobody here wrote: `make mcp-servers` fetches them and runs this."""

from __future__ import annotations

import gc
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from console.main import run
from rods.calls import Call
from rods.environments.base import Environment, reference
from rods.environments.loading import Environments
from rods.tasks import Task, task_lines

pytestmark = pytest.mark.skipif(not os.environ.get("RODS_MCP"), reason="needs foreign servers: make mcp-servers")
DATE = "2026-01-05T09:00:00Z"
NODES = Call("create_entities", {"entities": [{"name": "Ada", "entityType": "person", "observations": ["likes tea"]}]})
SERVERS: dict[str, tuple[list[str], list[str], list[Call]]] = {  # options, command, calls that work
    "time": (
        [],
        ["mcp-server-time", "--local-timezone", "UTC"],
        [Call("get_current_time", {"timezone": "Asia/Tokyo"})],
    ),
    "git": (
        [
            *("--files", "repository", "--probe", "git_status(repo_path='/world')"),
            *("--probe", "git_log(repo_path='/world')"),
            *("--probe", "git_branch(repo_path='/world', branch_type='local')"),
        ],
        ["mcp-server-git"],
        [
            Call("git_create_branch", {"repo_path": "/world", "branch_name": "draft"}),
            Call("git_checkout", {"repo_path": "/world", "branch_name": "draft"}),
            Call("git_add", {"repo_path": "/world", "files": ["new.txt"]}),
            Call("git_commit", {"repo_path": "/world", "message": "Second"}),
            Call("git_log", {"repo_path": "/world"}),
        ],
    ),
    "sqlite": (
        [
            *("--reads", "read_query", "--reads", "list_tables", "--reads", "describe_table"),
            *("--probe", "read_query(query='select * from notes')"),
        ],
        ["mcp-server-sqlite", "--db-path", "{folder}/data.db"],
        [
            Call("create_table", {"query": "create table notes (text)"}),
            Call("write_query", {"query": "insert into notes values ('tea')"}),
            Call("read_query", {"query": "select * from notes"}),
        ],
    ),
    "memory": (
        ["--env", "MEMORY_FILE_PATH={folder}/memory.jsonl"],
        ["mcp-server-memory"],
        [NODES, Call("open_nodes", {"names": ["Ada"]})],
    ),
    "filesystem": (
        [
            "--files",
            "repository",
            "--compared",
            "*.txt",
            *("--without", "get_file_info", "--without", "read_media_file"),
        ],
        ["mcp-server-filesystem", "{folder}"],
        [
            Call("write_file", {"path": "/world/b.txt", "content": "x"}),
            Call("read_text_file", {"path": "/world/b.txt"}),
        ],
    ),
    "everything": (
        ["--probe", "get-sum(a=1, b=2)", "--without", "trigger-long-running-operation", "--without", "get-env"],
        ["mcp-server-everything"],
        [Call("echo", {"message": "hello"}), Call("get-tiny-image", {})],
    ),
}


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Environment]:
    monkeypatch.chdir(tmp_path)
    Path("repository").mkdir()
    Path("repository", "a.txt").write_text("milk")
    git = ["git", "-C", "repository", "-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    dates = {**os.environ, "GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "First"]):
        subprocess.run([*git, *command], env=dates, check=True)
    for key, value in (("user.name", "Ann"), ("user.email", "ann@example.org")):
        subprocess.run([*git, "config", key, value], check=True)
    Path("repository", "new.txt").write_text("new")

    def describe(name: str) -> Environment:
        options, command, _ = SERVERS[name]
        assert run(["env", "add", name, *options, "--", *command]) == 0
        return Environments().load(f"{name}.json")

    return describe


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_keeps_the_promises_of_the_seam(name: str, described: Callable[[str], Environment]) -> None:
    environment, calls = described(name), SERVERS[name][2]
    task = Task(reference(environment), "base", ("Go.",), (tuple(calls),), tuple(environment.tools()))
    Path("tasks.jsonl").write_bytes(task_lines([task]))
    assert run(["env", "check", f"{name}.json", "--tasks", "tasks.jsonl"]) == 0


def test_64_interleaved_episodes_never_see_each_others_marks(described: Callable[[str], Environment]) -> None:
    environment = described("memory")
    worlds = {number: environment.reset(None) for number in range(64)}
    order = [number for number in worlds for _ in range(3)]
    random.Random(0).shuffle(order)
    for step, number in enumerate(order):
        entity = {"name": f"w{number}-{step}", "entityType": "mark", "observations": []}
        assert worlds[number].call(Call("create_entities", {"entities": [entity]})).error is None
    for number, world in worlds.items():
        marks = world.call(Call("read_graph")).value["entities"]
        assert len(marks) == 3 and all(mark["name"].startswith(f"w{number}-") for mark in marks)


def test_after_many_episodes_no_process_is_left(described: Callable[[str], Environment]) -> None:
    from worlds.mcp.sessions import end_all

    environment = described("memory")
    for _ in range(int(os.environ["RODS_MCP"])):
        assert environment.reset(None).call(NODES).error is None
    del environment
    gc.collect()
    end_all()
    found = subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "mcp-server"], capture_output=True, check=False)
    assert not found.stdout
