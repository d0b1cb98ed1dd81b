"""What the page is told: one function a table, from a run that is followed to what JSON can say.

A cursor (`after`) is `ATTEMPT.SEQ`; docs/decisions/page.md says of which log. Answers are bounded whatever the history.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from buffers.checkpoints import Checkpoints
from buffers.run.runfolder import LOGS, REJECTED, TRACES
from console.dash.columns import Columns
from console.dash.follower import DECISIONS, PROCESSES, Follower
from console.task_history import task_history
from evaluation.heldout import scored
from rods.errors import UserError, plain
from rods.rules.zones import ZONES

POINTS = 2_000  # of a curve
PAGE = 200  # rows of a list
LOG_BYTES = 1 << 18  # read from the end of a file of events
MOST_TEXT = 1 << 20  # characters of one text that an answer holds
MOST_EPISODES = 16  # of a task in a step
Query = Mapping[str, str]


def status(one: Follower, query: Query) -> dict[str, Any]:
    """What `rods status --json` says, with the run's state in a word and what the page draws beside it."""
    with one.fresh() as now:
        values = now.as_json()
        del values["seconds_per_step"], values["finished"]
        notes = one.progress.notes()
        spent = [
            {"endpoint": endpoint, "stage": stage, **asdict(found)} for (endpoint, stage), found in one.spent.items()
        ]
    processes = {name: one.progress.process(name) for name in PROCESSES}
    zones = one.run.config.zones
    return {
        "run": str(one.path),
        **values,
        "processes": processes,
        "notes": notes,
        "condition": _condition(now.step, now.steps, processes["trainer"]["life"]),
        "pace": now.pace(),
        "spent": spent,
        "bounds": [zones.boundary_low, zones.boundary_high],
        "simulated": one.run.config.policy.kind == "simulated",
        "errors": [event for event in _events(one) if event.get("level") in ("warning", "error", "critical")][-5:],
    }


def _condition(step: int, steps: int, life: str) -> str:
    """The state of a run in a word."""
    if life in ("running", "idle", "stuck"):
        return "being written" if life != "stuck" else "stuck"
    if step >= steps:
        return "finished"
    if life == "dead":
        return "crashed"
    return "stopped" if step else "empty"


def steps(one: Follower, query: Query) -> dict[str, Any]:
    """A row a live step behind the cursor (observations.jsonl): thinned where there are more than `POINTS`."""
    with one.fresh():
        start, reset = _start(one, one.steps, query)
        every = max(1, -(-(len(one.steps) - start) // POINTS))
        rows = np.arange(start, len(one.steps))[::-1][::every][::-1]
        columns = {name: _plain(one.steps[name][rows]) for name in ("step", "epoch", "reward", *ZONES, "time")}
        checkpoints = Checkpoints(one.path).named(one.state.live)
        epochs = {name: one.epochs[name].tolist() for name in ("epoch", "step", "stage", "originals", "generated")}
        cursor = _cursor(one, one.steps)
    norms: dict[int, float | None] = {}
    for checkpoint in checkpoints:
        found = checkpoint.position.curriculum.get("norms", ())
        norms |= zip(range(checkpoint.position.step - len(found) + 1, checkpoint.position.step + 1), found, strict=True)
    return {
        "cursor": cursor,
        "reset": reset,
        "columns": columns,
        "norms": sorted(norms.items()),
        "epochs": {name: values[-POINTS:] for name, values in epochs.items()},
    }


def groups(one: Follower, query: Query) -> dict[str, Any]:
    """A row a group behind the cursor (observations.jsonl): what the dots of the boundary move by. Those of more than
    `POINTS` groups are a `reset`: ask for the boundary anew."""
    with one.fresh():
        start, reset = _start(one, one.groups, query)
        behind = reset or len(one.groups) - start > POINTS
        rows = np.arange(len(one.groups) if behind else start, len(one.groups))
        return {
            "cursor": _cursor(one, one.groups),
            "reset": behind,
            "step": one.state.last_step,
            "dots": _dots(one, rows),
        }


def boundary(one: Follower, query: Query) -> dict[str, Any]:
    """Each active task's latest group up to `step` (default: the last), and the pool as it was then."""
    with one.fresh():
        last = one.state.last_step
        step = min(_whole(query, "step", last), last)
        active = one.active_at(step)
        rows = one.last_rows(one.groups, step)[active]
        zones = one.run.config.zones
        return {
            "step": step,
            "last": last,
            "active": len(active),
            "cursor": _cursor(one, one.groups),
            "dots": _dots(one, rows[rows >= 0]),
            "bounds": [zones.boundary_low, zones.boundary_high],
        }


def pool(one: Follower, query: Query) -> dict[str, Any]:
    """A page of the variants, the latest first: where each came from and what became of it. `state` filters."""
    with one.fresh():
        table, total = one.variants, len(one.variants)
        decided = one.last_rows(one.decisions, one.state.last_step)
        latest = one.last_rows(one.groups, one.state.last_step)
        task = table["task"]
        kinds = np.append(one.decisions["kind"], -1)[decided[task]] if total else np.zeros(0, np.int8)
        refused = np.isin(table["seq"], list(one.refused))
        names = np.array(["staged", *DECISIONS, "refused"])
        states = names[np.where((kinds < 0) & refused, len(names) - 1, kinds + 1)]
        counts = dict(zip(*(_plain(found) for found in np.unique(states, return_counts=True)), strict=True))
        wanted = np.flatnonzero(states == query["state"]) if query.get("state") else np.arange(total)
        begin = _whole(query, "from", 0)
        rows = []
        for row in wanted[::-1][begin : begin + PAGE]:
            number, group = int(task[row]), latest[task[row]]
            rows.append(
                {
                    "task": one.ids[number],
                    "seed": one.ids[table["seed"][row]],
                    "generation": int(table["generation"][row]),
                    "picked": int(table["step"][row]),
                    "state": str(states[row]),
                    "events": _life(one, number, int(table["seq"][row])),
                    "mean": None if group < 0 else _plain(one.groups["mean"][group]),
                    "zone": None if group < 0 else ZONES[one.groups["zone"][group]],
                }
            )
        return {"total": len(wanted), "from": begin, "counts": counts, "variants": rows}


def _life(one: Follower, number: int, seq: int) -> list[dict[str, Any]]:
    """What pool.jsonl says of a variant, in order."""
    rows = np.flatnonzero(one.decisions["task"] == number)
    events = [
        {
            "step": int(one.decisions["step"][row]),
            "event": DECISIONS[one.decisions["kind"][row]],
            "rule": one.rules.get(int(row), ""),
        }
        for row in rows
    ]
    if seq in one.refused:
        step, rule = one.refused[seq]
        events.append({"step": step, "event": "refused", "rule": rule})
    return events


def task(one: Follower, query: Query) -> dict[str, Any]:
    """Everything on record about one task (`rods inspect`), its lineage with its conversations, and its groups."""
    found = task_history(one.path, query.get("task", ""))
    with one.fresh():
        number = one.number(found.task.id)
        rows = np.flatnonzero(one.groups["task"] == number)[-POINTS:]
        series = {name: _plain(one.groups[name][rows]) for name in ("step", "mean", "variance")}
        return {**found.as_json(), "line": [each.as_json() for each in found.lineage], "series": series}


def episodes(one: Follower, query: Query) -> dict[str, Any]:
    """The kept traces of a task: those of `step`, by default of the latest that has any; and all steps that have."""
    task_id = query.get("task", "")
    files: dict[int, Path] = {}
    with one.fresh():
        for file in sorted((one.path / TRACES).glob("step_*.jsonl.gz")):
            name, _, attempt = file.name.removesuffix(".jsonl.gz").removeprefix("step_").partition(".a")
            if name.isdecimal() and attempt.isdecimal() and one.state.live(int(attempt), int(name)):
                files[int(name)] = file
        rows = np.flatnonzero(one.groups["task"] == one.numbers.get(task_id, -1))
        kept = [number for number in np.unique(one.groups["step"][rows]).tolist() if number in files]
    step = _whole(query, "step", kept[-1] if kept else 0)
    found: list[Any] = []
    if step in files:
        with gzip.open(files[step]) as lines:
            for line in lines:
                if task_id.encode() in line and (trace := orjson.loads(line)).get("task") == task_id:
                    found.append(trace)
                    if len(found) == MOST_EPISODES:
                        break
    return {"step": step, "steps": kept, "episodes": found}


def rejected(one: Follower, query: Query) -> dict[str, Any]:
    """Why candidates failed: how many by stage and error, with the latest of each (rejected.jsonl)."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record in one.state.records(REJECTED):
        key = record["stage"], record["error"]
        entry = found.setdefault(key, {"stage": key[0], "error": key[1], "count": 0})
        entry["count"] += 1
        entry |= {"pick": record["pick"], "evidence": record["evidence"], "raw": record["raw"][:MOST_TEXT]}
    return {"rejected": sorted(found.values(), key=lambda entry: -entry["count"])}


def compared(one: Follower, query: Query) -> dict[str, Any]:
    """The held-out scores of a run, where `rods score` has made them."""
    return {"name": one.path.name, "heldout": scored(one.path)}


def events(one: Follower, query: Query) -> dict[str, Any]:
    """The latest events of both processes (logs/*.jsonl) that match `level`, `process` and `text`."""
    wanted = [
        event
        for event in _events(one)
        if query.get("level") in (None, "", event.get("level"))
        and query.get("process") in (None, "", event.get("process"))
        and query.get("text", "").lower() in orjson.dumps(event).decode().lower()
    ]
    return {"total": len(wanted), "events": wanted[-PAGE:]}


def _events(one: Follower) -> list[dict[str, Any]]:
    """The events at the ends of both files, in order of time; lines that are no object are left out."""
    return sorted(
        (event for name in PROCESSES for event in _tail(one, name)), key=lambda event: str(event.get("timestamp", ""))
    )


def _tail(one: Follower, process: str) -> Iterator[dict[str, Any]]:
    try:
        with (one.path / LOGS / f"{process}.jsonl").open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_BYTES))
            lines = file.read(LOG_BYTES).split(b"\n")
    except OSError:
        return
    for line in lines[size > LOG_BYTES :]:
        try:
            event = orjson.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _dots(one: Follower, rows: Any) -> list[list[Any]]:
    """Task, mean, variance, zone, whether a variant, and step, of rows of groups."""
    table = one.groups
    return [
        [
            one.ids[task],
            mean if mean == mean else None,
            spread if spread == spread else None,
            ZONES[zone],
            task >= one.originals,
            step,
        ]
        for task, mean, spread, zone, step in zip(
            *(table[name][rows].tolist() for name in ("task", "mean", "variance", "zone", "step")), strict=True
        )
    ]


def _start(one: Follower, table: Columns, query: Query) -> tuple[int, bool]:
    """The first row behind the cursor of `query`, and whether it belongs to another attempt, so that all rows count."""
    cursor = query.get("after") or "0.0"
    attempt, _, seq = cursor.partition(".")
    if not attempt.isdecimal() or not seq.isdecimal():
        raise UserError(f"after={plain(cursor)!r} is no cursor", where="the page", remedy="ask without `after`")
    if int(attempt) != one.attempt:
        return 0, True
    return table.behind("seq", int(seq)), False


def _cursor(one: Follower, table: Columns) -> str:
    return f"{one.attempt}.{int(table['seq'][-1]) if len(table) else 0}"


def _whole(query: Query, name: str, default: int) -> int:
    value = query.get(name) or str(default)
    if not value.isdecimal() or len(value) > 12:
        raise UserError(f"{name}={plain(value)!r} is no number", where="the page", remedy="ask for a whole number")
    return int(value)


def _plain(values: Any) -> Any:
    """Numbers as JSON has them; NaN becomes null there."""
    return values.tolist()


VIEWS = {
    "status": status,
    "steps": steps,
    "groups": groups,
    "boundary": boundary,
    "pool": pool,
    "task": task,
    "episodes": episodes,
    "rejected": rejected,
    "compare": compared,
    "logs": events,
}
