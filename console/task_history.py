"""Everything on record about one task of a run, and the list of all tasks: for verbs and the page."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from buffers.run.run import Run
from buffers.run.runfolder import DRAWN, EXPANDED, REJECTED, SEEDS
from buffers.state import RunState, read_state
from console.episodes import Trace, kept_episodes, kept_steps
from rods.errors import UserError
from rods.observations import Group, dynamics
from rods.rules.tracker import Window
from rods.rules.zones import moments
from rods.tasks import AnyTask

SAID = 300  # characters of what a failed candidate came to
# What a decision's record says besides its kind and place.
FACTS = (
    *("slot", "difficulty", "rule", "groups", "mean", "variance", "detail", "score", "why"),
    *("accepted", "discarded", "dropped_stale"),
)


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """A task, its `environment` (buffers.run.run.Run.environment_records), its lineage from the root on, its variants,
    its windows of rewards, its picks and decisions; and of each group with labels its step, turn by turn how many of
    its rollouts earned which, and how its turns `went` (rods.observations.Dynamics)."""

    task: AnyTask
    environment: dict[str, Any]
    lineage: list[AnyTask]
    variants: list[str]
    windows: list[Window]
    history: list[dict[str, Any]]
    labels: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        return {
            "task": self.task.as_json(),
            "environment": self.environment,
            "lineage": [task.id for task in self.lineage],
            "variants": self.variants,
            "windows": [window.as_json() for window in self.windows],
            "history": self.history,
            "labels": self.labels,
        }


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


def _known(path: Path) -> tuple[RunState, dict[str, AnyTask], dict[str, str]]:
    """Where a run stands, its tasks by id, and of every variant the task that it was written from."""
    run = Run.open(path)
    state = read_state(run, strict=False)
    tasks = {task.id: task for task in run.tasks}
    seeds: dict[str, str] = {}
    for record in state.records(EXPANDED):
        try:
            variant = AnyTask.from_json(record["task"])
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
    state, tasks, seeds, task = _found(path, prefix)
    known = {one["name"]: one for one in state.run.environment_records()}
    return TaskHistory(
        task,
        known.get(task.environment.name, {}),  # of a variant that was refused for it, nothing is known
        _lineage(task.id, tasks, seeds),
        [variant for variant, seed in seeds.items() if seed == task.id],
        list(state.tracker.windows(task.id)),
        _history(state, task.id),
        _labels(state.run, task),
    )


@dataclass(frozen=True, slots=True)
class TaskEpisodes:
    """The episodes of a task in `step`, as they were kept (console.episodes), each with what is on record of its
    rollout; and the `steps` that have any."""

    task: str
    step: int
    steps: list[int]
    episodes: list[Trace]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def task_episodes(path: Path, prefix: str, step: int | None = None) -> TaskEpisodes:
    """Those of `step`, by default of the latest that has any. Raises UserError as `task_history`, and for a step of
    which none was kept."""
    state, _, _, task = _found(path, prefix)
    files = kept_steps(path, state.live)
    rollouts: dict[int, dict[int, list[dict[str, Any]]]] = {}  # by step and slot
    for one in RunState(state.run).steps():
        slots = {record["index"]: record["rollouts"] for record in one.records if record["task"] == task.id}
        if slots and one.step in files:
            rollouts[one.step] = slots
    steps = sorted(rollouts)
    wanted = step if step is not None else steps[-1] if steps else None
    if wanted not in rollouts:
        known = f"there are some of steps {', '.join(map(str, steps))}" if steps else "there are none of any step"
        raise UserError(
            f"no episode of task {task.id} was kept{'' if step is None else f' of step {step}'} ({known})",
            where=str(path),
            remedy="operation.trace_every and operation.trace_bytes say which are kept",
        )
    found = [
        {**trace, "rollout_record": rollouts[wanted][trace["slot"]][trace["rollout"]]}
        for trace in kept_episodes(files[wanted], task.id)
    ]
    return TaskEpisodes(task.id, wanted, steps, found)


def _found(path: Path, prefix: str) -> tuple[RunState, dict[str, AnyTask], dict[str, str], AnyTask]:
    """As `_known`, with the task whose id begins with `prefix`."""
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
    return state, tasks, seeds, tasks[found[0]]


def _labels(run: Run, task: AnyTask) -> list[dict[str, Any]]:
    """What became of each turn in the task's live groups, and how many had a call and how many replies they took, in
    order of steps."""
    found: list[dict[str, Any]] = []
    state = RunState(run)
    for step in state.steps():
        if state.rewound:  # a start dropped steps while we read
            found = [one for one in found if one["step"] < step.step]
        for record in (record for record in step.records if record["task"] == task.id):
            group = Group.from_json(record)
            turns: list[Counter[str]] = [Counter() for _ in task.texts]
            for rollout in group.rollouts:
                for turn, label in enumerate(rollout.labels, start=group.head):
                    turns[turn][label] += 1
            if any(turns):
                went = asdict(dynamics([record]))
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
