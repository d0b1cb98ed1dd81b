"""`rods data export`: tables that read back equal, and that `datasets` opens by the card."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from datasets import get_dataset_config_names, load_dataset

import rods as rods_api
from rods import dialects
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED
from rods.buffers.state import RunState, read_state
from rods.console.main import run as rods
from rods.dialects import Dialect
from rods.environments.base import Environment
from rods.episode.drivers import Job, Running
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import goal_of
from rods.family.export.verbs import TABLES
from rods.tasks import AnyTask, read_tasks, scripted
from tests.console.test_labels import _keep, labelled  # noqa: F401 (a run with traces)
from tests.environments import load
from tests.worlds.bfcl.test_task_format import read


@pytest.fixture(scope="module")
def exported(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "tables"
    assert rods(["data", "export", str(finished_run), str(folder)]) == 0
    return folder


ORACLE = """
[data]
tasks = "desk"
train = 8
held_out = 4
[policy]
kind = "simulated"
dialect = "{}"
[rollouts]
rollouts_per_task = 2
[training]
batch_tasks = 8
steps = 1
[selection]
seeds_per_step = 0
"""
SLIPS = {"hermes": "<tool_call>[", "tags": "<tool_call>[", "compact": "! "}  # malformed replies


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    rows = [orjson.loads(line) for line in (folder / f"{name}.jsonl").read_bytes().splitlines()]
    return [
        row | {"record": orjson.loads(row["record"])} if "record" in row else row for row in rows
    ]


def test_the_rows_are_what_the_run_has_on_record(finished_run: Path, exported: Path) -> None:
    run = Run.open(finished_run)
    state = read_state(run)
    tasks, variants, groups = (table(exported, name) for name in ("tasks", "variants", "groups"))
    assert {row["task"] for row in tasks} == set(state.active)
    assert all(AnyTask.from_json(row["record"]) == state.task(row["task"]) for row in tasks)
    assert sum(row["origin"] == "variant" for row in tasks) == len(state.pool.generated) > 0
    assert [row["record"] for row in variants] == [
        record["task"] for record in state.records(EXPANDED)
    ]
    assert sum(row["state"] == "active" for row in variants) == len(state.pool.generated)
    assert sum(row["state"] == "staged" for row in variants) == len(state.staging)
    assert sum(row["injected"] is not None for row in variants) == len(state.pool.injected)
    last = {
        record["task"]: record
        for record in state.decisions()
        if record["kind"] in ("retired", "revived")
    }
    left = {task: record["rule"] for task, record in last.items() if record["kind"] == "retired"}
    assert (
        last and {row["task"]: row["why"] for row in variants if row["state"] == "retired"} == left
    )
    live = [record for step in RunState(run).steps() for record in step.records]
    assert [row["record"] for row in groups] == live and len(live) == 14 * 8
    held_out = {task.id for task in run.tasks if task.split != "train"}
    assert held_out and not held_out & {row["task"] for row in (*tasks, *variants, *groups)}


def test_datasets_opens_every_table_by_the_card(
    exported: Path,
    labelled: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    assert rods(["data", "export", str(labelled), str(tmp_path / "traced")]) == 0
    for folder in (exported, tmp_path / "traced"):
        assert set(get_dataset_config_names(str(folder))) == set(TABLES)
        for name in [name for name in TABLES if table(folder, name)]:
            rows = load_dataset(str(folder), name, split="train", cache_dir=str(tmp_path / "cache"))
            told = [
                row | {"record": orjson.loads(row["record"])} if "record" in row else row
                for row in rows
            ]
            assert told == table(folder, name)


def test_where_it_fails_nothing_is_left(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    folder = tmp_path / "tables"
    shutil.copytree(finished_run, run)
    with (run / EXPANDED.replace("*", "0000")).open("r+b") as file:
        file.write(b"[")  # the second table's; the first is written by then
    assert rods(["data", "export", str(run), str(folder)]) == 2
    assert "damaged record" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_kept_traces_leave_as_conversations_with_their_tools(
    labelled: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    assert rods(["data", "export", str(labelled), str(tmp_path / "tables")]) == 0
    assert "synthetic" not in (tmp_path / "tables" / "README.md").read_text()
    kept = table(tmp_path / "tables", "chats")
    traces = table(tmp_path / "tables", "traces")
    assert kept
    for chat, trace in zip(kept, traces, strict=True):
        assert chat["reward"] == trace["reward"] and chat["world"] == "desk"
        steps = [step for turn in trace["record"]["turns"] for step in turn["steps"]]
        replies = [one for one in chat["messages"] if one["role"] == "assistant"]
        made = [
            {**called["function"], "arguments": orjson.loads(called["function"]["arguments"])}
            for reply in replies
            for called in reply.get("tool_calls", ())
        ]
        assert made == [call for step in steps for call in step["calls"]]
        assert [one["content"] for one in replies] == [
            None if step["calls"] else step["text"] for step in steps
        ]
        heard = [one["content"] for one in chat["messages"] if one["role"] == "tool"]
        assert heard == [result["text"] for step in steps for result in step["results"]]
        tools = orjson.loads(chat["tools"])
        assert tools and all(tool["function"]["parameters"]["type"] == "object" for tool in tools)


def test_a_trace_that_cannot_be_read_is_named_and_the_others_leave(
    labelled: Path,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(labelled, run := tmp_path / "spoilt")
    first, second, *_ = sorted((run / "traces").rglob("*.gz"))
    lines = gzip.decompress(first.read_bytes()).splitlines()
    first.write_bytes(gzip.compress(b"\n".join([lines[0], b'{"slot": 99}', b"[", *lines[1:]])))
    second.write_bytes(second.read_bytes()[:-20])
    assert rods(["data", "export", str(run), str(tmp_path / "tables")]) == 1
    said = capsys.readouterr().out
    assert f"{first}:2" in said and f"{first}:3" in said and f"{second}: cannot be unpacked" in said
    assert len(table(tmp_path / "tables", "traces")) >= len(lines)
    assert table(tmp_path / "tables", "tasks") and table(tmp_path / "tables", "chats")


@pytest.mark.needs("conversations")
@pytest.mark.parametrize("dialect", ["hermes", "tags", "compact"])
def test_conversations_that_leave_come_back_as_the_same_tasks(tmp_path: Path, dialect: str) -> None:
    """A policy that makes the calls of the ground truth, and slips once before."""
    (tmp_path / "run.toml").write_text(ORACLE.format(dialect))
    spoken = dialects.load(dialect)  # type: ignore[arg-type]
    with rods_api.open_training(
        tmp_path / "run", lambda messages: "", config=tmp_path / "run.toml"
    ) as training:
        world = load("desk")
        for batch in training:
            played = [[oracle(world, task, spoken)] * 2 for task in batch.tasks]
            training.record(batch, played)
            _keep(tmp_path / "run", batch.step, played)
    assert rods(["data", "export", str(tmp_path / "run"), str(tmp_path / "tables")]) == 0
    log = str(tmp_path / "tables" / "chats.jsonl")
    rows = table(tmp_path / "tables", "chats")
    assert rods(["data", "import", "chats", log, "--world", "desk"]) == 1, "the second rollouts"
    again = read_tasks(tmp_path / "tables" / "chats.tasks.jsonl")
    given = [Run.open(tmp_path / "run").training[row["task"]] for row in rows[::2]]
    assert len(given) == 8 and [(task.texts, task.goal_calls, task.state) for task in again] == [
        (task.texts, task.goal_calls, task.state) for task in given
    ]
    assert [scripted(task, "this").calls for task in again] == [
        scripted(task, "this").calls for task in given
    ]


def oracle(world: Environment, task: AnyTask, dialect: Dialect) -> Trace:
    running = Running(Job(task, world, dialect, goal_of(world, task), max_steps=20))
    request = running.advance(None)
    slips = [True]
    turn = -1
    while isinstance(request, NeedText):
        calls = scripted(task, "this").calls[request.turn] if request.turn > turn else ()
        if calls and slips:
            slips.pop()
            text = SLIPS[dialect.name]
        else:
            turn = request.turn
            text = dialect.write(calls) if calls else dialect.answer("Done.")
        request = running.advance(Reply(text))
    return request


def test_the_card_has_the_hubs_tags_for_environments_and_data_sets(exported: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    about = hub.DatasetCard.load(exported / "README.md").data
    assert about.task_categories == ["reinforcement-learning"]
    assert about.tags == ["rl-environment", "tool-use", "synthetic"]
    assert [config["config_name"] for config in about.configs] == list(TABLES)


def test_the_card_says_where_the_rows_come_from(finished_run: Path, exported: Path) -> None:
    card = (exported / "README.md").read_text()
    run = Run.open(finished_run)
    assert f"desk ({run.manifest['environments']['desk']}); licence Apache-2.0" in card
    for name in ("tasks", "variants", "groups"):
        assert f"| {name} | {len(table(exported, name))} |" in card


def test_a_folder_that_holds_something_is_left_alone(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("x")
    assert rods(["data", "export", str(finished_run), str(tmp_path)]) == 3
    assert "is not empty" in capsys.readouterr().err and list(tmp_path.iterdir()) == [
        tmp_path / "mine"
    ]


@pytest.mark.needs("bfcl")
def test_a_pool_that_bfcl_cannot_hold_is_refused(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        rods(["data", "export", str(finished_run), str(tmp_path / "out"), "--format", "bfcl"]) == 2
    )
    assert "not a task in a plain BFCL state" in capsys.readouterr().err


def test_a_pool_of_bfcl_leaves_in_its_own_format(tmp_path: Path, wheel_file: Path) -> None:
    (tmp_path / "run.toml").write_text(
        '[data]\ntasks = "bfcl"\ntrain = 8\n[policy]\nkind = "simulated"\n[training]\nbatch_tasks '
        "= 8\nsteps = 1\n"
    )
    assert (
        rods(["trainer", "new", str(tmp_path / "run"), "--config", str(tmp_path / "run.toml")]) == 0
    )
    assert (
        rods(["data", "export", str(tmp_path / "run"), str(tmp_path / "out"), "--format", "bfcl"])
        == 0
    )
    given = sorted(Run.open(tmp_path / "run").training.values(), key=lambda task: task.texts)
    again = sorted(read(tmp_path / "out"), key=lambda task: task.texts)
    assert [(task.texts, task.goal_calls) for task in again] == [
        (task.texts, task.goal_calls) for task in given
    ]
    assert len(again) == 8
