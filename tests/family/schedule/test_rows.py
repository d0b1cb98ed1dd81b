"""Rows that others wrote: files, data sets, folders of Harbor's tasks, tasksets of verifiers."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rods.errors import UserError
from rods.family.schedule.rows import tasks_of


def test_a_file_has_a_row_a_line(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"q": 1}\n\n{"q": 2, "id": 7, "domain": "sums"}\n{"q": 1}\n')
    tasks = tasks_of(file)
    assert [(task.domain, task.row["q"]) for task in tasks] == [("", 1), ("sums", 2)]
    assert tasks[1].id == "7"
    assert tasks_of(str(file), domain="q")[0].domain == "1"
    assert [task.id for task in tasks_of([dict(task.row) for task in tasks])] == [
        task.id for task in tasks
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no tasks"),
        ('{"q": 1}\n{"q": ', "prompts.jsonl:2"),
        ('{"q": 1}\n[3]\n', "row 2"),
        ("3\n", "row 1"),
        ('{"id": "a", "q": 1}\n{"id": "a", "q": 2}\n', "another row has the id 'a'"),
    ],
)
def test_what_is_no_row_is_named(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(text)
    with pytest.raises(UserError, match=words):
        tasks_of(file)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read tasks"):
        tasks_of(tmp_path / "none.jsonl")
    with pytest.raises(UserError, match=r"no task\.toml"):
        tasks_of(tmp_path)
    with pytest.raises(UserError, match="→ install the package"):
        tasks_of("verifiers:nothing-of-this-name")
    with pytest.raises(UserError, match="column `id`"):
        tasks_of([{"picture": object()}])
    assert tasks_of([{"id": 1, "picture": object()}])[0].id == "1"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, "a NoneType is no source"),
        ({"train": [{"q": 1}]}, "a dict is no source"),
        ([{"q": 1}, "id"], "list, row 2: it is a str"),
        ([{"id": "a\ud800"}], "list, row 1: .* surrogates"),
        ([{"id": "a", "domain": "\ud800"}], "list, row 1: .* surrogates"),
        ([{"id": 1, "v": np.array([1, 2])}, {"id": 1, "v": np.array([1, 3])}], "list, row 2: "),
    ],
)
def test_what_is_no_source_is_named(source: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        tasks_of(source)


@pytest.mark.parametrize("table", ["task = 3", "metadata = 'x'", "[[task]]\nname = 'a'"])
def test_a_task_of_harbors_that_is_no_table_is_named(table: str, tmp_path: Path) -> None:
    (tmp_path / "task.toml").write_text(table)
    (tmp_path / "instruction.md").write_text("Write it.")
    with pytest.raises(UserError, match=r"task\.toml: `task` or `metadata` is no table"):
        tasks_of(tmp_path)


def test_a_data_set_is_loaded_by_path_and_by_name(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_list([{"q": "one", "domain": "a"}, {"q": "two", "domain": "b"}])
    rows.save_to_disk(tmp_path / "saved")
    (tmp_path / "named").mkdir()
    rows.to_json(tmp_path / "named" / "train.jsonl")
    for source in (rows, tmp_path / "saved", f"datasets:{tmp_path / 'named'}"):
        assert [(task.domain, task.row["q"]) for task in tasks_of(source)] == [
            ("a", "one"),
            ("b", "two"),
        ]
    with pytest.raises(UserError, match=f"datasets:{tmp_path}/none: "):
        tasks_of(f"datasets:{tmp_path}/none")


def test_a_folder_of_harbors_has_a_row_a_task(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    steps = tmp_path / "steps"
    for folder in (plain, steps):
        folder.mkdir()
    (plain / "task.toml").write_text(
        '[task]\nname = "me/plain"\n[metadata]\ncategory = "files"\n', encoding="utf-8"
    )
    (plain / "instruction.md").write_text("Write it.", encoding="utf-8")
    (steps / "task.toml").write_text('schema_version = "1.4"\n', encoding="utf-8")
    for turn in (2, 1):
        (steps / "steps" / f"turn-{turn}").mkdir(parents=True)
        (steps / "steps" / f"turn-{turn}" / "instruction.md").write_text(str(turn))
    tasks = tasks_of(tmp_path)
    assert [(task.id, task.domain, task.row["instruction"]) for task in tasks] == [
        ("me/plain", "files", "Write it."),
        ("steps", "", "1"),
    ]
    assert tasks_of(plain)[0].row["path"] == str(plain)
    (plain / "instruction.md").unlink()
    with pytest.raises(UserError, match="cannot read what the agent is told"):
        tasks_of(tmp_path)


def test_a_taskset_of_verifiers_has_a_row_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    class Data:
        def model_dump(self, **_: object) -> dict[str, object]:
            return {"idx": 0, "prompt": "one"}

    class Taskset(list[object]):
        bounded = True

    tasks = Taskset([SimpleNamespace(key="k1", data=Data())])
    package = ModuleType("verifiers")
    package.v1 = SimpleNamespace(  # type: ignore[attr-defined]
        taskset_config_type=lambda name: SimpleNamespace, load_taskset=lambda config: tasks
    )
    monkeypatch.setitem(sys.modules, "verifiers", package)
    assert [(task.id, task.row["prompt"]) for task in tasks_of("verifiers:mine")] == [("k1", "one")]
    tasks.bounded = False
    with pytest.raises(UserError, match="without an end"):
        tasks_of("verifiers:mine")
