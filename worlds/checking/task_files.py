"""`rods data check FILE`: a user's own tasks, line by line: first the shape of the record, then its
ground truth.

The shape is a JSON Schema (task_files.toml), so that all of its faults are named at once. What the
fields of a record have to do with each other, `Task.from_json` says, in its own words.
"""

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from jsonschema_rs import ValidationError

from rods.analysis.schemas import Checker
from rods.canonical import without
from rods.environments.base import Environment, reference
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.faults import Reason
from rods.files import BULK, explained, module_table, read_regular
from rods.gates.ground_truth import StateRejected, faults, run, tools, unjudgeable
from rods.gates.similarity import contamination, held_out_index, overlaps
from rods.model_json import exact
from rods.tasks import (
    FIELDS,
    HELD_OUT_SPLITS,
    OPEN_SCHEMA,
    SCHEMA,
    SPLITS,
    TASK_TYPES,
    AnyTask,
    OpenTask,
    Task,
    task_lines,
)
from rods.worlds.checking import CheckReport, Fault
from rods.worlds.checking.twins import Twins

Found = tuple[str, str, str]  # field, what, remedy
OF_WORLDS = ("environment.name", "environment.hash")  # fields whose faults are those of many tasks
_TABLES = module_table(__file__)
EXAMPLES: dict[str, str] = {
    "schema": f'"schema": {SCHEMA}',
    "type": f'"type": one of {", ".join(TASK_TYPES)}',
    **_TABLES["examples"],
}
SHAPE = Checker(
    {
        "type": "object",
        "required": ["schema", "environment", "type", "user", "goal", "tools"],
        "additionalProperties": False,
        "properties": {
            **{field: {} for field in FIELDS},
            "schema": {"enum": [SCHEMA, OPEN_SCHEMA]},
            "type": {"enum": list(TASK_TYPES)},
            "split": {"enum": list(SPLITS)},
            **_TABLES["shape"],
        },
        **_TABLES["rules"],
    }
)


class Worlds(dict[str, Environment | Found]):
    """The environments of tasks by name, each asked for once; a fault for one that cannot be
    loaded."""

    def __init__(self, environments: Environments) -> None:
        self.environments = environments

    def __missing__(self, name: str) -> Environment | Found:
        try:
            self[name] = self.environments.load(name)
        except UserError as error:
            what = f"{error.where}: {error.what}" if error.where else error.what
            self[name] = "environment.name", what, error.remedy
        return self[name]


def check_file(
    path: Path,
    environments: Environments,
    *,
    against: Mapping[str, Sequence[AnyTask]] | None = None,
    findings: Path | None = None,
) -> CheckReport:
    """Every fault of the tasks in `path`, and what the file holds. `findings`: faults that were
    found before, one JSON object a line with the id of its `task`, `what` is wrong and `evidence`;
    those without `"fault": true` are passed over. Raises UserError when a file cannot be read.

    Notes list tasks that stand on both sides of the split: that is for the user to know, not a
    fault. A training task that matches a held-out one of other files (`against`, by name) is one.
    """
    all_faults: list[Fault] = []
    tasks: dict[str, tuple[int, AnyTask]] = {}
    records = 0
    worlds = Worlds(environments)
    twins = Twins()
    for number, _, record, broken in task_records(path):
        records += 1
        faults_here = broken or record_faults(record)
        # an edited task: what else is wrong with it counts more, and is said first
        if all(field == "id" for field, *_ in faults_here):
            task = AnyTask.from_json(without(record, "id"))
            if task.id in tasks:
                what = f"repeats the task of line {tasks[task.id][0]}"
                faults_here.append(("", what, "remove one of the two lines"))
            else:
                tasks[task.id] = (number, task)
                faults_here = [*_world_faults(task, worlds), *faults_here]
                world = worlds[task.environment.name]
                if not faults_here and isinstance(task, Task) and not isinstance(world, tuple):
                    with suppress(Exception):  # what a world raises, `rods env check` names
                        twins.look(world, task, f"line {number}")
        all_faults += [Fault(f"{path}:{number}", *fault) for fault in faults_here]
    if not records:
        all_faults.append(Fault(str(path), "", "holds no task", "write one JSON object a line"))
    for name, others in (against or {}).items():
        held_out = held_out_index(others)
        for number, task in tasks.values():
            if task.split not in HELD_OUT_SPLITS:
                all_faults += [
                    Fault(f"{path}:{number}", "", f"leaks into {name}: {reason}", "leave it out")
                    for reason in contamination(task, held_out)
                ]
    for finding in _findings(findings):
        if finding["task"] in tasks:
            where = f"{path}:{tasks[finding['task']][0]}"
            what = "; ".join([finding["what"], *finding["evidence"]])
            all_faults.append(Fault(where, "", what, "mend it, or leave it out"))
    report = _report(path, records, _once(all_faults), tasks)
    return replace(report, notes=(*report.notes, *twins.notes()))


def _findings(path: Path | None) -> list[Any]:
    """The faults in a file of findings; none without a file."""
    if path is None:
        return []
    found = [record for _, _, record, _ in task_records(path)]
    try:
        faulty = [record for record in found if record.get("fault") is True]
        for record in faulty:
            "".join([record["task"], record["what"], *record["evidence"]])
    except (AttributeError, KeyError, TypeError) as error:
        what = f"holds a line that is no finding ({error})"
        raise UserError(what, where=path, remedy="name a file of findings") from error
    return faulty


def rehashed(path: Path, environments: Environments) -> tuple[CheckReport, bytes]:
    """The tasks of `path` for the environments as they are installed: environment.hash and id anew,
    all else as it was.

    A hash may be missing, as in tasks that somebody writes by hand. Every ground truth is replayed;
    where one no longer holds, or a line is no task, that is a fault, and the line stays as it was.
    Raises UserError when the file cannot be read.
    """
    all_faults: list[Fault] = []
    lines: list[bytes] = []
    hashes = ids = kept = 0
    worlds = Worlds(environments)
    for number, line, record, faults_here in task_records(path):
        fields = record if isinstance(record, dict) else {}
        old = fields.get("id")
        part = fields.get("environment")
        if isinstance(part, dict) and isinstance(name := part.get("name"), str):
            world = worlds[name]
            record.pop("id", None)
            hash = part.get("hash") if isinstance(world, tuple) else world.hash
            written = part.get("hash")
            part["hash"] = hash or ""
        faults_here = faults_here or record_faults(record)
        if not faults_here:
            task = AnyTask.from_json(record)
            faults_here += _world_faults(task, worlds)
        if faults_here:
            all_faults += [Fault(f"{path}:{number}", *fault) for fault in faults_here]
            lines.append(line + b"\n")
            kept += 1
        else:
            hashes += task.environment.hash != written
            ids += task.id != old
            lines.append(task_lines([task]))
    facts = {
        "tasks": len(lines) - kept,
        "new hashes": hashes,
        "new ids": ids,
        **({"left as they were": kept} if kept else {}),
    }
    return CheckReport(str(path), tuple(_once(all_faults)), facts=facts), b"".join(lines)


def _once(all_faults: Sequence[Fault]) -> list[Fault]:
    """The faults, but what is wrong with a world, or asked for it, is said where it is first met,
    with the number of tasks."""
    same = Counter((fault.what, fault.remedy) for fault in all_faults if fault.field in OF_WORLDS)
    merged: list[Fault] = []
    for fault in all_faults:
        count = same.pop((fault.what, fault.remedy), 0) if fault.field in OF_WORLDS else 1
        if count > 1:
            fault = replace(fault, what=f"{fault.what} (so in {count} tasks)")
        merged += [fault] if count else []
    return merged


def task_records(path: Path) -> Iterator[tuple[int, bytes, Any, list[Found]]]:
    """The lines of a task file that are not blank: their number from 1, their bytes, what stands
    there, and why it is no JSON."""
    with explained("cannot read the task file", path, "check the path"):
        lines = read_regular(path, BULK).split(b"\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield number, line, exact(line.decode()), []
            except ValueError as error:
                what = f"not JSON: {error}"
                yield number, line, None, [("", what, "write one task as {…} on one line")]


def _report(
    path: Path, records: int, all_faults: list[Fault], tasks: dict[str, tuple[int, AnyTask]]
) -> CheckReport:
    sound = [task for _, task in tasks.values()]
    shared = overlaps(sound)
    notes = []
    for rule in dict.fromkeys(match.rule for _, match in shared):
        matching = [(task, match) for task, match in shared if match.rule == rule]
        lines = sorted({tasks[task][0] for task, _ in matching})
        notes.append(
            f"{len(lines)} training tasks match held-out ones by their {rule.replace('_', ' ')}; "
            f"first line {lines[0]}: {matching[0][1]}. --json lists all"
        )
    facts = {
        "tasks": records,
        "splits": dict(Counter(task.split for task in sound)),
        "types": dict(Counter(task.type for task in sound)),
        "overlaps": [
            {"task": task, "rule": match.rule, "held_out": match.other, "turn": match.turn}
            for task, match in shared
        ],
    }
    return CheckReport(str(path), tuple(all_faults), tuple(notes), facts)


def _world_faults(task: AnyTask, worlds: Worlds) -> Iterator[Found]:
    """What is wrong with a well-formed task once its environment is asked."""
    name = task.environment.name
    world = worlds[name]
    if isinstance(world, tuple):
        yield world
        return
    if world.hash != task.environment.hash:
        yield (
            "environment.hash",
            f"is {task.environment.hash}, but {name} is {world.hash} here",
            "`rods data rehash` replays them in this version and writes its hash; or install "
            "theirs",
        )
    if not isinstance(task, Task):
        yield from _whole_faults(world, task)
        return
    for reason in tools(world, task):
        field = "tools.names" if reason.turn is None else "goal.calls"
        yield field, str(reason), "correct the name, or the list of tools"
    idle: list[Reason] = []
    try:
        results = run(world, task, idle)
    except StateRejected as error:
        yield "state", str(error), "mend the state"
        return
    except (Exception, SystemExit) as error:  # noqa: BLE001
        # a user's environment may raise anything; it is reported
        yield (
            "goal.calls",
            f"replaying raised {type(error).__name__}: {error}",
            f"run `rods env check {name}`",
        )
        return
    for reason in faults(world, task, results) or idle:
        yield "goal.calls", str(reason), "mend the call, or the state that it needs"


def _whole_faults(world: Environment, task: AnyTask) -> Iterator[Found]:
    """What is wrong with a task that is judged at the end."""
    assert isinstance(task, OpenTask)
    if world.hash != task.environment.hash:  # told already
        task = replace(task, environment=reference(world), id="")
    try:
        reasons = unjudgeable(world, task)
    except (Exception, SystemExit) as error:  # noqa: BLE001
        # a user's environment may raise anything; it is reported
        reasons = [Reason(f"asking its checks raised {type(error).__name__}: {error}")]
    for reason in reasons:
        yield "goal", str(reason), "correct the tools, the state, or the checks"


def record_faults(record: Any) -> list[Found]:
    """The faults of `record` (a parsed JSON line) as (field, what, remedy): every one of its shape,
    and where that is right the first of what its fields have to do with each other; empty when it
    is a task."""
    all_faults = [fault for error in SHAPE.errors(record) for fault in _misshapen(error, record)]
    if not all_faults:
        try:
            AnyTask.from_json(record)
        except ValueError as error:
            remedy = "`rods data rehash` writes it anew" if "does not match" in str(error) else ""
            all_faults.append(("id" if remedy else "", str(error), remedy))
    return all_faults


def _misshapen(error: ValidationError, record: Any) -> Iterator[Found]:
    """What one error of the record's shape says, a fault a field."""
    kind: Any = error.kind  # its fields depend on the keyword
    value: Any = record
    path = ""
    for key in error.instance_path:  # which has the key "3" of an object as a number, too
        path += f"[{key}]" if isinstance(value, list) else f".{key}"
        value = value[key if isinstance(value, list) else str(key)]
    path = path.removeprefix(".")
    inside = f"{path}." if path else ""
    top = path.partition(".")[0]
    if kind.name == "additionalProperties":
        for key in kind.unexpected:
            near = difflib.get_close_matches(key, SHAPE.at(error)["properties"], 1)
            remedy = f"did you mean {near[0]!r}?" if near else "remove it"
            yield f"{inside}{key}", "is not a known field", remedy
    elif kind.name == "required":
        yield f"{inside}{kind.property}", "is missing", f"add {EXAMPLES[top or kind.property]}"
    else:
        blank = kind.name == "pattern" and not value.strip()
        what = "must be text that is not blank" if blank else SHAPE.said(error, record)
        yield path, what, f"write {EXAMPLES.get(top, 'one task as {…} on one line')}"
