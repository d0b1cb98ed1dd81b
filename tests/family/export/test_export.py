"""`rods data export`: tables that read back equal, and that `datasets` opens by the card."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from datasets import get_dataset_config_names, load_dataset

from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED
from rods.buffers.state import RunState, read_state
from rods.console.main import run as rods
from rods.family.export.verbs import TABLES
from rods.tasks import AnyTask
from tests.console.test_labels import labelled  # noqa: F401 (a run with traces)
from tests.worlds.bfcl.test_task_format import read


@pytest.fixture(scope="module")
def exported(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "tables"
    assert rods(["data", "export", str(finished_run), str(folder)]) == 0
    return folder


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
    kept = table(tmp_path / "tables", "chats")
    traces = table(tmp_path / "tables", "traces")
    assert kept
    for chat, trace in zip(kept, traces, strict=True):
        assert chat["messages"] == trace["record"]["messages"] and chat["reward"] == trace["reward"]
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
