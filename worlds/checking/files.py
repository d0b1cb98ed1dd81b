"""`rods data check FILE`: a user's own tasks, line by line: first the shape of the record, then its ground truth.

The shape is checked field by field so that all faults of a record are named at once. `Task.from_json` holds the same
rules and stops at the first; what it refuses and nothing here explains is passed on in its own words.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from rods.analysis.profile import profile
from rods.calls import Call
from rods.canonical import keyed_random
from rods.composing.catalogue import catalogue_for
from rods.composing.planning import plan
from rods.composing.records import ComposeError
from rods.config import Gates
from rods.environments.base import Environment, Results, reference
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.files import read_regular
from rods.gates import grounding, leaks, missing, requests
from rods.gates.ground_truth import StateRejected, faults, run, tools, unjudgeable
from rods.gates.records import Reason
from rods.gates.similarity import overlaps
from rods.tasks import FIELDS, OPEN_SCHEMA, SCHEMA, SPLITS, TASK_TYPES, AnyTask, OpenTask, Task, task_lines
from worlds.checking.report import CheckReport, Fault
from worlds.checking.variants import varied

REQUIRED = ("schema", "environment", "type", "user", "goal", "tools")
PLANS = 3  # searches for the plan of a variant
Found = tuple[str, str, str]  # field, what, remedy
EXAMPLES = {
    "schema": f'"schema": {SCHEMA}',
    "environment": '"environment": {"name": …, "hash": …} (`rods data rehash` writes the hash)',
    "type": f'"type": one of {", ".join(TASK_TYPES)}',
    "user": '"user": {"script": ["first turn\'s text", …]}',
    "goal": '"goal": {"calls": [[{"name": …, "arguments": {…}}, …], …]}',
    "tools": '"tools": {"names": […]}',
}
Doubts = dict[str, list[tuple[int, str]]]  # by gate: line and first reason
READING: dict[str, Callable[[Environment, Task, Results], list[Reason]]] = {
    "leaks": lambda environment, task, results: leaks(environment, task),
    "grounding": grounding,
    "requests": requests,
    "missing": missing,
}


def check_file(path: Path, environments: Environments, *, variants: bool = False) -> CheckReport:
    """Every fault of the tasks in `path`, and what the file holds. Raises UserError when it cannot be read.

    Notes list tasks that stand on both sides of the split, and what the gates that read a variant's texts
    would hold against these tasks (docs/gates.md): that is for the user to know, not a fault. With `variants` they also
    list the training tasks for which the procedural author finds no plan of a variant, and why.
    """
    found: list[Fault] = []
    tasks: dict[str, tuple[int, AnyTask]] = {}
    records = 0
    worlds: dict[str, Environment | Found] = {}
    doubts: Doubts = {gate: [] for gate in READING}
    plans: list[tuple[int, str]] = []
    for number, line in _lines(path):
        records += 1
        where = f"{path}:{number}"
        record, broken = _parse(line)
        faults_here = [broken] if broken else record_faults(record)
        if all(field == "id" for field, *_ in faults_here):  # an edited task: what else is wrong with it counts more
            task = AnyTask.from_json({key: value for key, value in record.items() if key != "id"})
            if task.id in tasks:
                what = f"repeats the task of line {tasks[task.id][0]}"
                faults_here.append(("", what, "remove one of the two lines"))
            else:
                tasks[task.id] = (number, task)
                faults_here += _world_faults(task, environments, worlds)
                if not faults_here and isinstance(task, Task):
                    _doubt(task, worlds, number, doubts)
                world = worlds[task.environment.name]
                if variants and not faults_here and task.split == "train" and not isinstance(world, tuple):
                    plans.append((number, _unplanned(world, task)))
        found += [Fault(where, *fault) for fault in faults_here]
    if not records:
        found.append(Fault(str(path), "", "holds no task", "write one JSON object a line"))
    report = _report(path, records, _once(found), tasks, doubts)
    if not variants:
        return report
    notes = [f"line {number} cannot be varied: {why}" for number, why in plans if why]
    facts = {**report.facts, "variable": len(plans) - len(notes), "training": len(plans)}
    return replace(report, notes=(*report.notes, *notes), facts=facts)


def _unplanned(environment: Environment, task: AnyTask) -> str:
    """Why the procedural author finds no plan of a variant of `task`, in `PLANS` searches; "" where it finds one."""
    if not isinstance(task, Task):
        return (
            "" if varied(task) else "it has no ground truth by turn, no witness, and was not drawn from tool documents"
        )
    why = ""
    for number in range(PLANS):
        rng = keyed_random(number, "data check", task.id)
        try:
            plan(
                catalogue_for(environment),
                environment,
                task,
                profile(environment, task),
                limits=Gates(),
                blocked=frozenset(),
                functions="other",
                narrative=True,
                rng=rng,
            )
        except ComposeError as error:
            why = error.detail
        else:
            return ""
    return why


def rehashed(path: Path, environments: Environments) -> tuple[CheckReport, bytes]:
    """The tasks of `path` for the environments as they are installed: environment.hash and id anew, all else as it was.

    A hash may be missing, as in tasks that somebody writes by hand. Every ground truth is replayed; one that no longer
    holds is a fault, and the bytes are then of no use. Raises UserError when the file cannot be read.
    """
    found: list[Fault] = []
    made: list[AnyTask] = []
    hashes = ids = 0
    worlds: dict[str, Environment | Found] = {}
    for number, line in _lines(path):
        record, broken = _parse(line)
        faults_here = [broken] if broken else []
        old = record.get("id") if isinstance(record, dict) else None
        part = record.get("environment") if isinstance(record, dict) else None
        if isinstance(part, dict) and isinstance(name := part.get("name"), str):
            if name not in worlds:
                worlds[name] = _load(environments, name)
            world = worlds[name]
            record.pop("id", None)
            hash = part.get("hash") if isinstance(world, tuple) else world.hash
            hashes += part.get("hash") != hash
            part["hash"] = hash or ""
        faults_here += [] if broken else record_faults(record)
        if not faults_here:
            made.append(AnyTask.from_json(record))
            ids += made[-1].id != old
            faults_here += _world_faults(made[-1], environments, worlds)
        found += [Fault(f"{path}:{number}", *fault) for fault in faults_here]
    facts = {"tasks": len(made), "new hashes": hashes, "new ids": ids}
    return CheckReport(str(path), tuple(_once(found)), facts=facts), task_lines(made)


def _once(found: Sequence[Fault]) -> list[Fault]:
    """The faults, but a world that has changed is said where it is first met, with the number of tasks."""
    same = Counter((fault.what, fault.remedy) for fault in found if fault.field == "environment.hash")
    told: list[Fault] = []
    for fault in found:
        count = same.pop((fault.what, fault.remedy), 0) if fault.field == "environment.hash" else 1
        if count > 1:
            fault = replace(fault, what=f"{fault.what} (so in {count} tasks)")
        told += [fault] if count else []
    return told


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a task file that are not blank, with their numbers from 1."""
    try:
        lines = read_regular(path).split(b"\n")
    except OSError as error:
        raise UserError(
            f"cannot read the task file ({error.strerror})", where=str(path), remedy="check the path"
        ) from error
    return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _report(
    path: Path, records: int, found: list[Fault], tasks: dict[str, tuple[int, AnyTask]], doubts: Doubts
) -> CheckReport:
    sound = [task for _, task in tasks.values()]
    shared = overlaps(sound)
    notes = []
    for rule in dict.fromkeys(each.match.rule for each in shared):
        matching = [each for each in shared if each.match.rule == rule]
        lines = sorted({tasks[each.task][0] for each in matching})
        notes.append(
            f"{len(lines)} training tasks match held-out ones by their {rule.replace('_', ' ')}; "
            f"first line {lines[0]}: {matching[0].match}. `rods data audit {path}` lists all"
        )
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
    return CheckReport(str(path), tuple(found), tuple(notes), facts)


def _parse(line: bytes) -> tuple[Any, Found | None]:
    try:
        return orjson.loads(line), None
    except orjson.JSONDecodeError as error:
        return None, ("", f"not JSON: {error.msg} (character {error.pos + 1})", "write one task as {…} on one line")


def _world_faults(task: AnyTask, environments: Environments, worlds: dict[str, Environment | Found]) -> Iterator[Found]:
    """What is wrong with a well-formed task once its environment is asked."""
    name = task.environment.name
    if name not in worlds:
        worlds[name] = _load(environments, name)
    world = worlds[name]
    if isinstance(world, tuple):
        yield world
        return
    if world.hash != task.environment.hash:
        what = f"is {task.environment.hash}, but {name} is {world.hash} here"
        yield (
            "environment.hash",
            what,
            "`rods data rehash` replays them in this version and writes its hash; or install theirs",
        )
    if not isinstance(task, Task):
        yield from _whole_faults(world, task)
        return
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


def _whole_faults(world: Environment, task: AnyTask) -> Iterator[Found]:
    """What is wrong with a task that is judged at the end."""
    assert isinstance(task, OpenTask)
    if world.hash != task.environment.hash:  # told already
        task = replace(task, environment=reference(world), id="")
    try:
        reasons = unjudgeable(world, task)
    except Exception as error:  # noqa: BLE001 - a user's environment may raise anything; it is reported
        reasons = [Reason(f"asking its checks raised {type(error).__name__}: {error}")]
    for reason in reasons:
        yield "goal", str(reason), "correct the tools, the state, or the checks"


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


def _load(environments: Environments, name: str) -> Environment | Found:
    try:
        return environments.load(name)
    except UserError as error:
        return "environment.name", f"{error.where}: {error.what}" if error.where else error.what, error.remedy


def record_faults(record: Any) -> list[Found]:
    """Every fault of `record` (a parsed JSON line) as (field, what, remedy); empty when it is a task."""
    if not isinstance(record, dict):
        return [("", "the line is not a JSON object", "write one task as {…} on one line")]
    found = [*_unknown("", record, sorted(FIELDS))]
    found += [(key, "is missing", f"add {EXAMPLES[key]}") for key in REQUIRED if key not in record]
    found += _choice(record, "schema", (SCHEMA, OPEN_SCHEMA))
    found += _choice(record, "type", TASK_TYPES)
    found += _choice(record, "split", SPLITS)
    for key in ("state", "provenance"):
        if record.get(key) is not None and not isinstance(record[key], dict):
            found.append((key, f"must be an object, not {_kind(record[key])}", "write {…} or leave it out"))
    found += _environment(record)
    script, calls = _script(record, found), _calls(record, found)  # None where it has a persona, or is judged whole
    if script is not None and calls is not None and len(script) != len(calls):
        what = f"has {len(calls)} turns, but user.script has {len(script)}"
        found.append(("goal.calls", what, "give one list of calls for each turn, [] where no call is right"))
    found += _tools(record, None if script is None else len(script))
    if not found:
        try:
            AnyTask.from_json(record)
        except ValueError as error:
            remedy = "`rods data rehash` writes it anew" if "does not match" in str(error) else ""
            found.append(("id" if remedy else "", str(error), remedy))
    return found


def _environment(record: dict[str, Any]) -> Iterator[Found]:
    part = record.get("environment")
    if part is None:
        return
    if not isinstance(part, dict):
        yield "environment", f"must be an object, not {_kind(part)}", f"write {EXAMPLES['environment']}"
        return
    yield from _unknown("environment.", part, ("name", "hash"))
    for key in ("name", "hash"):
        if not isinstance(part.get(key), str):
            yield (
                f"environment.{key}",
                "must be text",
                "`rods data rehash` writes the hash; `rods env check NAME` prints it",
            )


def _script(record: dict[str, Any], found: list[Found]) -> Sequence[Any] | None:
    part = _object(record, "user", found)
    if part is None:
        return None
    if "persona" in part:
        return None
    found += _unknown("user.", part, ("script",))
    script = _list(part, "user", "script", found)
    if script is None:
        return None
    if not script:
        found.append(("user.script", "is empty", "a task needs at least one turn"))
    for turn, text in enumerate(script):
        if not isinstance(text, str) or not text.strip():
            found.append((f"user.script[{turn}]", "must be text that is not blank", "say what the user says there"))
    return script


def _calls(record: dict[str, Any], found: list[Found]) -> Sequence[Any] | None:
    part = _object(record, "goal", found)
    if part is None:
        return None
    if part.keys() & {"checks", "rubric"}:
        return None
    found += _unknown("goal.", part, ("calls",))
    turns = _list(part, "goal", "calls", found)
    for turn, calls in enumerate(turns or ()):
        if not isinstance(calls, list):
            found.append(
                (f"goal.calls[{turn}]", f"must be a list, not {_kind(calls)}", "write [] where no call is right")
            )
            continue
        for index, call in enumerate(calls):
            where = f"goal.calls[{turn}][{index}]"
            try:
                Call.from_json(call)
            except ValueError as error:
                found.append((where, str(error), 'write {"name": …, "arguments": {…}}'))
                continue
            found += _unknown(f"{where}.", call, ("name", "arguments"))
    return turns


def _tools(record: dict[str, Any], turns: int | None) -> list[Found]:
    found: list[Found] = []
    part = _object(record, "tools", found)
    if part is None:
        return found
    found += _unknown("tools.", part, ("names", "held_out"))
    names = _list(part, "tools", "names", found)
    found += _names("tools.names", names or ())
    held_out = part.get("held_out", {})
    if not isinstance(held_out, dict):
        found.append(
            ("tools.held_out", f"must be an object, not {_kind(held_out)}", 'write {"3": ["sort"]} or leave it out')
        )
        return found
    returned: set[str] = set()
    for turn, returning in held_out.items():
        where = f"tools.held_out.{turn}"
        if not (turn.isascii() and turn.isdigit()):
            found.append((where, "is not a turn number", "turns are counted from 0"))
        elif turns is not None and not 1 <= int(turn) < turns:
            found.append(
                (where, f"names a turn outside 1–{turns - 1}", "the key is the turn in which the tools return")
            )
        if not isinstance(returning, list) or not returning:
            found.append((where, "must be a list of tool names", "leave the turn out when nothing returns in it"))
            continue
        found += _names(where, returning)
        for name in (name for name in returning if isinstance(name, str)):
            if names is not None and name not in names:
                found.append((where, f"{name!r} is not in tools.names", "list it there too: it is a tool of the task"))
            if name in returned:
                found.append((where, f"{name!r} returns in an earlier turn already", "name it once"))
            returned.add(name)
    if record.get("type") == "miss_func" and not held_out:
        found.append(
            ("tools.held_out", "is missing in a task of type miss_func", 'add e.g. {"3": ["sort"]}, or change the type')
        )
    if record.get("type") in TASK_TYPES and record["type"] != "miss_func" and held_out:
        found.append(
            ("tools.held_out", f"stands in a task of type {record['type']}", "only miss_func tasks hold tools out")
        )
    return found


def _names(where: str, names: Sequence[Any]) -> Iterator[Found]:
    seen = set()
    for index, name in enumerate(names):
        if not isinstance(name, str) or not name:
            yield f"{where}[{index}]", f"must be a tool's name, not {_kind(name)}", "write the name as text"
        elif name in seen:
            yield f"{where}[{index}]", f"repeats {name!r}", "name each tool once"
        else:
            seen.add(name)


def _object(record: dict[str, Any], key: str, found: list[Found]) -> dict[str, Any] | None:
    part = record.get(key)
    if key in record and not isinstance(part, dict):
        found.append((key, f"must be an object, not {_kind(part)}", f"write {EXAMPLES[key]}"))
    return part if isinstance(part, dict) else None


def _list(part: dict[str, Any], inside: str, key: str, found: list[Found]) -> list[Any] | None:
    value = part.get(key)
    if not isinstance(value, list):
        what = f"must be a list, not {_kind(value)}" if key in part else "is missing"
        found.append((f"{inside}.{key}", what, f"write {EXAMPLES[inside]}"))
        return None
    return value


def _unknown(inside: str, part: dict[str, Any], known: Sequence[str]) -> Iterator[Found]:
    for key in part:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            yield f"{inside}{key}", "is not a known field", f"did you mean {near[0]!r}?" if near else "remove it"


def _choice(record: dict[str, Any], key: str, allowed: Sequence[Any]) -> Iterator[Found]:
    if key in record and (record[key] not in allowed or isinstance(record[key], bool)):
        yield key, f"is {record[key]!r}", f"must be {' or '.join(map(repr, allowed))}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    return names[type(value)]
