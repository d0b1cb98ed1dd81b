"""The 800 multi-turn tasks of the wheel as `Task` records, with the 400/400 split of the papers.

The split (002, 004, Environment Tuning): `random.Random(42)` shuffles the numbers 0–199; the first
100 are for training, 25 for validation, 75 for the test, the same numbers in all four categories.
"""

import random
from collections.abc import Sequence
from functools import cache as cached
from pathlib import Path
from typing import Any

from rods.calls import parse_python_call
from rods.canonical import JsonMapping, JsonObject
from rods.environments.base import reference
from rods.tasks import RETURN_SENTENCE, TASK_TYPES, Split, Task, TaskType
from rods.worlds.bfcl import wheel
from rods.worlds.bfcl.world import Bfcl, environment

TASKS_A_TYPE = 200
FILE = "BFCL_v4_multi_turn_{}.json"  # of one type, questions and answers alike


def tasks(cache: Path | None = None) -> list[Task]:
    """All 800 tasks in the order base, long_context, miss_func, miss_param; read once a process.

    Raises UserError when the wheel is missing or is not the pinned one.
    """
    return list(_tasks(wheel.path(cache)))


def splits() -> dict[int, Split]:
    """The side of each task number, 0–199."""
    numbers = list(range(TASKS_A_TYPE))
    random.Random(42).shuffle(numbers)
    cuts: tuple[tuple[Split, int, int], ...] = (
        ("train", 0, 100),
        ("validation", 100, 125),
        ("test", 125, 200),
    )
    return {number: side for side, start, end in cuts for number in numbers[start:end]}


@cached
def _tasks(file: Path) -> tuple[Task, ...]:
    bfcl = environment(file.parent)
    sides = splits()
    converted = list[Task]()
    origin = {"source": wheel.PACKAGE, "version": wheel.VERSION}
    for kind in TASK_TYPES:
        for entry, answer in zip(*records(file, kind), strict=True):
            about = {**origin, "id": entry["id"], "category": f"multi_turn_{kind}"}
            converted.append(
                task_of(
                    bfcl,
                    kind,
                    entry,
                    answer,
                    split=sides[int(entry["id"].rsplit("_", 1)[1])],
                    provenance=about,
                )
            )
    return tuple(converted)


def task_of(
    bfcl: Bfcl, kind: TaskType, entry: JsonMapping, answer: Sequence[Sequence[str]], **more: Any
) -> Task:
    """The task of an entry of the category `kind`, with the calls of its answer; `more`: split,
    provenance, id. Raises ValueError for what is no call with literal arguments, and for another
    content than the id says."""
    classes = entry["involved_classes"]
    parameters = bfcl.parameters()
    return Task(
        environment=reference(bfcl),
        type=kind,
        # a turn without a message is the one in which the held-out tools return
        script=tuple(
            " ".join(message["content"] for message in turn) if turn else RETURN_SENTENCE
            for turn in entry["question"]
        ),
        calls=tuple(tuple(parse_python_call(text, parameters) for text in turn) for turn in answer),
        tools=bfcl.tools_of(classes),
        later_tools={
            int(turn): tuple(names) for turn, names in entry.get("missed_function", {}).items()
        },
        state={
            "classes": classes,
            "config": entry["initial_config"],
            "long_context": kind == "long_context",
        },
        **more,
    )


def records(file: Path, kind: TaskType) -> tuple[list[JsonObject], list[list[list[str]]]]:
    """The wheel's own entries of one category, and their ground-truth call strings by turn, in the
    same order."""
    name = FILE.format(kind)
    entries, answers = (
        wheel.read_json_lines(file, f"data/{part}{name}") for part in ("", "possible_answer/")
    )
    truth = {answer["id"]: answer["ground_truth"] for answer in answers}
    return entries, [truth[entry["id"]] for entry in entries]
