"""`rods inspect`: one task with its lineage, windows and history in a run; a list of all; the interface's versions."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from buffers.run.run import Run
from buffers.run.runfolder import DRAWN, EXPANDED, REJECTED, SEEDS
from buffers.state import RunState, read_state
from console.output import RunFolder, print_json, print_lines
from console.versions import InterfaceVersion, InterfaceVersions
from rods.commands import Json
from rods.errors import UserError
from rods.observations import Dynamics, Group, dynamics, shares
from rods.rules.tracker import Window
from rods.rules.zones import moments
from rods.tasks import AnyTask, Checks, OpenTask, Persona, Task

SAID = 300  # characters of what a failed candidate came to
TaskId = Annotated[str, Parameter(help="A task's id, or enough of its first characters.")]
RECENT = 10  # groups of a task whose labels are summed up turn by turn
Listed = Annotated[
    str | None,
    Parameter(help="A task's id, or enough of its first characters; variants or originals list these, none lists all."),
]
Versions = Annotated[bool, Parameter(negative="", help="Show the versions of what the policy was shown, and why.")]
# What a decision's record says besides its kind and place.
FACTS = (
    "slot",
    "difficulty",
    "rule",
    "groups",
    "mean",
    "variance",
    "detail",
    "score",
    "why",
    "accepted",
    "discarded",
    "dropped_stale",
)


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """A task, its lineage from the root on, its variants, its windows of rewards, its picks and decisions; and of each
    group with labels its step, turn by turn how many of its rollouts earned which, and how its turns `went`
    (rods.observations.Dynamics)."""

    task: AnyTask
    lineage: list[AnyTask]
    variants: list[str]
    windows: list[Window]
    history: list[dict[str, Any]]
    labels: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        return {
            "task": self.task.as_json(),
            "lineage": [task.id for task in self.lineage],
            "variants": self.variants,
            "windows": [window.as_json() for window in self.windows],
            "history": self.history,
            "labels": self.labels,
        }


def inspect(run: RunFolder, task: Listed = None, /, *, interface: Versions = False, as_json: Json = False) -> None:
    """Show one task: conversation, ground truth, what became of each turn, lineage from seed to variant, windows of
    rewards, and its history; or what the policy was shown, version by version.

    Without either list all tasks: id, type, zone, generation (0: an original), and whether it is active.
    """
    if task is not None and interface:
        remedy = f"`rods inspect {run} TASK`, or `rods inspect {run} --interface`"
        raise UserError("one task or the interface is shown", where="rods inspect", remedy=remedy)
    if interface:
        versions = interface_versions(run)
        if as_json:
            print_json({"versions": [asdict(version) for version in versions]})
        else:
            print_lines(line for version in versions for line in _version_lines(version))
        return
    if task in (None, "variants", "originals"):
        listed = [one for one in task_list(run) if task is None or (one["generation"] > 0) is (task == "variants")]
        if as_json:
            print_json({"tasks": listed})
        else:
            print_lines(map(_list_line, listed))
        return
    found = task_history(run, task)
    if as_json:
        print_json(found.as_json())
    else:
        print_lines(_lines(found))


def interface_versions(path: Path) -> list[InterfaceVersion]:
    """The versions of what the live steps have shown, in order."""
    run = Run.open(path)
    state, versions = RunState(run), InterfaceVersions(run.config)
    for step in state.steps():
        versions.add(step, state.shown)
    return versions.found


def _version_lines(version: InterfaceVersion) -> list[str]:
    lines = [f"step {version.step:<6} stage {version.stage}  {version.version}"]
    for sign, names in (("+", version.added), ("-", version.removed)):
        lines += [f"  {sign} {name}: {what}" for name, what in names.items()]
    if version.reason:
        lines.append(f"  {version.reason}")
    return lines


def task_list(path: Path) -> list[dict[str, Any]]:
    """Id, type, zone, generation and whether it is active, of every task of the run: originals, then variants."""
    state, tasks, seeds = _known(path)
    return [
        {
            "id": task.id,
            "type": task.type,
            "zone": state.tracker.zone(task.id),
            "generation": len(_lineage(task.id, tasks, seeds)) - 1,
            "active": task.id in state.active,
        }
        for task in tasks.values()
    ]


def _list_line(one: dict[str, Any]) -> str:
    now = "active" if one["active"] else "not active"
    return f"{one['id']}  {one['type']:<12} {one['zone'] or 'no zone':<9} generation {one['generation']}  {now}"


def _known(path: Path) -> tuple[RunState, dict[str, AnyTask], dict[str, str]]:
    """Where a run stands, its tasks by id, and of every variant the task that it was written from."""
    run = Run.open(path)
    state = read_state(run, strict=False)
    tasks = {task.id: task for task in run.tasks}
    seeds: dict[str, str] = {}
    for record in state.records(EXPANDED):
        try:
            variant = Task.from_json(record["task"])
        except ValueError:
            continue
        tasks[variant.id] = variant
        seeds[variant.id] = str(record["pick"]).partition("-")[2]
    return state, tasks, seeds


def _drawn(state: RunState, prefix: str) -> dict[str, AnyTask]:
    """The drawn tasks whose ids begin with `prefix`."""
    found = (record["task"] for record in state.records(DRAWN) if record["task"]["id"].startswith(prefix))
    return {one["id"]: AnyTask.from_json(one) for one in found}


def task_history(path: Path, prefix: str) -> TaskHistory:
    """The task whose id begins with `prefix`. Raises UserError when it names no task of the run or more than one."""
    state, tasks, seeds = _known(path)
    tasks |= _drawn(state, prefix) if prefix else {}
    found = [task_id for task_id in tasks if task_id.startswith(prefix)] if prefix else []
    if len(found) != 1:
        known = f"{len(found)} tasks begin so: {', '.join(found[:4])}" if found else f"the run has {len(tasks)} tasks"
        raise UserError(
            f"{prefix!r} names {'more than one task' if found else 'no task'} ({known})",
            where=str(path),
            remedy=f"{'give more characters; ' if found else ''}`rods inspect {path}` lists them all",
        )
    task = tasks[found[0]]
    return TaskHistory(
        task,
        _lineage(task.id, tasks, seeds),
        [variant for variant, seed in seeds.items() if seed == task.id],
        list(state.tracker.windows(task.id)),
        _history(state, task.id),
        _labels(state.run, task),
    )


def _labels(run: Run, task: AnyTask) -> list[dict[str, Any]]:
    """What became of each turn in the task's live groups, and how many had a call and how many replies they took, in
    order of steps."""
    found: list[dict[str, Any]] = []
    state = RunState(run)
    for step in state.steps():
        if state.rewound:  # a start dropped steps while we read
            found = [one for one in found if one["step"] < step.step]
        for group in (Group.from_json(record) for record in step.records if record["task"] == task.id):
            turns: list[Counter[str]] = [Counter() for _ in task.texts]
            for rollout in group.rollouts:
                for turn, label in enumerate(rollout.labels, start=group.head):
                    turns[turn][label] += 1
            if any(turns):
                went = asdict(dynamics([group]))
                found.append({"step": step.step, "turns": [dict(turn) for turn in turns], "went": went})
    return found


def _lineage(task_id: str, tasks: dict[str, AnyTask], seeds: dict[str, str]) -> list[AnyTask]:
    """The tasks from the root to `task_id`: each was written from the one before."""
    line = [tasks[task_id]]
    while (seed := seeds.get(line[0].id)) in tasks and seed not in {task.id for task in line}:
        line.insert(0, tasks[seed])
    return line


def _history(state: RunState, task_id: str) -> list[dict[str, Any]]:
    """Picks of the task and decisions about it, in order of steps. Decisions that a restart took back are left out."""
    events = []
    failed = {record["pick"]: record["evidence"] for record in state.records(REJECTED)}  # the latest of each pick
    for record in state.records(SEEDS):
        if record.get("task") == task_id and record["kind"] in ("picked", "finished"):
            events.append((record["step"], record))
    for record in state.decisions():
        if record.get("task") == task_id:
            events.append((record["step"], record))
    for record in state.records(DRAWN):
        if record["task"]["id"] == task_id:
            events.append((record["step"], record | _earned(state.run, record["step"], record["slot"])))
    return [
        {
            "step": step,
            "event": record["kind"],
            **({"epoch": record["epoch"]} if "epoch" in record else {}),
            **{key: record[key] for key in FACTS if record.get(key) is not None},
            **({"latest failure": _told(failed[record["pick"]])} if _gave_none(record, failed) else {}),
        }
        for step, record in sorted(events, key=lambda event: event[0])
    ]


def _earned(run: Run, number: int, slot: int) -> dict[str, Any]:
    """The mean reward in a slot of a live step; nothing where there is no such step, or nothing counts."""
    for step in RunState(run).steps():
        if step.step == number and (found := moments(step.groups[slot], "progress")) is not None:
            return {"mean": found.mean}
    return {}


def _gave_none(record: dict[str, Any], failed: dict[str, Any]) -> bool:
    return record["kind"] == "finished" and not record["accepted"] and record["pick"] in failed


def _told(evidence: Any) -> str:
    """What a failed candidate came to, in the words of whatever refused it."""
    text = evidence.get("detail", evidence) if isinstance(evidence, dict) else evidence
    return ("; ".join(map(str, text)) if isinstance(text, list) else str(text))[:SAID]


def _lines(found: TaskHistory) -> list[str]:
    task = found.task
    made = "original" if len(found.lineage) == 1 and "seed" not in task.provenance else "variant"
    made = "drawn" if any(event["event"] == "drawn" for event in found.history) else made
    lines = [f"{task.id}  {task.type}, {made}, {task.split}, environment {task.environment.name}"]
    if len(found.lineage) > 1:
        lines.append("lineage   " + " → ".join(one.id for one in found.lineage))
    if found.variants:
        lines.append("variants  " + ", ".join(found.variants))
    lines.append(f"tools     {', '.join(task.tools)}")
    lines += [f"system    {task.system}"] if task.system else []
    lines.append("")
    for turn, text in enumerate(task.texts):
        if turn in task.held_out:
            lines.append(f"turn {turn}  now available: {', '.join(task.held_out[turn])}")
        lines.append(f"turn {turn}  user: {text}")
        if isinstance(task, Task):
            truth = [f"        truth: {call}" for call in task.calls[turn]]
            lines += truth or ["        truth: no call is right here"]
        recent: Counter[str] = sum((Counter(one["turns"][turn]) for one in found.labels[-RECENT:]), Counter())
        if recent:
            lines.append(f"        {shares(recent)}; of {recent.total()} rollouts in its last groups")
    went = sum((Dynamics(**one["went"]) for one in found.labels[-RECENT:]), Dynamics())
    if went.turns:
        lines.append(f"replies   {went.words()} in its last groups")
    if isinstance(task, OpenTask):
        lines += _open_lines(task)
    lines.append("")
    for window in found.windows:
        lines.append(
            f"window    {window.reward}: mean {window.mean:.3f}, variance {window.variance:.3f} over {window.count} of "
            f"{window.groups} groups; zone {window.zone or 'none'}, last step {window.last_step}, "
            f"trend {window.trend:+.3f}"
        )
    for event in found.history:
        facts = ", ".join(f"{key} {value}" for key, value in event.items() if key not in ("step", "event"))
        lines.append(f"step {event['step']:<5} {event['event']}" + (f" ({facts})" if facts else ""))
    if not found.windows and not found.history:
        lines.append("never rolled out, never picked")
    return lines


def _open_lines(task: OpenTask) -> list[str]:
    """What a played user goes by, and what the task is judged by at the end."""
    user, lines = task.user, []
    if isinstance(user, Persona):
        lines = [f"user      wants: {user.intent}", f"          at most {user.turns} texts"]
        lines += [f"          then asks: {text}" for text in user.further]
        lines += [f"          talks: {user.manner}"] if user.manner else []
        lines += [f"          knows {topic}: {words}" for topic, words in user.knows.items()]
    if isinstance(task.goal, Checks):
        return lines + [f"check     {call}" for call in task.goal.calls]
    lines += [f"rubric    {criterion}" for criterion in task.goal.criteria]
    return lines + [f"expects   {call}" for call in task.goal.calls]
