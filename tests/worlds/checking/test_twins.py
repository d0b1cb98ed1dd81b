"""Tools that give the same are named, and found by calling them: `rods data check`, and `rods env
check` for the tasks that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import TypedDict

from rods.calls import Call
from rods.environments.base import reference
from rods.environments.typed import TypedEnvironment
from rods.tasks import Reads, Task, task_lines
from rods.worlds.checking.environments import check_environment
from rods.worlds.checking.task_files import check_file
from tests.environments import ENVIRONMENTS
from tests.worlds.garage import STRICT, WORLD, call, task


@dataclass
class Diary:
    pages: list[int] = field(default_factory=list)
    title: str = ""


class Written(TypedDict):
    day: str
    words: list[str]


def write_entry(diary: Diary, entry: Written, page: int) -> str:
    """Writes an entry on a page of the diary."""
    diary.pages.append(page)
    return f"written: {entry['words']}"


def send_letter(diary: Diary, text: str) -> str:
    """Sends a letter."""
    return "sent"


def rename(diary: Diary, title: str) -> str:
    """Renames the diary."""
    diary.title = title
    return "renamed"


DIARY: Any = TypedEnvironment(f"{__name__}:diary", Diary, behaviour=1)
for _function in (write_entry, send_letter, rename):
    DIARY.tool("Diary")(_function)


def diary() -> TypedEnvironment[Diary]:
    return DIARY


CLOSED = "Close the order of B-12, please, that stands on Monday's list."
TRUTH = (call("find_order", plate="B-12"), call("close_order", order=17))


def twins(path: Path, *tasks: Task) -> Sequence[str]:
    path.write_bytes(task_lines(tasks))
    report = check_file(path, ENVIRONMENTS)
    assert report.ok, report.lines()
    return [note for note in report.notes if " both give " in note]


def closed(reads: Reads | None = None, calls: Sequence[Call] = TRUTH) -> Task:
    return task((CLOSED, tuple(calls)), reads=reads)


def test_look_ups_that_another_tool_serves_are_noted(tmp_path):
    path = tmp_path / "tasks.jsonl"
    assert sorted(twins(path, closed())) == [
        "find_order and all_orders both give order=17 (line 1, turn 0): either is a way",
        "find_order and list_day both give order=17 (line 1, turn 0): either is a way",
    ]
    asked = task(("What does order 17 cost?", (call("price_of", order=17),)))
    assert not any("list_day" in note for note in twins(path, asked))
    # nothing else moves a car, whatever it is called
    alone = task(("Close order 17.", (call("close_order", order=17),)))
    assert twins(path, alone) == []


def test_under_all_it_is_told_that_only_the_first_counts(tmp_path):
    rule = ': only the first counts, unless "reads" is "asked"'
    notes = twins(tmp_path / "tasks.jsonl", task((CLOSED, TRUTH), world=STRICT), closed("all"))
    assert len(notes) == 2 and all(note.endswith(rule) for note in notes)


def test_a_pair_is_named_once_for_a_whole_file(tmp_path):
    tasks = [task((f"{CLOSED} Number {number}.", TRUTH)) for number in range(4)]
    assert len(twins(tmp_path / "tasks.jsonl", *tasks)) == 2


def test_arguments_of_which_nothing_of_the_state_shows_the_value_are_noted(tmp_path):
    """A diary of which the number of its entries alone is seen, and a letter that is never seen."""
    entry = call("write_entry", entry={"day": "monday", "words": ["rain"]}, page=1)
    calls = (entry, call("send_letter", text="Dear Bea"), call("rename", title="Blue"))
    one = Task(reference(DIARY), "base", ("Write.",), (calls,), tuple(DIARY.tools()))
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(task_lines([one]))
    report = check_file(path, ENVIRONMENTS)
    told = ": a wrong one counts as right, unless the state shows more"
    assert [note for note in report.notes if " with any " in note] == [
        f"write_entry with any entry leaves the same (line 1, turn 0){told}",
        f"send_letter with any text leaves the same (line 1, turn 0){told}",
    ]


@pytest.mark.slow
def test_env_check_names_them_for_the_tasks_it_is_given():
    report = check_environment(WORLD.name, ENVIRONMENTS, [closed()])
    assert sum("find_order and" in note for note in report.notes) == 2, report.lines()
