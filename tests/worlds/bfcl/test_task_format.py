"""BFCL's own format: what we write is what the benchmark writes, and comes back as the same
task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from rods.errors import UserError
from rods.tasks import TASK_TYPES, Task, TaskType
from rods.worlds import desk
from rods.worlds.bfcl import environment, fetch, task_format, tasks, wheel
from rods.worlds.bfcl.tasks import FILE, records, task_of
from tests.worlds.bfcl.writing import variants

pytestmark = pytest.mark.slow


def read(folder: Path) -> list[Task]:
    """The tasks in `folder`, by type and in order."""
    found: list[Task] = []
    for kind in TASK_TYPES:
        if not (folder / FILE.format(kind)).exists():
            continue
        questions, answers = (
            [orjson.loads(line) for line in (part / FILE.format(kind)).read_bytes().splitlines()]
            for part in (folder, folder / "possible_answer")
        )
        for entry, answer in zip(questions, answers, strict=True):
            assert answer["id"] == entry["id"]
            found.append(
                task_of(environment(), kind, entry, answer["ground_truth"], **entry["rods"])
            )
    return found


def test_the_benchmarks_own_tasks_come_out_as_they_went_in() -> None:
    file = fetch()
    kinds: tuple[tuple[TaskType, int], ...] = ("base", 0), ("miss_func", 400)
    for kind, start in kinds:
        theirs, answers = records(file, kind)
        for place in range(0, 200, 23):
            task = tasks()[start + place]
            entry = task_format.entry(task, place)
            for key in ("id", "initial_config", "involved_classes", "path"):
                assert entry[key] == theirs[place][key] or key == "path"
            assert entry.get("missed_function", {}) == theirs[place].get("missed_function", {})
            assert [bool(turn) for turn in entry["question"]] == [
                bool(turn) for turn in theirs[place]["question"]
            ]
            assert len(task_format.answer(task, place)["ground_truth"]) == len(answers[place])


def test_variants_come_back_with_the_same_ids_split_and_provenance(tmp_path: Path) -> None:
    made = [task for _, task in variants()]
    counts = task_format.write(made, tmp_path / "out")
    assert counts.total() == len(made)
    back = read(tmp_path / "out")
    assert sorted(task.id for task in back) == sorted(task.id for task in made)
    ours = {task.id: task for task in made}
    assert all(
        task.as_json() == orjson.loads(orjson.dumps(ours[task.id].as_json())) for task in back
    )


def test_all_800_originals_survive_the_way_out_and_back(tmp_path: Path) -> None:
    fetch()
    task_format.write(tasks(), tmp_path)
    assert [task.id for task in read(tmp_path)] == [task.id for task in tasks()]


def test_documents_are_the_wheels(tmp_path: Path) -> None:
    _, made = variants()[0]
    task_format.write([made], tmp_path)
    (document, *_) = sorted((tmp_path / "multi_turn_func_doc").iterdir())
    assert (
        document.read_bytes()
        == wheel.read(fetch(), f"data/multi_turn_func_doc/{document.name}").rstrip(b"\n") + b"\n"
    )


@pytest.mark.parametrize("what", ["environment", "tools", "snapshot", "type"])
def test_what_the_format_cannot_say_is_refused(what: str) -> None:
    _, made = next(pair for pair in variants() if pair[1].type == "base")
    wrong = {
        "environment": desk.generate(1, 1, 0)[0],
        "tools": replace(made, tools=made.tools[1:], calls=((),) * len(made.calls), id=""),
        "snapshot": replace(made, state={**(made.state or {}), "objects": {}}, id=""),
        "type": replace(made, state={**(made.state or {}), "long_context": True}, id=""),
    }[what]
    with pytest.raises(UserError):
        task_format.entry(wrong, 1000)
