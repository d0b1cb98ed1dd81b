"""What the page is told: one function a table, from a run that is followed to what JSON can say.

A cursor (`after`) is `ATTEMPT.SEQ`; docs/decisions/page.md says of which log. Answers are bounded
whatever the history.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from rods.buffers.log.parts import Lookup
from rods.buffers.run.runfolder import EVALUATION, REJECTED
from rods.canonical import JsonMapping, JsonObject, only
from rods.console.events import PROCESSES, Events
from rods.console.progress import Progress
from rods.errors import UserError, plain
from rods.evaluation.heldout import scored
from rods.extension import Door
from rods.family.page.columns import Columns, thinned
from rods.family.page.follower import COUNTS, DECISIONS, DYNAMICS, Follower
from rods.family.page.report import report
from rods.family.page.task_history import findings, kept_rollouts, task_history
from rods.faults import LABELS, Gate
from rods.rules.zones import ZONES

POINTS = 2_000  # of a curve
PAGE = 200  # rows of a list
EVENTS = 1_000
VERSIONS = 20  # of what the policy was shown, and of environments, the latest
CURVES = ("step", "epoch", "reward", *ZONES, "difficulty", "earned", *DYNAMICS, "time")
SPENT = ("calls", "failed", "tokens_in", "tokens_out", "seconds")
RECORDED = ("reward", "labels", "advantage")  # of a rollout
STATES = np.array(["staged", *DECISIONS, "refused"])
MOST_TEXT = 1 << 20  # characters of what a failed candidate had written that an answer holds
Query = Mapping[str, str]


def status(follower: Follower, query: Query) -> JsonObject:
    """What `rods status --json` says, with the run's state in a word and what the page draws beside
    it. While the history of a long run is being read, a reader of its own says where the run
    stands."""
    progress = Progress(follower.path) if follower.sample is None else follower
    with follower.whole() if progress is follower else nullcontext(progress.poll()) as now:
        notes = progress.notes()
        versions = progress.versions.entries[-VERSIONS:]
        errors = list(follower.errors)
        environments = progress.run.environment_records()[-VERSIONS:]
        costs = {
            name: sum(getattr(spent, name) for spent in follower.spent.values()) for name in SPENT
        }
    processes = {name: progress.process(name) for name in PROCESSES}
    zones = progress.config.zones
    policy = progress.config.policy
    return {
        "run": str(follower.path),
        **now.standing(),
        "processes": processes,
        "notes": notes,
        "condition": now.condition(processes["trainer"]["life"]),
        "pace": now.pace(),
        "bounds": [zones.boundary_low, zones.boundary_high],
        "versions": [{**asdict(version), "reason": version.reason} for version in versions],
        "policy": policy.kind,
        "model": policy.model,
        "costs": costs,
        "heldout": _scored(
            follower.path,
            progress.state.attempt,
            tuple(path.name for path in (follower.path / EVALUATION).glob("heldout_*")),
        ),
        "environments": environments,
        "errors": errors,
    }


@lru_cache(maxsize=64)
def _scored(path: Path, attempt: int, files: tuple[str, ...]) -> JsonObject | None:
    """Held-out scores, read again where an attempt or files are new: a page asks each second."""
    return scored(path) if files else None


def steps(follower: Follower, query: Query) -> JsonObject:
    """A row a live step behind the cursor `after` (observations.jsonl), thinned where there are
    more than `POINTS`; so updates and labels, some of which may have been told before. `merged`:
    how many epochs the reader knows."""
    with follower.whole():
        start, reset = _start(follower, query)
        behind = follower.steps["seq"][start - 1] if start else 0
        merged = -1 if reset else whole(query, "merged", 0) - 1
        return {
            "cursor": f"{follower.state.attempt}.{follower.steps.last}",
            "reset": reset,
            "columns": _thinned(follower.steps, start, CURVES),
            "updates": _thinned(
                follower.updates,
                follower.updates.behind("seq", behind),
                ("step", "entropy", "norm"),
            ),
            "labels": _thinned(
                follower.labels, follower.labels.behind("seq", behind), ("step", *LABELS)
            ),
            "epochs": _thinned(
                follower.epochs,
                follower.epochs.behind("epoch", merged),
                ("epoch", "step", "stage", *COUNTS),
            ),
        }


def _thinned(table: Columns, start: int, names: tuple[str, ...]) -> dict[str, list[Any]]:
    """Columns of the rows from `start` on; of at most `POINTS`, the last of each stretch."""
    rows = thinned(start, len(table), POINTS)
    return {name: table[name][rows].tolist() for name in names}


def boundary(follower: Follower, query: Query) -> JsonObject:
    """Each active task's latest group up to `step` (default: the last), and the pool as it was
    then."""
    with follower.whole():
        last = follower.state.last_step
        step = min(whole(query, "step", last), last)
        active = follower.active_at(step)
        rows = follower.last_rows(follower.groups, step)[active]
        zones = follower.config.zones
        dots = follower.groups.values(rows[rows >= 0], "task", "mean", "variance", "zone", "step")
        return {
            "step": step,
            "last": last,
            "active": len(active),
            "dots": [  # whether a variant is the last but one; NaN becomes null
                [follower.ids[task], mean, variance, ZONES[zone], task >= follower.originals, at]
                for task, mean, variance, zone, at in dots
            ],
            "bounds": [zones.boundary_low, zones.boundary_high],
        }


def task(follower: Follower, query: Query) -> JsonObject:
    """All on record about one task (`rods inspect`), its ancestry with its conversations, and
    its groups."""
    with follower.whole():
        history = task_history(follower, query.get("task", ""))
        rows = np.flatnonzero(follower.groups["task"] == follower.number(history.task.id))[-POINTS:]
        series = {
            name: follower.groups[name][rows].tolist() for name in ("step", "mean", "variance")
        }
        return {
            **history.as_json(),
            "line": [ancestor.as_json() for ancestor in history.ancestry],
            "series": series,
        }


def episodes(follower: Follower, query: Query) -> JsonObject:
    """The kept traces of a task with what is on record of their rollouts: those of `step`, by
    default of the latest that has any; and all steps that have."""
    at, steps, kept = kept_rollouts(
        follower, query.get("task", ""), whole(query, "step", 0) or None
    )
    rows = []
    for trace, rollouts in kept:
        rollout = {} if rollouts is None else rollouts[trace["rollout"]]
        record = only(rollout, RECORDED)
        rows.append({**trace, **record})
    return {"step": at, "steps": steps, "episodes": rows}


def models(follower: Follower, query: Query) -> JsonObject:
    """Calls of language models by process, endpoint and stage (usage.*.jsonl): how many, tokens,
    seconds; and what the daemon's heartbeat says of its endpoints and its budget."""
    with follower.whole():
        calls = [
            {**dict(zip(("process", "endpoint", "stage"), key, strict=True)), **asdict(spent)}
            for key, spent in sorted(follower.spent.items())
        ]
        accepted = len(follower.variants)
    beat = follower.process("daemon")
    limits: JsonObject = only(beat, ("endpoints", "budget"))
    return {"calls": calls, "accepted": accepted, "life": beat["life"], **limits}


def logs(follower: Follower, query: Query) -> JsonObject:
    """The latest events of both processes (logs/*.jsonl), among which the page chooses."""
    return {"events": Events(follower.path).poll()[-EVENTS:]}


def _start(follower: Follower, query: Query) -> tuple[int, bool]:
    """The first step behind the cursor of `query`, and whether it belongs to another attempt, so
    that all steps count."""
    cursor = query.get("after") or "0.0"
    attempt, _, seq = cursor.partition(".")
    if not attempt.isdecimal() or not seq.isdecimal() or len(cursor) > 24:
        raise UserError(
            f"after={plain(cursor[:100])!r} is no cursor",
            where="the page",
            remedy="ask without `after`",
        )
    if int(attempt) != follower.state.attempt:
        return 0, True
    return follower.steps.behind("seq", int(seq)), False


def whole(query: Query, name: str, default: int) -> int:
    value = query.get(name) or str(default)
    if not value.isdecimal() or len(value) > 12:
        raise UserError(
            f"{name}={plain(value[:100])!r} is no number",
            where="the page",
            remedy="ask for a whole number",
        )
    return int(value)


def pool(follower: Follower, query: Query) -> JsonObject:
    """A page of the variants, the latest first: where each came from and what became of it. `state`
    filters."""
    with follower.whole():
        table = follower.variants
        states = _states(follower)
        counts = _counted(states)
        wanted = (
            np.flatnonzero(states == query["state"])
            if query.get("state")
            else np.arange(len(table))
        )
        begin = whole(query, "from", 0)
        page = wanted[::-1][begin : begin + PAGE]
        rows = []
        for row in page.tolist():
            number = int(table["task"][row])
            group = follower.groups.newest[number]
            events = _life(follower, number)
            if (refused := follower.refused.get(int(table["seq"][row]))) is not None:
                events.append({"step": refused.step, "event": "refused", "rule": refused.rule})
            rows.append(
                {
                    "task": follower.ids[number],
                    "seed": follower.ids[table["seed"][row]],
                    "generation": int(table["generation"][row]),
                    "state": str(states[row]),
                    "mean": None if group < 0 else follower.groups["mean"][group].tolist(),
                    "zone": None if group < 0 else ZONES[follower.groups["zone"][group]],
                    "picked": int(table["step"][row]),
                    "events": events,
                }
            )
        return {"total": len(wanted), "from": begin, "counts": counts, "variants": rows}


def _states(follower: Follower) -> NDArray[Any]:
    """What became of each variant last."""
    task = follower.variants["task"]
    kinds = np.append(follower.decisions["kind"], -1)[follower.decisions.newest[task]]
    refused = np.isin(follower.variants["seq"], list(follower.refused))
    return STATES[np.where((kinds < 0) & refused, len(STATES) - 1, kinds + 1)]


def _counted(states: NDArray[Any]) -> dict[str, int]:
    """How many variants are in each state."""
    names, counts = np.unique(states, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def _life(follower: Follower, number: int) -> list[JsonObject]:
    """What pool.jsonl says of a task, in order."""
    table = follower.decisions
    rows = np.flatnonzero(table["task"] == number)
    return [
        {"step": step, "event": DECISIONS[kind], "rule": follower.rules[rule]}
        for step, kind, rule in table.values(rows, "step", "kind", "rule")
    ]


def funnel(follower: Follower, query: Query) -> JsonObject:
    """From picked seeds to variants in the pool: how many are left after each stage, and what took
    the others, with the latest example of each way to fail."""
    with follower.whole() as now:
        failures = [(*alike, *kind) for alike, kind in follower.totals.failures.items()]
        decided = follower.decided.most_common()
        states = _counted(_states(follower))
    log = Lookup(follower.path / REJECTED)
    gates = get_args(Gate)
    failed = []
    for stage, error, count, latest in sorted(failures, key=lambda failure: -failure[2]):
        kind = "gate" if error in gates else "judge" if error == "judge_rejected" else "error type"
        entry = {"stage": stage, "error": error, "count": count, "kind": kind}
        with suppress(KeyError):  # damage took it
            record = log[latest]
            example = {
                "pick": record["pick"],
                "evidence": record["evidence"],
                "raw": record["raw"][:MOST_TEXT],
            }
            entry |= {"example": example}
        failed.append(entry)
    return {
        "picked": now.picked,
        "outcomes": now.outcomes,
        "discards": now.discards,
        "failures": failed,
        "accepted": len(follower.variants),
        "decisions": [
            {"event": event, "rule": rule, "count": count} for (event, rule), count in decided
        ],
        "states": states,
    }


# tables of files of its own in a run's folder, which stand beside those of other runs (004: what
# policies make of benchmarks): each with a `title`, by which they find together, the file that is
# its `source`, sentences as `notes`, and `rows` with a `name` and estimates of `start`, `end` and
# `difference` (rods.evaluation.scoring.Estimate). Bounded, whatever lies there; a file that cannot
# be read is a note
TABLES: Door[Callable[[Path], Iterable[JsonMapping]]] = Door("tables")


def compare(follower: Follower, query: Query) -> JsonObject:
    """The held-out scores of a run, where `rods trainer score` has made them, and the tables of
    features."""
    return {
        "name": follower.path.name,
        "heldout": scored(follower.path),
        "tables": [
            {**table, "notes": table["notes"][:PAGE]}
            for tables in (*TABLES, findings)
            for table in tables(follower.path)
        ],
    }


VIEWS: dict[str, Callable[[Follower, Query], Any]] = {
    view.__name__: view
    for view in (status, steps, boundary, task, episodes, models, logs, pool, funnel, compare)
} | {
    # What the run shows up to now, in sentences and plots.
    "report": lambda follower, query: report(follower),
    # What the page polls: up to where each log was read.
    "positions": lambda follower, query: follower.positions(),
}
