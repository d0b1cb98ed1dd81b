"""What the page is told: one function a table, from a run that is followed to what JSON can say.

A cursor (`after`) is `ATTEMPT.SEQ`; docs/decisions/page.md says of which log. Answers are bounded whatever the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from console.columns import Columns
from console.events import Events, matches
from console.follower import INSIDE, PROCESSES, Follower
from console.report.history import recorded
from console.report.page import told
from console.runs import condition
from console.task_history import kept_rollouts, task_history
from evaluation.heldout import scored
from rods.config import Config
from rods.errors import UserError, plain
from rods.faults import LABELS
from rods.rules.zones import ZONES
from trainer.advantages import advantages

POINTS = 2_000  # of a curve
DAEMONS = ("picked", "considered", "accepted", "rejected")  # figures that only all of the daemon's logs give
PAGE = 200  # rows of a list
VERSIONS = 20  # of what the policy was shown, and of environments, the latest
SPENT = ("calls", "failed", "tokens_in", "tokens_out", "seconds")
Query = Mapping[str, str]


def status(one: Follower, query: Query) -> dict[str, Any]:
    """What `rods status --json` says, with the run's state in a word and what the page draws beside it."""
    with one.fresh() as now:
        values = now.as_json()
        del values["seconds_per_step"], values["finished"]
        if not one.complete:
            values |= dict.fromkeys(DAEMONS)  # what is not known yet
        notes, versions = one.progress.notes(), one.versions.found[-VERSIONS:]
        asked, errors = one.progress.asked.words(), list(one.errors)
        environments = one.run.environment_records(one.admitted)[-VERSIONS:]
        spent = list(one.spent.values())
    processes = {name: one.progress.process(name) for name in PROCESSES}
    zones = one.run.config.zones
    return {
        "run": str(one.path),
        **values,
        "processes": processes,
        "asked": asked,
        "notes": notes,
        "condition": condition(now.step, now.steps, processes["trainer"]["life"]),
        "pace": now.pace(),
        "bounds": [zones.boundary_low, zones.boundary_high],
        "versions": [{**asdict(version), "reason": version.reason} for version in versions],
        "simulated": one.run.config.policy.kind == "simulated",
        "costs": {name: sum(getattr(some, name) for some in spent) for name in SPENT},
        "environments": environments,
        "errors": errors,
    }


def steps(one: Follower, query: Query) -> dict[str, Any]:
    """A row a live step behind the cursor `after` (observations.jsonl), thinned where there are more than `POINTS`; so
    updates and labels, some of which may have been told before. `merged`: how many epochs the reader knows. `whole`:
    answers once all of the history was read."""
    with one.whole() if query.get("whole") else one.fresh():
        start, reset = _start(one, one.steps, query)
        behind = one.steps["seq"][start - 1] if start else 0
        known = -1 if reset else whole(query, "merged", 0) - 1
        return {
            "cursor": _cursor(one, one.steps),
            "reset": reset,
            "columns": _thinned(one.steps, start, ("step", "epoch", "reward", *ZONES, "difficulty", "time")),
            "updates": _thinned(one.updates, one.updates.behind("seq", behind), ("step", "entropy", "norm")),
            "labels": _thinned(one.labels, one.labels.behind("seq", behind), ("step", *LABELS)),
            "epochs": _thinned(
                one.epochs, one.epochs.behind("epoch", known), ("epoch", "step", "stage", "originals", "generated")
            ),
        }


def _thinned(table: Columns, start: int, names: tuple[str, ...]) -> dict[str, list[Any]]:
    """Columns of the rows from `start` on; of at most `POINTS`, the last of each stretch."""
    every = max(1, -(-(len(table) - start) // POINTS))
    rows = np.arange(start, len(table))[::-1][::every][::-1]
    return {name: plain_list(table[name][rows]) for name in names}


def groups(one: Follower, query: Query) -> dict[str, Any]:
    """What the dots of the boundary move by: a row a group of the pool behind the cursor `after` (observations.jsonl);
    and behind the seq `decided` of pool.jsonl who has `left` the pool, and the dots of who `came`. More than `POINTS`
    groups are a `reset`: ask for the boundary anew."""
    with one.whole():
        start, reset = _start(one, one.groups, query)
        decided = one.decisions.behind("seq", whole(query, "decided", 0))
        behind = reset or max(len(one.groups) - start, len(one.decisions) - decided) > POINTS
        rows = np.arange(len(one.groups) if behind else start, len(one.groups))
        moved = np.array(sorted({*one.decisions["task"][len(one.decisions) if behind else decided :].tolist()}), int)
        inside = np.isin(one.decisions["kind"][one.newest_decision.rows(len(one.ids))[moved]], INSIDE)
        latest = one.newest_group.rows(len(one.ids))[moved[inside]]
        return {
            "cursor": _cursor(one, one.groups),
            "decided": _last(one.decisions),
            "reset": behind,
            "step": one.state.last_step,
            "active": len(one.state.active),
            "left": [one.ids[number] for number in moved[~inside]],
            "dots": [dot for dot in _dots(one, np.append(latest[latest >= 0], rows)) if dot[0] in one.state.active],
        }


def boundary(one: Follower, query: Query) -> dict[str, Any]:
    """Each active task's latest group up to `step` (default: the last), and the pool as it was then."""
    with one.whole():
        last = one.state.last_step
        step = min(whole(query, "step", last), last)
        active = one.active_at(step)
        rows = one.last_rows(one.groups, step)[active]
        zones = one.run.config.zones
        return {
            "step": step,
            "last": last,
            "active": len(active),
            "cursor": _cursor(one, one.groups),
            "decided": _last(one.decisions),
            "dots": _dots(one, rows[rows >= 0]),
            "bounds": [zones.boundary_low, zones.boundary_high],
        }


def task(one: Follower, query: Query) -> dict[str, Any]:
    """Everything on record about one task (`rods inspect`), its lineage with its conversations, and its groups."""
    with one.whole():
        found = task_history(one, query.get("task", ""))
        rows = np.flatnonzero(one.groups["task"] == one.number(found.task.id))[-POINTS:]
        series = {name: plain_list(one.groups[name][rows]) for name in ("step", "mean", "variance")}
        return {**found.as_json(), "line": [each.as_json() for each in found.lineage], "series": series}


def episodes(one: Follower, query: Query) -> dict[str, Any]:
    """The kept traces of a task with what their rollouts earned: those of `step`, by default of the latest that has
    any; and all steps that have."""
    at, steps, found = kept_rollouts(one, query.get("task", ""), whole(query, "step", 0) or None)
    told = [
        trace if group is None else trace | earned(one.run.config, group)[trace["rollout"]] for trace, group in found
    ]
    return {"step": at, "steps": steps, "episodes": told}


def earned(config: Config, rollouts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each rollout of a group its reward, its labels, and its advantage: as recorded, or else by the run's rule from
    the group's rewards, where these are all that the rule looks at. `advantage_by` says which."""
    settings = config.training
    rewards = np.array([[one["reward"] for one in rollouts]], np.float64)
    alone = settings.advantage_baseline != "batch" and settings.advantage_scale != "batch"
    by = "none on record"
    found: list[float | None] = [None] * len(rollouts)
    if alone and config.policy.kind != "simulated" and not (settings.advantage_hook or settings.update_rollouts):
        found = advantages(rewards, settings.advantage_baseline, settings.advantage_scale)[0].tolist()
        by = f"the group's rewards, baseline {settings.advantage_baseline}, scale {settings.advantage_scale}"
    return [
        {
            "reward": one["reward"],
            "labels": one.get("labels", []),
            "advantage": one.get("advantage", value),
            "advantage_by": "on record" if "advantage" in one else by,
        }
        for one, value in zip(rollouts, found, strict=True)
    ]


def models(one: Follower, query: Query) -> dict[str, Any]:
    """Calls of language models by process, endpoint and stage (usage.*.jsonl): how many, tokens, seconds; and what the
    daemon's heartbeat says of its endpoints and its budget."""
    with one.whole():
        calls = [
            {
                **dict(zip(("process", "endpoint", "stage"), key, strict=True)),
                **asdict(spent),
                "median": one.latency[key].quantile(0.5),
                "slow": one.latency[key].quantile(0.95),
            }
            for key, spent in sorted(one.spent.items())
        ]
        accepted = len(one.variants)
    beat = one.progress.process("daemon")
    limits: dict[str, Any] = {name: beat[name] for name in ("endpoints", "budget") if name in beat}
    return {"calls": calls, "accepted": accepted, "life": beat["life"], **limits}


def compared(one: Follower, query: Query) -> dict[str, Any]:
    """The held-out scores of a run, where `rods score` has made them."""
    return {"name": one.path.name, "heldout": scored(one.path)}


def events(one: Follower, query: Query) -> dict[str, Any]:
    """The latest events of both processes (logs/*.jsonl) that match `level`, `process` and `text`."""
    wanted = [event for event in Events(one.path).poll() if matches(event, query)]
    return {"total": len(wanted), "events": wanted[-PAGE:]}


def report(one: Follower, query: Query) -> dict[str, Any]:
    """What the run shows up to now, in sentences and plots."""
    return told(recorded(one))


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
    return f"{one.attempt}.{_last(table)}"


def _last(table: Columns) -> int:
    return int(table["seq"][-1]) if len(table) else 0


def whole(query: Query, name: str, default: int) -> int:
    value = query.get(name) or str(default)
    if not value.isdecimal() or len(value) > 12:
        raise UserError(f"{name}={plain(value)!r} is no number", where="the page", remedy="ask for a whole number")
    return int(value)


def plain_list(values: Any) -> Any:
    """Numbers as JSON has them; NaN becomes null there."""
    return values.tolist()


VIEWS = {
    "status": status,
    "steps": steps,
    "groups": groups,
    "boundary": boundary,
    "task": task,
    "episodes": episodes,
    "models": models,
    "compare": compared,
    "logs": events,
    "report": report,
}
