"""Writes tasks in BFCL's own format: questions, answers, tool documents, as the wheel has them.

A folder holds, as the wheel's `data/` does, for each category

    BFCL_v4_multi_turn_<type>.json      an entry a line: id, question, initial_config, path, …
    possible_answer/BFCL_v4_multi_turn_<type>.json
                                        an answer a line: id, ground_truth (call strings by turn)
    multi_turn_func_doc/<module>.json   the documents of the classes in use, copied from the wheel

so that BFCL's tools read our variants. What their format cannot say (our task's id, side of the
split, provenance) stands in one more field, `rods`, which they ignore. Ids go on from 1000, clear
of the benchmark's own.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import orjson

from rods.canonical import JsonObject
from rods.errors import UserError
from rods.files import explained
from rods.gates.ground_truth import run
from rods.tasks import RETURN_SENTENCE, AnyTask, Task, scripted
from rods.worlds.bfcl import wheel
from rods.worlds.bfcl.catalogue.social import shared_mentions
from rods.worlds.bfcl.classes import MODULES
from rods.worlds.bfcl.tasks import FILE
from rods.worlds.bfcl.world import environment

FIRST_NUMBER = 1000
_REMEDY = "export tasks of the environment 'bfcl' that start from a plain state"


def entry(task: Task, number: int) -> JsonObject:
    """The task as an entry of its category's question file.

    Raises UserError for a task that the format cannot say: of another environment, from a snapshot,
    or with tools that are not exactly those of its classes; and for one whose ground truth the
    official checker would refuse.
    """
    state = task.state or {}
    if (
        task.environment.name != "bfcl"
        or not {"classes", "config"} <= state.keys()
        or "objects" in state
    ):
        raise UserError("not a task in a plain BFCL state", where=f"task {task.id}", remedy=_REMEDY)
    classes = list(state["classes"])
    if task.tools != environment().tools_of(classes):
        raise UserError(
            f"its tools are not exactly those of {', '.join(classes)}",
            where=f"task {task.id}",
            remedy=_REMEDY,
        )
    if bool(state.get("long_context")) != (task.type == "long_context"):
        raise UserError(
            f"its state does not fit the type {task.type}", where=f"task {task.id}", remedy=_REMEDY
        )
    if {"post_tweet", "mention"} <= {call.name for call in task.goal_calls}:
        for turn, index, why in shared_mentions(task, run(environment(), task)):
            raise UserError(
                why,
                where=f"task {task.id}, turn {turn}, call {index}",
                remedy="leave the task out, or post the tweet with mentions",
            )
    tools = environment().tools()
    record = {
        "id": f"multi_turn_{task.type}_{number}",
        "question": [
            []
            if turn in task.later_tools and text == RETURN_SENTENCE
            else [{"role": "user", "content": text}]
            for turn, text in enumerate(task.script)
        ],
        "initial_config": state["config"],
        "path": [f"{tools[call.name].group}.{call.name}" for call in task.goal_calls],
        "involved_classes": classes,
        "excluded_function": [],
    }
    if task.later_tools:
        record["missed_function"] = {
            str(turn): list(names) for turn, names in sorted(task.later_tools.items())
        }
    record["rods"] = {"id": task.id, "split": task.split, "provenance": dict(task.provenance)}
    return record


def answer(task: Task, number: int) -> JsonObject:
    """The task's ground truth as a line of its category's answer file."""
    calls = [[str(call) for call in turn] for turn in task.calls]
    return {"id": f"multi_turn_{task.type}_{number}", "ground_truth": calls}


def write(originals: Sequence[AnyTask], folder: Path) -> Counter[str]:
    """Writes tasks into `folder`, which is made where it is missing; returns how many there are of
    each type.

    Raises UserError for a task that cannot be said, or a folder that cannot be written.
    """
    tasks = [scripted(task, "BFCL's format") for task in originals]
    lines: dict[Path, list[bytes]] = {}
    numbers: Counter[str] = Counter()
    for task in tasks:
        number = FIRST_NUMBER + numbers[task.type]
        numbers[task.type] += 1
        name = FILE.format(task.type)
        lines.setdefault(folder / name, []).append(orjson.dumps(entry(task, number)))
        lines.setdefault(folder / "possible_answer" / name, []).append(
            orjson.dumps(answer(task, number))
        )
    for group in {group for task in tasks for group in (task.state or {})["classes"]}:
        name = f"multi_turn_func_doc/{MODULES[group]}.json"
        lines[folder / name] = [wheel.read(environment().file, f"data/{name}").rstrip(b"\n")]
    with explained("cannot write", folder, "choose another folder"):
        for path, records in lines.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"\n".join(records) + b"\n")
    return numbers
