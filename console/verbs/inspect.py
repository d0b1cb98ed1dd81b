"""`rods inspect`: one task with its lineage, windows and history in a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from buffers.run.run import Run
from buffers.run.runfolder import EXPANDED, SEEDS
from buffers.state import RunState, read_state
from console.output import RunFolder, print_json, print_lines
from rods.commands import Json
from rods.errors import UserError
from rods.observations import Group, shares
from rods.rules.tracker import Window
from rods.tasks import Task

TaskId = Annotated[str, Parameter(help="A task's id, or enough of its first characters.")]
RECENT = 10  # groups of a task whose labels are summed up turn by turn
# What a decision's record says besides its kind and place.
FACTS = ("rule", "groups", "mean", "variance", "detail", "score", "why", "accepted", "discarded", "dropped_stale")


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """A task, its lineage from the root on, its variants, its windows of rewards, its picks and decisions; and of each
    group with labels its step and, turn by turn, how many of its rollouts earned which."""

    task: Task
    lineage: list[Task]
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


def inspect(run: RunFolder, task: TaskId, /, *, as_json: Json = False) -> None:
    """Show one task: conversation, ground truth, what became of each turn, lineage from seed to variant, windows of
    rewards, and its history."""
    found = task_history(run, task)
    if as_json:
        print_json(found.as_json())
    else:
        print_lines(_lines(found))


def task_history(path: Path, prefix: str) -> TaskHistory:
    """The task whose id begins with `prefix`. Raises UserError when it names no task of the run or more than one."""
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
    found = [task_id for task_id in tasks if task_id.startswith(prefix)] if prefix else []
    if len(found) != 1:
        known = f"{len(found)} tasks begin so: {', '.join(found[:4])}" if found else f"the run has {len(tasks)} tasks"
        raise UserError(
            f"{prefix!r} names {'more than one task' if found else 'no task'} ({known})",
            where=str(path),
            remedy=f"give more characters; `jq -r .id {path}/tasks.jsonl` lists the originals",
        )
    task = tasks[found[0]]
    return TaskHistory(
        task,
        _lineage(task.id, tasks, seeds),
        [variant for variant, seed in seeds.items() if seed == task.id],
        list(state.tracker.windows(task.id)),
        _history(state, task.id),
        _labels(run, task),
    )


def _labels(run: Run, task: Task) -> list[dict[str, Any]]:
    """What became of each turn in the task's live groups, in order of steps."""
    found: list[dict[str, Any]] = []
    state = RunState(run)
    for step in state.steps():
        if state.rewound:  # a start dropped steps while we read
            found = [one for one in found if one["step"] < step.step]
        for group in (Group.from_json(record) for record in step.records if record["task"] == task.id):
            turns: list[Counter[str]] = [Counter() for _ in task.script]
            for rollout in group.rollouts:
                for turn, label in enumerate(rollout.labels, start=group.head):
                    turns[turn][label] += 1
            if any(turns):
                found.append({"step": step.step, "turns": [dict(turn) for turn in turns]})
    return found


def _lineage(task_id: str, tasks: dict[str, Task], seeds: dict[str, str]) -> list[Task]:
    """The tasks from the root to `task_id`: each was written from the one before."""
    line = [tasks[task_id]]
    while (seed := seeds.get(line[0].id)) in tasks and seed not in {task.id for task in line}:
        line.insert(0, tasks[seed])
    return line


def _history(state: RunState, task_id: str) -> list[dict[str, Any]]:
    """Picks of the task and decisions about it, in order of steps. Decisions that a restart took back are left out."""
    events = []
    for record in state.records(SEEDS):
        if record.get("task") == task_id and record["kind"] in ("picked", "finished"):
            events.append((record["step"], record))
    for record in state.decisions():
        if record.get("task") == task_id:
            events.append((record["step"], record))
    return [
        {
            "step": step,
            "event": record["kind"],
            **({"epoch": record["epoch"]} if "epoch" in record else {}),
            **{key: record[key] for key in FACTS if record.get(key) is not None},
        }
        for step, record in sorted(events, key=lambda event: event[0])
    ]


def _lines(found: TaskHistory) -> list[str]:
    task = found.task
    made = "original" if len(found.lineage) == 1 and "seed" not in task.provenance else "variant"
    lines = [f"{task.id}  {task.type}, {made}, {task.split}, environment {task.environment.name}"]
    if len(found.lineage) > 1:
        lines.append("lineage   " + " → ".join(one.id for one in found.lineage))
    if found.variants:
        lines.append("variants  " + ", ".join(found.variants))
    lines.append(f"tools     {', '.join(task.tools)}")
    lines.append("")
    for turn, (text, calls) in enumerate(zip(task.script, task.calls, strict=True)):
        if turn in task.held_out:
            lines.append(f"turn {turn}  now available: {', '.join(task.held_out[turn])}")
        lines.append(f"turn {turn}  user: {text}")
        lines += [f"        truth: {call}" for call in calls] or ["        truth: no call is right here"]
        recent: Counter[str] = sum((Counter(one["turns"][turn]) for one in found.labels[-RECENT:]), Counter())
        if recent:
            lines.append(f"        {shares(recent)}; of {recent.total()} rollouts in its last groups")
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
