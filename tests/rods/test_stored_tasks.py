"""The tasks of a run stay bytes until they are asked for, and nothing that changed is believed."""

from __future__ import annotations

import gc
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from rods import stored_tasks
from rods.errors import RefusedError, UserError
from rods.stored_tasks import KEPT, Columns, Tasks
from rods.tasks import AnyTask, OpenTask, Task, checked_lines, read_tasks, task_lines
from rods.worlds import desk

SCRIPTED = desk.generate(7, 12, 4)
GIVEN = (*SCRIPTED, *desk.generate_personas(7, 2, 2))


def opened(path: Path) -> Tasks:
    return Tasks(Columns.open(path, hashlib.sha256(path.read_bytes()).hexdigest(), path / "none"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(task_lines(GIVEN[:3]) + b"\n" + task_lines(GIVEN[3:]))
    return path


def test_tasks_are_those_of_the_file_by_place_and_by_id(file: Path) -> None:
    tasks = opened(file)
    assert [*tasks] == [*GIVEN] == read_tasks(file)
    assert (tasks[3], tasks[-1], tasks[2:5]) == (GIVEN[3], GIVEN[-1], [*GIVEN[2:5]])
    with pytest.raises(IndexError):
        _ = tasks[len(GIVEN)]
    by_id = tasks.by_id
    assert [*by_id] == [task.id for task in GIVEN] and len(by_id) == len(GIVEN)
    assert [by_id[task.id] for task in GIVEN] == [*by_id.values()] == [*GIVEN]
    for other in ("", "f" * 20, GIVEN[0].id[:-1], GIVEN[0].id + "0", "\udcff", 7):
        assert other not in by_id
    assert by_id.get("f" * 20) is None


def test_few_tasks_are_read_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = opened(file)
    train = tasks.of_splits(["train"])
    assert 0 < len(train) < len(tasks)
    read = [*tasks]
    monkeypatch.delattr(Tasks, "_parsed")
    assert [id(task) for task in tasks] == [*map(id, read)]
    assert [*map(id, train)] == [id(task) for task in read if task.split == "train"]
    assert train.by_id[train[0].id] is train[0]


def test_columns_say_what_rules_ask(file: Path) -> None:
    tasks = opened(file)
    assert [*tasks.ids] == [task.id for task in GIVEN]
    assert [*tasks.types] == [task.type for task in GIVEN]
    opens = tasks.where("open", 1)
    assert [*opens] == [task for task in GIVEN if isinstance(task, OpenTask)]
    assert opens.by_id.keys() == {task.id for task in opens}
    assert tasks.columns.environments == {"desk": 0}
    assert tasks.of_environment("desk") is tasks and not len(tasks.of_environment("other"))
    assert tasks.columns.tools == sorted({name for task in GIVEN for name in task.tools})


def test_each_environment_has_its_own(tmp_path: Path) -> None:
    where = replace(GIVEN[0].environment, name="another")
    given: list[AnyTask] = [GIVEN[0], replace(GIVEN[1], environment=where, id=""), GIVEN[2]]
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(task_lines(given))
    tasks = opened(path)
    assert [*tasks.of_environment("another")] == given[1:2]
    assert [*tasks.of_environment("desk")] == given[::2]


def test_a_second_opening_looks_at_no_line(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = opened(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    kept = file.with_name("columns")
    kept.write_bytes(tasks.columns.kept(digest))
    read = []

    def reading(path: Path) -> object:
        read.append(path)
        return checked_lines(path)

    monkeypatch.setattr(stored_tasks, "checked_lines", reading)
    again = Columns.open(file, digest, kept)
    assert not read and again == tasks.columns
    assert [*Tasks(again)] == [*GIVEN]
    os.utime(file)  # it may have changed, and has not
    assert Columns.open(file, digest, kept) == tasks.columns and read == [file]


@pytest.mark.parametrize("damage", ["flipped", "cut", "longer", "empty", "version"])
def test_columns_that_are_not_as_they_were_written_are_not_believed(
    file: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    kept = file.with_name("columns")
    content = opened(file).columns.kept(digest)
    if damage == "version":
        monkeypatch.setattr(stored_tasks, "VERSION", stored_tasks.VERSION + 1)
    damaged = {"cut": content[:-5], "longer": content + b"0" * 51, "empty": b""}
    places = range(0, len(content), 7) if damage == "flipped" else (0,)
    for place in places:
        flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        kept.write_bytes(damaged.get(damage, content if damage == "version" else flipped))
        assert Columns.open(file, digest, kept).ids == [task.id for task in GIVEN]


def test_another_file_is_refused_at_its_opening(file: Path) -> None:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    kept = file.with_name("columns")
    kept.write_bytes(opened(file).columns.kept(digest))
    file.write_bytes(file.read_bytes().replace(b"desk", b"disk", 1))
    for columns in (kept, file / "none"):
        with pytest.raises(RefusedError, match="not those that the run was created with"):
            Columns.open(file, digest, columns)


def test_a_line_that_changes_unseen_is_refused_when_it_is_read(file: Path) -> None:
    tasks = opened(file)
    before = file.stat()
    content = file.read_bytes()
    assert b'"split":"train"' in content
    file.write_bytes(content.replace(b'"split":"train"', b'"split":"tests"', 1))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(RefusedError, match="not those that the run was created with"):
        _ = tasks[0]
    assert tasks[1] == GIVEN[1]
    file.write_bytes(content[:100])
    with pytest.raises(RefusedError):
        _ = tasks[2]
    file.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        _ = tasks[3]


def test_a_forged_line_is_refused_with_its_place(file: Path) -> None:
    tasks = opened(file)
    columns = tasks.columns
    start = columns.numbers["start"][1]
    size = columns.numbers["length"][1]
    content = bytearray(file.read_bytes())
    for forged, why in ((b"{" * size, "object|JSON|char"), (b"[1]".ljust(size), "object|dict")):
        content[start : start + size] = forged
        file.write_bytes(content)
        columns.numbers["checksum"][1] = stored_tasks._checksum(forged)
        with pytest.raises(UserError, match=rf"jsonl, byte {start}.*{why}|{why}"):
            _ = Tasks(columns)[1]


def test_few_tasks_are_kept_as_objects(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    count = KEPT + 50
    path.write_bytes(
        task_lines(
            replace(SCRIPTED[0], script=(f"{number}", *SCRIPTED[0].script[1:]), id="")
            for number in range(count)
        )
    )
    tasks = opened(path)
    played = [task.id for task in tasks] + [tasks[place].id for place in range(count)]
    assert played == 2 * [*tasks.ids]
    kept = set(map(id, tasks[-KEPT:]))
    there = [
        entry for entry in gc.get_objects() if isinstance(entry, Task) and entry.id in tasks.by_id
    ]
    assert set(map(id, there)) == kept and len(kept) == KEPT
