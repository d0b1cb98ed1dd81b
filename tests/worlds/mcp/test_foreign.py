"""MCP servers that nobody here wrote: `make mcp-servers` fetches them and runs this."""

from __future__ import annotations

import gc
import os
import random
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.calls import Call
from rods.console.main import run
from rods.environments.base import Environment, Result, reference
from rods.environments.loading import Environments
from rods.tasks import Task, task_lines
from tests.worlds.mcp.forks import agreed

pytestmark = pytest.mark.skipif(
    not os.environ.get("RODS_MCP"), reason="needs foreign servers: make mcp-servers"
)
DATE = "2026-01-05T09:00:00Z"
NODES = Call(
    "create_entities",
    {"entities": [{"name": "Ada", "entityType": "person", "observations": ["likes tea"]}]},
)
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
            *("--fails", "begins=Error", "--fails", "begins=Database error:"),
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
            *("--fails", "begins=.+: Error - ENOENT"),
        ],
        ["mcp-server-filesystem", "{folder}"],
        [
            Call("write_file", {"path": "/world/b.txt", "content": "x"}),
            Call("read_text_file", {"path": "/world/b.txt"}),
        ],
    ),
    "everything": (
        [
            "--probe",
            "get-sum(a=1, b=2)",
            "--without",
            "trigger-long-running-operation",
            "--without",
            "get-env",
        ],
        ["mcp-server-everything"],
        [Call("echo", {"message": "hello"}), Call("get-tiny-image", {})],
    ),
}
RUN = """
sync = "lockstep"
[data]
tasks = "tasks.jsonl"
[pipeline]
author = "llm"
[operation]
deadline_seconds = 3000
[[operation.endpoints]]
model = "stub"
urls = ["{url}"]
[policy]
kind = "simulated"
growth = 0.02
[selection]
seeds_per_step = 2
exclusion_steps = 1
[rollouts]
rollouts_per_task = 4
[training]
batch_tasks = 6
steps = 3
"""


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
def test_a_server_keeps_the_promises_of_the_seam(
    name: str, described: Callable[[str], Environment]
) -> None:
    environment = described(name)
    calls = SERVERS[name][2]
    task = Task(
        reference(environment), "base", ("Go.",), (tuple(calls),), tuple(environment.tools())
    )
    Path("tasks.jsonl").write_bytes(task_lines([task]))
    assert run(["env", "check", f"{name}.json", "--tasks", "tasks.jsonl"]) == 0


def memory_call(chance: random.Random, seen: Sequence[Result]) -> Call:
    one, other = chance.sample(["Ada", "Bruno", "Chen"], 2)
    fact = chance.choice(["likes tea", "has a cat"])
    entity = {"name": one, "entityType": "person", "observations": [fact]}
    some = [
        *[Call("create_entities", {"entities": [entity]})] * 3,
        Call(
            "create_relations", {"relations": [{"from": one, "to": other, "relationType": "knows"}]}
        ),
        Call("add_observations", {"observations": [{"entityName": one, "contents": [fact]}]}),
        Call("delete_entities", {"entityNames": [one]}),
        Call("open_nodes", {"names": [one]}),
        Call("search_nodes", {"query": "tea"}),
        Call("read_graph"),
    ]
    return chance.choice(some)


def test_copies_and_equality_agree_with_worlds_of_their_own_on_random_calls(
    described: Callable[[str], Environment],
) -> None:
    sequences = max(int(os.environ["RODS_MCP"]) // 5, 2)
    found = agreed(described("memory"), memory_call, sequences)
    assert found[True] and found[False] and found.total() == sequences


def test_64_interleaved_episodes_never_see_each_others_marks(
    described: Callable[[str], Environment],
) -> None:
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


CHORES = {  # a file: what it says, where it moves, and what is put right there
    "garden.txt": ("Water the roses", "shed.txt", "tulips"),
    "kitchen.txt": ("Sharpen the knives", "cellar.txt", "scissors"),
    "journey.txt": ("Pack the tent", "luggage.txt", "lantern"),
    "office.txt": ("Order the paper", "drawer.txt", "envelopes"),
    "party.txt": ("Invite the neighbours", "music.txt", "cousins"),
    "winter.txt": ("Wax the skis", "attic.txt", "sledge"),
}


def test_a_variant_of_a_servers_tasks_is_written_injected_and_replayed(
    described: Callable[[str], Environment], capsys: pytest.CaptureFixture[str]
) -> None:
    environment = described("filesystem")
    tasks = []
    for path, (text, other, new) in CHORES.items():
        edit = {"oldText": text.split()[-1], "newText": new}
        turns = {
            f"Move {path} to {other}.": (
                Call("move_file", {"source": path, "destination": other}),
            ),
            f"Put '{new}' instead of '{edit['oldText']}' into {other}, then list '/world'.": (
                Call("edit_file", {"path": other, "edits": [edit]}),
                Call("list_directory", {"path": "/world"}),
            ),
        }
        script = tuple(turns)
        calls = tuple(turns.values())
        state = {"files": {path: text, "ideas.txt": "Paint the fence"}}
        tasks.append(
            Task(
                reference(environment),
                "base",
                script,
                calls,
                tuple(environment.tools()),
                state=state,
            )
        )
    Path("tasks.jsonl").write_bytes(task_lines(tasks))
    with Stub(Script(answer="bench.fixtures.llm_stub.roles:answer")) as stub:
        Path("run.toml").write_text(RUN.format(url=stub.url))
        assert run(["up", "kept", "--config", "run.toml"]) == 0
    capsys.readouterr()
    assert run(["status", "kept", "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["injected"] >= 1
    assert run(["verify", "kept", "--replay"]) == 0, capsys.readouterr()
    for line in Path("kept", "expanded_epoch_0000.jsonl").read_bytes().splitlines():
        task = orjson.loads(line)["task"]
        assert task["state"] not in [each.state for each in tasks], "a world of its own"
        assert any(call["arguments"] for turn in task["goal"]["calls"] for call in turn)


def test_after_many_episodes_no_process_is_left(described: Callable[[str], Environment]) -> None:
    from rods.worlds.mcp.sessions import end_all

    environment = described("memory")
    for _ in range(int(os.environ["RODS_MCP"])):
        assert environment.reset(None).call(NODES).error is None
    del environment
    gc.collect()
    end_all()
    found = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", "mcp-server"], capture_output=True, check=False
    )
    assert not found.stdout
