"""Everything on record about one task of a run, the episodes kept of it (traces/), and the list of
all tasks."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from rods.buffers.log.record_bytes import Record, group_of
from rods.buffers.run.runfolder import OBSERVATIONS, POOL, REJECTED, SEEDS, TRACES
from rods.canonical import JsonObject
from rods.console.progress import progress_moments
from rods.errors import UserError
from rods.extension import Door
from rods.family.page.columns import Columns
from rods.family.page.follower import UNKNOWN, Follower
from rods.files import BULK, read_regular, unpacked_lines
from rods.rules.tracker import Window
from rods.tasks import TASK_TYPES, AnyTask
from rods.turn_statistics import dynamics

# patterns of files in a run's folder in which a feature says something of tasks: JSON lines, each
# with a `task`, `what` is the matter, and `evidence`, texts
FINDINGS: Door[tuple[str, ...]] = Door("findings")
SAID = 300  # characters of what a failed candidate came to
# What a decision's record says besides its kind and place.
FACTS = (
    *("epoch", "slot", "difficulty", "rule", "groups", "mean", "variance", "detail", "score"),
    *("why", "accepted", "discarded", "dropped_stale"),
)


@dataclass(frozen=True)
class TaskHistory:
    """A task, its `environment` (rods.buffers.run.run.Run.environment_records), its ancestry from
    the root on, its variants, its windows of rewards, its picks and decisions; and of each group
    with labels its step, turn by turn how many of its rollouts earned which, and how its turns
    `went` (rods.turn_statistics.Dynamics). `notes` are what features say of it."""

    task: AnyTask
    environment: JsonObject
    ancestry: list[AnyTask]
    variants: list[str]
    windows: list[Window]
    history: list[JsonObject]
    labels: list[JsonObject]
    notes: list[str]

    def as_json(self) -> JsonObject:
        return {
            **vars(self),
            "task": self.task.as_json(),
            "ancestry": [task.id for task in self.ancestry],
            "windows": [window.as_json() for window in self.windows],
        }


def findings(run: Path) -> Iterator[JsonObject]:
    """What features say of tasks, as `rods.family.page.views.TABLES` has it, a table each file:
    how many tasks are what, then each."""
    for file in (file for patterns in FINDINGS for one in patterns for file in run.glob(one)):
        try:
            lines = [orjson.loads(line) for line in read_regular(file, BULK).splitlines()]
            counts = Counter(line["what"] for line in lines).most_common()
            notes = [f"{count:6} {what}" for what, count in counts]
            for line in lines:
                seen = "; ".join(line["evidence"])[:SAID]
                notes.append(f"{line['task']} {line['what']}" + f" ({seen})" * bool(seen))
        except (OSError, UserError, ValueError, KeyError, TypeError) as error:
            notes = [f"it cannot be read ({error})"]
        source = str(file.relative_to(run))
        yield {"title": source, "source": source, "rows": [], "notes": notes}


def task_list(follower: Follower) -> list[JsonObject]:
    """Id, type, zone, generation and whether it is active, of every task of the run, the given ones
    first."""
    with follower.whole():
        state = follower.state
        table = follower.variants
        rows = table.newest
        types = dict(zip(follower.run.tasks.ids, follower.run.tasks.types, strict=True))
        for number in dict.fromkeys(table["task"][table["type"] != UNKNOWN].tolist()):
            types[follower.ids[number]] = TASK_TYPES[table["type"][rows[number]]]
        return [
            {
                "id": task,
                "type": kind,
                "zone": state.tracker.zone(task),
                "generation": len(follower.line(follower.number(task))) - 1,
                "active": task in state.active,
            }
            for task, kind in types.items()
        ]


def task_history(follower: Follower, prefix: str) -> TaskHistory:
    """The task whose id begins with `prefix`. Raises UserError when it names no task of the run or
    more than one."""
    with follower.whole():
        task = follower.named(prefix)
        number = follower.number(task.id)
        environments = {world["name"]: world for world in follower.run.environment_records()}
        groups = list(follower.records(OBSERVATIONS, follower.rolled_out(number)))
        table = follower.variants
        rows = np.flatnonzero((table["seed"] == number) & (table["type"] != UNKNOWN))
        variants = table["task"][rows[table.newest[table["task"][rows]] == rows]].tolist()
        return TaskHistory(
            task,
            # of a variant that was refused for it, nothing is known
            environments.get(task.environment.name, {}),
            _ancestry(follower, task),
            [follower.ids[variant] for variant in variants],
            list(follower.state.tracker.windows(task.id)),
            _history(follower, number, groups),
            _labels(task, groups),
            [
                f"{table['source']}: {note}"
                for table in findings(follower.path)
                for note in table["notes"]
                if task.id in note
            ],
        )


def _labels(task: AnyTask, records: list[Record]) -> list[JsonObject]:
    """What became of each turn in the task's live groups, and how many had a call and how many
    replies they took, in order of steps."""
    groups: list[JsonObject] = []
    for record in records:
        group = group_of(record)
        turns: list[Counter[str]] = [Counter() for _ in task.texts]
        for rollout in group.rollouts:
            for turn, label in enumerate(rollout.labels):
                turns[turn][label] += 1
        if any(turns):
            went = asdict(dynamics([record]))
            groups.append(
                {"step": record["step"], "turns": [dict(turn) for turn in turns], "went": went}
            )
    return groups


def _ancestry(follower: Follower, task: AnyTask) -> list[AnyTask]:
    """The tasks from the root to this one, or from behind the last whose content was lost."""
    line = [task]
    for number in follower.line(follower.number(task.id))[1:]:
        if (seed := follower.content(number)) is None:
            break
        line.insert(0, seed)
    return line


def _history(follower: Follower, number: int, groups: list[Record]) -> list[JsonObject]:
    """Picks of the task and decisions about it, in order of steps. Decisions that a restart took
    back are left out."""

    def seqs(table: Columns) -> list[int]:
        rows: list[int] = table["seq"][table["task"] == number].tolist()
        return rows

    # The latest of each pick.
    failed = {
        record["pick"]: record["evidence"]
        for record in follower.records(REJECTED, seqs(follower.rejected))
    }
    refused = [
        follower.refused[seq].seq for seq in seqs(follower.variants) if seq in follower.refused
    ]
    records = [
        *follower.records(SEEDS, seqs(follower.picks)),
        *follower.records(POOL, sorted([*seqs(follower.decisions), *refused])),
    ]
    means = (((group["step"], group["index"]), progress_moments(group)) for group in groups)
    earned = {place: {"mean": entry.mean} for place, entry in means if entry is not None}
    for _, source in follower.state.sources:
        for record in follower.state.records(source.log):
            if record["task"]["id"] == follower.ids[number]:
                records.append(record | earned.get((record["step"], record["slot"]), {}))
    events = []
    for record in sorted(records, key=lambda record: record["step"]):
        event = {"step": record["step"], "event": record["kind"]}
        event |= {key: record[key] for key in FACTS if record.get(key) is not None}
        if record["kind"] == "finished" and not record["accepted"] and record["pick"] in failed:
            event["latest failure"] = _evidence_text(failed[record["pick"]])
        events.append(event)
    return events


def _evidence_text(evidence: Any) -> str:
    """What a failed candidate came to, in the words of whatever refused it."""
    text = evidence.get("detail", evidence) if isinstance(evidence, dict) else evidence
    return ("; ".join(map(str, text)) if isinstance(text, list) else str(text))[:SAID]


MOST_EPISODES = 16  # of a task in a step
Trace = JsonObject


def kept_rollouts(
    follower: Follower, task_id: str, step: int | None = None
) -> tuple[int, list[int], list[tuple[Trace, list[JsonObject] | None]]]:
    """The kept traces of a task in `step`, by default in the latest that has any (0: none has),
    each with the rollouts of its group on record, None where damage took them; and all steps that
    have some."""
    with follower.whole():
        files = _kept_steps(follower.path, follower.state.live)
        rolled_out = (
            follower.rolled_out(follower.numbers[task_id]) if task_id in follower.numbers else {}
        )
    steps = sorted({at for at in rolled_out.values() if at in files})
    wanted = step if step is not None else steps[-1] if steps else 0
    if wanted not in steps:
        return wanted, steps, []
    seqs = [seq for seq, at in rolled_out.items() if at == wanted]
    groups = {
        record["index"]: record["rollouts"] for record in follower.records(OBSERVATIONS, seqs)
    }
    return (
        wanted,
        steps,
        [(trace, groups.get(trace["slot"])) for trace in _kept_episodes(files[wanted], task_id)],
    )


def _kept_steps(run: Path, live: Callable[[int, int], bool]) -> dict[int, Path]:
    """The files of the steps that have any, in order of steps; `live` says whether an attempt's
    step counts."""
    files: dict[int, Path] = {}
    for file in sorted((run / TRACES).glob("step_*.jsonl.gz")):
        name, _, attempt = file.name.removesuffix(".jsonl.gz").removeprefix("step_").partition(".a")
        if name.isdecimal() and attempt.isdecimal() and live(int(attempt), int(name)):
            files[int(name)] = file
    return files


def _kept_episodes(file: Path, task_id: str) -> list[Trace]:
    """Those of a task in a step's file, in order; of a file that was cut short, or deleted
    meanwhile, what is left: nobody syncs traces, they are for people, and oldest ones are
    deleted."""
    episodes: list[Trace] = []
    with suppress(OSError, UserError):
        for line in unpacked_lines(file):
            whole = line.endswith(b"\n") and task_id.encode() in line
            if whole and (trace := orjson.loads(line)).get("task") == task_id:
                episodes.append(trace)
                if len(episodes) == MOST_EPISODES:
                    break
    return episodes
