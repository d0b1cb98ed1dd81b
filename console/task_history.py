"""Everything on record about one task of a run, and the list of all tasks: for verbs and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from buffers.log.parts import Lookup
from buffers.log.records import Record
from buffers.run.run import Run
from buffers.run.runfolder import DRAWN, EXPANDED, OBSERVATIONS, POOL, REJECTED, SEEDS
from buffers.state import read_state
from console.columns import Columns
from console.episodes import Trace, kept_episodes, kept_steps
from console.follower import UNKNOWN, Follower
from console.progress import progress_moments
from rods.errors import UserError
from rods.observations import Group, dynamics
from rods.rules.tracker import Window
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
    run = Run.open(path)
    state = read_state(run, strict=False)
    types = {task.id: task.type for task in run.tasks}
    seeds: dict[str, str] = {}
    for record in state.records(EXPANDED):
        try:
            variant = AnyTask.from_json(record["task"])
        except ValueError:
            continue
        types[variant.id] = variant.type
        seeds[variant.id] = str(record["pick"]).partition("-")[2]
    return [
        {
            "id": task,
            "type": kind,
            "zone": state.tracker.zone(task),
            "generation": _generation(task, types, seeds),
            "active": task in state.active,
        }
        for task, kind in types.items()
    ]


def _generation(task: str, known: Container[str], seeds: Mapping[str, str]) -> int:
    """How many tasks stand between it and the root, each of which was written from the one before."""
    line = [task]
    while (seed := seeds.get(line[-1], "")) in known and seed not in line:
        line.append(seed)
    return len(line) - 1


def task_history(one: Follower, prefix: str) -> TaskHistory:
    """The task whose id begins with `prefix`. Raises UserError when it names no task of the run or more than one."""
    with one.whole():
        task = _found(one, prefix)
        number = one.number(task.id)
        known = {world["name"]: world for world in one.run.environment_records(one.admitted)}
        groups = list(_records(one.path / OBSERVATIONS, one.rolled_out(number)))
        return TaskHistory(
            task,
            known.get(task.environment.name, {}),  # of a variant that was refused for it, nothing is known
            _lineage(one, task),
            _variants(one, number),
            list(one.state.tracker.windows(task.id)),
            _history(one, number, groups),
            _labels(task, groups),
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


def task_episodes(one: Follower, prefix: str, step: int | None = None) -> TaskEpisodes:
    """Those of `step`, by default of the latest that has any. Raises UserError as `task_history`, and for a step of
    which none was kept."""
    with one.whole():
        task = _found(one, prefix)
    wanted, steps, found = kept_rollouts(one, task.id, step)
    if wanted not in steps:
        known = f"there are some of steps {', '.join(map(str, steps))}" if steps else "there are none of any step"
        raise UserError(
            f"no episode of task {task.id} was kept{'' if step is None else f' of step {step}'} ({known})",
            where=str(one.path),
            remedy="operation.trace_every and operation.trace_bytes say which are kept",
        )
    episodes = [{**trace, "rollout_record": group[trace["rollout"]]} for trace, group in found if group is not None]
    return TaskEpisodes(task.id, wanted, steps, episodes)


def kept_rollouts(
    one: Follower, task_id: str, step: int | None = None
) -> tuple[int, list[int], list[tuple[Trace, list[dict[str, Any]] | None]]]:
    """The kept traces of a task in `step`, by default in the latest that has any (0: none has), each with the rollouts
    of its group on record, None where damage took them; and all steps that have some."""
    with one.whole():
        files = kept_steps(one.path, one.state.live)
        rolled_out = one.rolled_out(one.numbers[task_id]) if task_id in one.numbers else {}
    steps = sorted({at for at in rolled_out.values() if at in files})
    wanted = step if step is not None else steps[-1] if steps else 0
    if wanted not in steps:
        return wanted, steps, []
    seqs = [seq for seq, at in rolled_out.items() if at == wanted]
    groups = {record["index"]: record["rollouts"] for record in _records(one.path / OBSERVATIONS, seqs)}
    return wanted, steps, [(trace, groups.get(trace["slot"])) for trace in kept_episodes(files[wanted], task_id)]


def _records(log: Path, seqs: Iterable[int]) -> Iterator[Record]:
    """Those of a log that damage has left."""
    lookup = Lookup(log)
    for seq in seqs:
        with suppress(KeyError):
            yield lookup[seq]


def _found(one: Follower, prefix: str) -> AnyTask:
    given = {task.id: task for task in one.run.tasks}
    known = dict.fromkeys([*given, *one.ids])
    found = [task_id for task_id in known if task_id.startswith(prefix)] if prefix else []
    where, remedy = str(one.path), f"`rods inspect {one.path}` lists them all"
    if len(found) != 1:
        what = f"{len(found)} tasks begin so: {', '.join(found[:4])}" if found else f"the run has {len(known)} tasks"
        raise UserError(
            f"{prefix!r} names {'more than one task' if found else 'no task'} ({what})",
            where=where,
            remedy=f"{'give more characters; ' if found else ''}{remedy}",
        )
    task = given.get(found[0]) or one.content(one.number(found[0]))
    if task is None:
        raise UserError(f"the content of task {found[0]} was lost, or is no task", where=where, remedy=remedy)
    return task


def _labels(task: AnyTask, groups: list[Record]) -> list[dict[str, Any]]:
    """What became of each turn in the task's live groups, and how many had a call and how many replies they took, in
    order of steps."""
    found: list[dict[str, Any]] = []
    for record in groups:
        group = Group.from_json(record)
        turns: list[Counter[str]] = [Counter() for _ in task.texts]
        for rollout in group.rollouts:
            for turn, label in enumerate(rollout.labels, start=group.head):
                turns[turn][label] += 1
        if any(turns):
            went = asdict(dynamics([record]))
            found.append({"step": record["step"], "turns": [dict(turn) for turn in turns], "went": went})
    return found


def _lineage(one: Follower, task: AnyTask) -> list[AnyTask]:
    """The tasks from the root to this one: each was written from the one before."""
    line, rows = [task], one.newest_variant.rows(len(one.ids))
    row = rows[one.number(task.id)]
    while row >= 0:
        seed = int(one.variants["seed"][row])
        content = one.content(seed)
        if content is None or content.id in {other.id for other in line}:
            break
        line.insert(0, content)
        row = rows[seed]
    return line


def _variants(one: Follower, number: int) -> list[str]:
    """Those that were written from it, in order."""
    table = one.variants
    rows = np.flatnonzero((table["seed"] == number) & (table["type"] != UNKNOWN))
    latest = one.newest_variant.rows(len(one.ids))[table["task"][rows]] == rows
    return [one.ids[task] for task in table["task"][rows[latest]].tolist()]


def _history(one: Follower, number: int, groups: list[Record]) -> list[dict[str, Any]]:
    """Picks of the task and decisions about it, in order of steps. Decisions that a restart took back are left out."""
    task_id = one.ids[number]

    def seqs(table: Columns) -> list[int]:
        found: list[int] = table["seq"][table["task"] == number].tolist()
        return found

    failed = {
        made["pick"]: made["evidence"] for made in _records(one.path / REJECTED, seqs(one.rejected))
    }  # the latest
    refused = [one.refused[seq].seq for seq in seqs(one.variants) if seq in one.refused]
    events = [(record["step"], record) for record in _records(one.path / SEEDS, seqs(one.picks))]
    events += [
        (record["step"], record) for record in _records(one.path / POOL, sorted([*seqs(one.decisions), *refused]))
    ]
    for record in one.state.records(DRAWN) if one.run.config.source.drawn else ():
        if record["task"]["id"] == task_id:
            events.append((record["step"], record | _earned(groups, record["step"], record["slot"])))
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


def _earned(groups: list[Record], step: int, slot: int) -> dict[str, Any]:
    """The mean reward in a slot of a live step; nothing where there is no such group, or nothing counts."""
    for record in groups:
        if (record["step"], record["index"]) == (step, slot) and (found := progress_moments(record)) is not None:
            return {"mean": found.mean}
    return {}


def _gave_none(record: dict[str, Any], failed: dict[str, Any]) -> bool:
    return record["kind"] == "finished" and not record["accepted"] and record["pick"] in failed


def _told(evidence: Any) -> str:
    """What a failed candidate came to, in the words of whatever refused it."""
    text = evidence.get("detail", evidence) if isinstance(evidence, dict) else evidence
    return ("; ".join(map(str, text)) if isinstance(text, list) else str(text))[:SAID]
