"""`rods data check FILE`: a user's own tasks, read line by line: first the shape, then the ground truth, replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from rods import environments
from rods.checking.records import Found, record_faults
from rods.checking.report import Fault, Report
from rods.environments.base import Environment, Results
from rods.errors import UserError
from rods.gates import grounding, leaks, missing, requests
from rods.gates.contamination import overlaps
from rods.gates.reason import Reason
from rods.gates.replay import StateRejected, faults, run
from rods.gates.tools import tools
from rods.tasks import Task

Doubts = dict[str, list[tuple[int, str]]]  # by gate: line and first reason
READING: dict[str, Callable[[Environment, Task, Results], list[Reason]]] = {
    "leaks": lambda environment, task, results: leaks(environment, task),
    "grounding": grounding,
    "requests": requests,
    "missing": missing,
}


def check_file(path: Path) -> Report:
    """Every fault of the tasks in `path`, and what the file holds. Raises UserError when it cannot be read.

    Notes list tasks that stand on both sides of the split (DESIGN §5.6), and what the gates that read a variant's texts
    would hold against these tasks (docs/gates.md): that is for the user to know, not a fault.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UserError(
            f"cannot read the task file ({error.strerror})", where=str(path), remedy="check the path"
        ) from error
    found: list[Fault] = []
    tasks: dict[str, tuple[int, Task]] = {}
    records = 0
    worlds: dict[str, Environment | Found] = {}
    doubts: Doubts = {gate: [] for gate in READING}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        records += 1
        where = f"{path}:{number}"
        record, broken = _parse(line)
        faults_here = [broken] if broken else record_faults(record)
        if not faults_here:
            task = Task.from_json(record)
            if task.id in tasks:
                what = f"repeats the task of line {tasks[task.id][0]}"
                faults_here.append(("", what, "remove one of the two lines"))
            else:
                tasks[task.id] = (number, task)
                faults_here += _world_faults(task, worlds)
                if not faults_here:
                    _doubt(task, worlds, number, doubts)
        found += [Fault(where, *fault) for fault in faults_here]
    if not records:
        found.append(Fault(str(path), "", "holds no task", "write one JSON object a line"))
    return _report(path, records, found, tasks, doubts)


def _report(path: Path, records: int, found: list[Fault], tasks: dict[str, tuple[int, Task]], doubts: Doubts) -> Report:
    sound = [task for _, task in tasks.values()]
    shared = overlaps(sound)
    notes = [f"line {tasks[each.task][0]} (training): {each.match}, which is held out" for each in shared]
    for gate, refused in doubts.items():
        if refused:
            line, reason = refused[0]
            notes.append(f"gate {gate} would refuse {len(refused)} of these as variants, first line {line}: {reason}")
    facts: dict[str, Any] = {
        "tasks": records,
        "splits": dict(Counter(task.split for task in sound)),
        "types": dict(Counter(task.type for task in sound)),
        "overlaps": [each.as_json() for each in shared],
        "refused_as_variants": {gate: len(refused) for gate, refused in doubts.items()},
    }
    return Report(str(path), tuple(found), tuple(notes), facts)


def _parse(line: bytes) -> tuple[Any, Found | None]:
    try:
        return orjson.loads(line), None
    except orjson.JSONDecodeError as error:
        return None, ("", f"not JSON: {error.msg} (character {error.pos + 1})", "write one task as {…} on one line")


def _world_faults(task: Task, worlds: dict[str, Environment | Found]) -> Iterator[Found]:
    """What is wrong with a well-formed task once its environment is asked."""
    name = task.environment.name
    if name not in worlds:
        worlds[name] = _load(name)
    world = worlds[name]
    if isinstance(world, tuple):
        yield world
        return
    if world.hash != task.environment.hash:
        what = f"is {task.environment.hash}, but {name} is {world.hash} here"
        yield (
            "environment.hash",
            what,
            "write the tasks anew for this version, or install the version they were made with",
        )
    for reason in tools(world, task):
        yield (
            "tools.names" if reason.turn is None else "goal.calls",
            str(reason),
            "correct the name, or the list of tools",
        )
    try:
        results = run(world, task)
    except StateRejected as error:
        yield "state", str(error), "mend the state"
        return
    except Exception as error:  # noqa: BLE001 - a user's environment may raise anything; it is reported
        yield "goal.calls", f"replaying raised {type(error).__name__}: {error}", f"run `rods env check {name}`"
        return
    for reason in faults(world, task, results):
        yield "goal.calls", str(reason), "mend the call, or the state that it needs"


def _doubt(task: Task, worlds: dict[str, Environment | Found], line: int, doubts: Doubts) -> None:
    """Asks the gates that read texts and look for ways round."""
    world = worlds[task.environment.name]
    if isinstance(world, tuple):
        return
    results = run(world, task)
    for gate, reasons in READING.items():
        try:
            refused = reasons(world, task, results)
        except Exception as error:  # noqa: BLE001 - a user's environment may raise anything; it is reported
            refused = [Reason(f"asking it raised {type(error).__name__}: {error}")]
        if refused:
            doubts[gate].append((line, str(refused[0])))


def _load(name: str) -> Environment | Found:
    try:
        return environments.load(name)
    except UserError as error:
        return "environment.name", f"{error.where}: {error.what}" if error.where else error.what, error.remedy
