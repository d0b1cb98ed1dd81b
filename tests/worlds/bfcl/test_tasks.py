"""The 800 tasks: types, tools, missed functions, the split, stable ids."""

from __future__ import annotations

import hashlib
import time
from collections import Counter

from rods.episode.goals import GroundTruth
from rods.tasks import RETURN_SENTENCE, TASK_TYPES, Task, read_tasks, task_lines
from rods.worlds.bfcl import tasks as all_tasks

# Ids hash the environment's hash and so change with it. A change here means that every run folder
# with BFCL tasks names other tasks than before: it must be meant.
IDS = "3e9c6227f1f19a67700b"


def test_there_are_200_tasks_of_every_type_with_18_to_39_tools(tasks):
    assert Counter(task.type for task in tasks) == dict.fromkeys(TASK_TYPES, 200)
    assert {min(len(task.tools) for task in tasks), max(len(task.tools) for task in tasks)} == {
        18,
        39,
    }
    assert sum(len(turn) for task in tasks for turn in task.calls) == 4625


def test_ids_are_stable(tasks):
    assert len({task.id for task in tasks}) == 800
    assert hashlib.sha256("".join(task.id for task in tasks).encode()).hexdigest()[:20] == IDS


def test_the_second_reading_is_at_once(tasks):
    start = time.process_time()
    assert all_tasks() == tasks
    assert time.process_time() - start < 0.1


def test_the_split_is_that_of_the_papers_and_siblings_stay_together(tasks):
    assert Counter(task.split for task in tasks) == {"train": 400, "validation": 100, "test": 300}
    sides: dict[str, set[str]] = {}
    for task in tasks:
        sides.setdefault(task.provenance["id"].rsplit("_", 1)[1], set()).add(task.split)
    assert len(sides) == 200
    assert all(len(split) == 1 for split in sides.values())
    # random.Random(42).shuffle(list(range(200))): the first number of each side
    assert (sides["66"], sides["174"], sides["119"]) == ({"train"}, {"validation"}, {"test"})


def test_missed_functions_are_held_out_and_return_with_the_fixed_sentence(tasks):
    missing = [task for task in tasks if task.type == "miss_func"]
    for task in missing:
        (turn,) = task.later_tools
        assert task.script[turn] == RETURN_SENTENCE
        assert task.calls[turn], "what was asked in vain is done when the tools are back"
        assert not set(task.later_tools[turn]) & set(task.tools_at(turn - 1))
        assert set(task.later_tools[turn]) <= set(task.tools_at(turn))
        assert any(not calls for calls in task.calls[:turn])
    assert all(not task.later_tools for task in tasks if task.type != "miss_func")
    assert all(RETURN_SENTENCE not in task.script for task in tasks if task.type != "miss_func")


def test_provenance_and_state_say_where_a_task_comes_from(tasks):
    task = next(task for task in tasks if task.provenance["id"] == "multi_turn_long_context_7")
    assert task.provenance["version"] == "2026.3.23"
    assert task.provenance["category"] == "multi_turn_long_context"
    assert task.state["long_context"] is True
    assert set(task.state["classes"]) <= set(task.state["config"]) | {"MathAPI"}


def test_positional_arguments_are_bound_by_the_signature(tasks, bfcl):
    calls = [call for task in tasks for turn in task.calls for call in turn]
    for call in calls:
        assert set(call.arguments) <= set(bfcl.tools()[call.name].parameter_names)
    assert any(
        call.as_json() == {"name": "sort", "arguments": {"file_name": "final_report.pdf"}}
        for call in calls
    )


def test_tasks_survive_a_file_with_their_worlds(tasks, bfcl, tmp_path):
    """Worlds depend on the order of their keys (the first root counts), ids do not: a file must
    keep it."""
    chosen = tasks[::7] + [task for task in tasks if task.provenance["id"].endswith(("_5", "_33"))]
    chosen = list({task.id: task for task in chosen}.values())
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(task_lines(chosen))
    for task, read in zip(chosen, read_tasks(file), strict=True):
        assert isinstance(read, Task) and read == task
        assert GroundTruth(bfcl, read).needed == GroundTruth(bfcl, task).needed
