"""What the page is told: one function a table, from a run that is followed to what JSON can say.

A cursor (`after`) is `ATTEMPT.SEQ`; docs/decisions/page.md says of which log. Answers are bounded
whatever the history.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from rods.analysis.profile import profile
from rods.buffers.log.parts import Lookup
from rods.buffers.run.runfolder import REJECTED
from rods.config import Config
from rods.console.columns import Columns, thinned
from rods.console.events import PROCESSES, Events, matches
from rods.console.follower import DECISIONS, INSIDE, Follower
from rods.console.report.history import recorded
from rods.console.report.page import told
from rods.console.task_history import kept_rollouts, task_history
from rods.errors import RodsError, UserError, plain
from rods.evaluation.heldout import scored
from rods.extension import compared_in
from rods.faults import LABELS, Gate
from rods.rules.zones import ZONES
from rods.tasks import AnyTask, Task
from rods.trainer.advantages import advantages

POINTS = 2_000  # of a curve
# figures that only all of the daemon's logs give
DAEMONS = ("picked", "considered", "accepted", "rejected")
PAGE = 200  # rows of a list
VERSIONS = 20  # of what the policy was shown, and of environments, the latest
SPENT = ("calls", "failed", "tokens_in", "tokens_out", "seconds")
STATES = np.array(["staged", *DECISIONS, "refused"])
MOST_TEXT = 1 << 20  # characters of what a failed candidate had written that an answer holds
MOST_NODES = 300  # of a lineage
Query = Mapping[str, str]


def status(follower: Follower, query: Query) -> dict[str, Any]:
    """What `rods status --json` says, with the run's state in a word and what the page draws beside
    it."""
    with follower.fresh() as now:
        values = now.standing()
        if not follower.complete:
            values |= dict.fromkeys(DAEMONS)  # what is not known yet
        notes = follower.notes()
        versions = follower.versions.shown[-VERSIONS:]
        errors = list(follower.errors)
        environments = follower.run.environment_records(follower.admitted)[-VERSIONS:]
        spent = list(follower.spent.values())
    processes = {name: follower.process(name) for name in PROCESSES}
    zones = follower.run.config.zones
    policy = follower.run.config.policy
    return {
        "run": str(follower.path),
        **values,
        "processes": processes,
        "notes": notes,
        "condition": now.condition(processes["trainer"]["life"]),
        "pace": now.pace(),
        "bounds": [zones.boundary_low, zones.boundary_high],
        "versions": [{**asdict(version), "reason": version.reason} for version in versions],
        "policy": policy.kind,
        "model": policy.model,
        "costs": {name: sum(getattr(some, name) for some in spent) for name in SPENT},
        "environments": environments,
        "errors": errors,
    }


def steps(follower: Follower, query: Query) -> dict[str, Any]:
    """A row a live step behind the cursor `after` (observations.jsonl), thinned where there are
    more than `POINTS`; so updates and labels, some of which may have been told before. `merged`:
    how many epochs the reader knows. `whole`: answers once all of the history was read."""
    with follower.whole() if query.get("whole") else follower.fresh():
        start, reset = _start(follower, follower.steps, query)
        behind = follower.steps["seq"][start - 1] if start else 0
        known = -1 if reset else whole(query, "merged", 0) - 1
        return {
            "cursor": _cursor(follower, follower.steps),
            "reset": reset,
            "columns": _thinned(
                follower.steps, start, ("step", "epoch", "reward", *ZONES, "difficulty", "time")
            ),
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
                follower.epochs.behind("epoch", known),
                ("epoch", "step", "stage", "originals", "generated"),
            ),
        }


def _thinned(table: Columns, start: int, names: tuple[str, ...]) -> dict[str, list[Any]]:
    """Columns of the rows from `start` on; of at most `POINTS`, the last of each stretch."""
    rows = thinned(start, len(table), POINTS)
    return {name: table[name][rows].tolist() for name in names}


def groups(follower: Follower, query: Query) -> dict[str, Any]:
    """What the dots of the boundary move by: a row a group of the pool behind the cursor `after`
    (observations.jsonl); and behind the seq `decided` of pool.jsonl who has `left` the pool, and
    the dots of who `came`. More than `POINTS` groups are a `reset`: ask for the boundary anew."""
    with follower.whole():
        start, reset = _start(follower, follower.groups, query)
        decided = follower.decisions.behind("seq", whole(query, "decided", 0))
        behind = (
            reset or max(len(follower.groups) - start, len(follower.decisions) - decided) > POINTS
        )
        rows = np.arange(len(follower.groups) if behind else start, len(follower.groups))
        moved = np.array(
            sorted(
                {
                    *follower.decisions["task"][
                        len(follower.decisions) if behind else decided :
                    ].tolist()
                }
            ),
            int,
        )
        inside = np.isin(follower.decisions["kind"][follower.newest_decision.rows[moved]], INSIDE)
        latest = follower.newest_group.rows[moved[inside]]
        active = follower.state.active
        return {
            "cursor": _cursor(follower, follower.groups),
            "decided": _last(follower.decisions),
            "reset": behind,
            "step": follower.state.last_step,
            "active": len(active),
            "left": [follower.ids[number] for number in moved[~inside]],
            "dots": [
                dot
                for dot in _dots(follower, np.append(latest[latest >= 0], rows))
                if dot[0] in active
            ],
        }


def boundary(follower: Follower, query: Query) -> dict[str, Any]:
    """Each active task's latest group up to `step` (default: the last), and the pool as it was
    then."""
    with follower.whole():
        last = follower.state.last_step
        step = min(whole(query, "step", last), last)
        active = follower.active_at(step)
        rows = follower.last_rows(follower.groups, step)[active]
        zones = follower.run.config.zones
        return {
            "step": step,
            "last": last,
            "active": len(active),
            "cursor": _cursor(follower, follower.groups),
            "decided": _last(follower.decisions),
            "dots": _dots(follower, rows[rows >= 0]),
            "bounds": [zones.boundary_low, zones.boundary_high],
        }


def task(follower: Follower, query: Query) -> dict[str, Any]:
    """Everything on record about one task (`rods inspect`), its lineage with its conversations, and
    its groups."""
    with follower.whole():
        history = task_history(follower, query.get("task", ""))
        rows = np.flatnonzero(follower.groups["task"] == follower.number(history.task.id))[-POINTS:]
        series = {
            name: follower.groups[name][rows].tolist() for name in ("step", "mean", "variance")
        }
        return {
            **history.as_json(),
            "line": [ancestor.as_json() for ancestor in history.lineage],
            "series": series,
        }


def episodes(follower: Follower, query: Query) -> dict[str, Any]:
    """The kept traces of a task with what their rollouts earned: those of `step`, by default of the
    latest that has any; and all steps that have."""
    at, steps, kept = kept_rollouts(
        follower, query.get("task", ""), whole(query, "step", 0) or None
    )
    config = follower.run.config
    told = [
        trace if group is None else trace | earned(config, group)[trace["rollout"]]
        for trace, group in kept
    ]
    return {"step": at, "steps": steps, "episodes": told}


def earned(config: Config, rollouts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each rollout of a group its reward, its labels, and its advantage: as recorded, or else by
    the run's rule from the group's rewards, where these are all that the rule looks at.
    `advantage_by` says which."""
    settings = config.training
    rewards = np.array([[rollout["reward"] for rollout in rollouts]], np.float64)
    alone = settings.advantage_baseline != "batch" and settings.advantage_scale != "batch"
    by = "none on record"
    values: list[float | None] = [None] * len(rollouts)
    if (
        alone
        and config.policy.kind not in ("simulated", "external")
        and not settings.advantage_hook
    ):
        values = advantages(rewards, settings.advantage_baseline, settings.advantage_scale)[
            0
        ].tolist()
        by = (
            f"the group's rewards, baseline {settings.advantage_baseline}, scale "
            f"{settings.advantage_scale}"
        )
    return [
        {
            "reward": rollout["reward"],
            "labels": rollout.get("labels", []),
            "advantage": rollout.get("advantage", value),
            "advantage_by": "on record" if "advantage" in rollout else by,
        }
        for rollout, value in zip(rollouts, values, strict=True)
    ]


def models(follower: Follower, query: Query) -> dict[str, Any]:
    """Calls of language models by process, endpoint and stage (usage.*.jsonl): how many, tokens,
    seconds; and what the daemon's heartbeat says of its endpoints and its budget."""
    with follower.whole():
        calls = [
            {
                **dict(zip(("process", "endpoint", "stage"), key, strict=True)),
                **asdict(spent),
                "median": follower.latency[key].quantile(0.5),
                "slow": follower.latency[key].quantile(0.95),
            }
            for key, spent in sorted(follower.spent.items())
        ]
        accepted = len(follower.variants)
    beat = follower.process("daemon")
    limits: dict[str, Any] = {name: beat[name] for name in ("endpoints", "budget") if name in beat}
    return {"calls": calls, "accepted": accepted, "life": beat["life"], **limits}


def logs(follower: Follower, query: Query) -> dict[str, Any]:
    """The latest events of both processes (logs/*.jsonl) that match `level`, `process` and
    `text`."""
    wanted = [event for event in Events(follower.path).poll() if matches(event, query)]
    return {"total": len(wanted), "events": wanted[-PAGE:]}


def _dots(follower: Follower, rows: Any) -> list[list[Any]]:
    """Task, mean, variance, zone, whether a variant, and step, of rows of groups."""
    table = follower.groups
    columns = [table[name][rows].tolist() for name in ("task", "mean", "variance", "zone", "step")]
    return [  # NaN becomes null
        [follower.ids[task], mean, variance, ZONES[zone], task >= follower.originals, step]
        for task, mean, variance, zone, step in zip(*columns, strict=True)
    ]


def _start(follower: Follower, table: Columns, query: Query) -> tuple[int, bool]:
    """The first row behind the cursor of `query`, and whether it belongs to another attempt, so
    that all rows count."""
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
    return table.behind("seq", int(seq)), False


def _cursor(follower: Follower, table: Columns) -> str:
    return f"{follower.state.attempt}.{_last(table)}"


def _last(table: Columns) -> int:
    return int(table["seq"][-1]) if len(table) else 0


def whole(query: Query, name: str, default: int) -> int:
    value = query.get(name) or str(default)
    if not value.isdecimal() or len(value) > 12:
        what = f"{name}={plain(value[:100])!r} is no number"
        raise UserError(what, where="the page", remedy="ask for a whole number")
    return int(value)


def pool(follower: Follower, query: Query) -> dict[str, Any]:
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
            events = _life(follower, int(table["task"][row]))
            if (refused := follower.refused.get(int(table["seq"][row]))) is not None:
                events.append({"step": refused.step, "event": "refused", "rule": refused.rule})
            rows.append(
                {
                    **_told(follower, row, states),
                    "picked": int(table["step"][row]),
                    "events": events,
                }
            )
        return {"total": len(wanted), "from": begin, "counts": counts, "variants": rows}


def _states(follower: Follower) -> NDArray[Any]:
    """What became of each variant last."""
    task = follower.variants["task"]
    kinds = np.append(follower.decisions["kind"], -1)[follower.newest_decision.rows[task]]
    refused = np.isin(follower.variants["seq"], list(follower.refused))
    return STATES[np.where((kinds < 0) & refused, len(STATES) - 1, kinds + 1)]


def _counted(states: NDArray[Any]) -> dict[str, int]:
    """How many variants are in each state."""
    names, counts = np.unique(states, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def _told(follower: Follower, row: int, states: NDArray[Any]) -> dict[str, Any]:
    """A variant, and what its latest group says."""
    table = follower.variants
    number = int(table["task"][row])
    return {
        "task": follower.ids[number],
        "seed": follower.ids[table["seed"][row]],
        "generation": int(table["generation"][row]),
        "state": str(states[row]),
        **_latest(follower, number),
    }


def _latest(follower: Follower, number: int) -> dict[str, Any]:
    group = follower.newest_group.rows[number]
    if group < 0:
        return {"mean": None, "zone": None}
    return {
        "mean": follower.groups["mean"][group].tolist(),
        "zone": ZONES[follower.groups["zone"][group]],
    }


def _life(follower: Follower, number: int) -> list[dict[str, Any]]:
    """What pool.jsonl says of a task, in order."""
    table = follower.decisions
    rows = np.flatnonzero(table["task"] == number)
    columns = (table[name][rows].tolist() for name in ("step", "kind", "rule"))
    told = zip(*columns, strict=True)
    return [
        {"step": step, "event": DECISIONS[kind], "rule": follower.rules[rule]}
        for step, kind, rule in told
    ]


def funnel(follower: Follower, query: Query) -> dict[str, Any]:
    """From picked seeds to variants in the pool: how many are left after each stage, and what took
    the others, with the latest example of each way to fail."""
    with follower.whole() as now:
        failures = [(*alike, *kind) for alike, kind in follower.totals.failures.items()]
        decided = Counter(
            (DECISIONS[kind], follower.rules[rule])
            for kind, rule in zip(
                *(follower.decisions[name].tolist() for name in ("kind", "rule")), strict=True
            )
        )
        decided.update(("refused", refusal.rule) for refusal in follower.refused.values())
        states = _counted(_states(follower))
    log = Lookup(follower.path / REJECTED)
    gates = get_args(Gate)
    told = []
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
        told.append(entry)
    return {
        "picked": now.picked,
        "outcomes": now.outcomes,
        "discards": now.discards,
        "failures": told,
        "accepted": len(follower.variants),
        "decisions": [
            {"event": event, "rule": rule, "count": count}
            for (event, rule), count in decided.most_common()
        ],
        "states": states,
    }


def lineage(follower: Follower, query: Query) -> dict[str, Any]:
    """All that comes from the root of a task, at most `MOST_NODES` of it: the way to the task, then
    the latest."""
    with follower.whole():
        number = _number(follower, query)
        rows = follower.newest_variant.rows
        table = follower.variants
        line = follower.line(number)
        descendants = np.zeros(0, np.int64)
        new = np.array(line[-1:])
        while len(new):
            below = np.flatnonzero(np.isin(table["seed"], new))
            new = np.setdiff1d(table["task"][below], np.append(descendants, line[-1:]))
            descendants = np.union1d(descendants, new)
        kept = dict.fromkeys(
            [*line[::-1], *sorted(descendants.tolist(), key=lambda task: -rows[task])][:MOST_NODES]
        )
        states = _states(follower)
        nodes: list[dict[str, Any]] = []
        for task in kept:
            if rows[task] < 0:
                original = {
                    "task": follower.ids[task],
                    "seed": None,
                    "generation": 0,
                    "state": "original",
                }
                nodes.append({**original, **_latest(follower, task)})
            elif int(table["seed"][rows[task]]) in kept:
                nodes.append(_told(follower, int(rows[task]), states))
        return {"total": len(descendants) + 1, "nodes": nodes}


def pair(follower: Follower, query: Query) -> dict[str, Any]:
    """A task beside its seed: both contents, and the profiles of their calls where they have
    any."""
    with follower.whole():
        number = _number(follower, query)
        row = int(follower.newest_variant.rows[number])
        numbers = [number] if row < 0 else [number, int(follower.variants["seed"][row])]
        tasks = [follower.content(task_number) for task_number in numbers]
    named = dict(zip(("task", "seed"), tasks, strict=False))
    contents = {name: task.as_json() for name, task in named.items() if task is not None}
    profiles = {name: _profile(follower, task) for name, task in named.items()}
    return {"task": None, "seed": None, **contents, "profiles": profiles}


def _number(follower: Follower, query: Query) -> int:
    """The task that a question names. Raises UserError for one that the run does not have."""
    task_id = query.get("task", "")
    if task_id not in follower.numbers:
        remedy = "choose one of the boundary or of the pool"
        raise UserError(
            f"{plain(task_id)!r} is no task of this run", where="the page", remedy=remedy
        )
    return follower.numbers[task_id]


def _profile(follower: Follower, task: AnyTask | None) -> dict[str, Any] | None:
    """The profile of a task's calls, which are run once in a fresh instance; None without calls by
    turn, and where the environment is not there in the version of the task."""
    if not isinstance(task, Task):
        return None
    try:
        environment = follower.run.environments.load(task.environment.name)
        return (
            profile(environment, task).as_json()
            if environment.hash == task.environment.hash
            else None
        )
    except (RodsError, KeyError, ValueError):
        return None


VIEWS: dict[str, Callable[[Follower, Query], Any]] = {
    # The held-out scores of a run, where `rods trainer score` has made them, and what extensions
    # compare.
    "compare": lambda follower, query: {
        "name": follower.path.name,
        "heldout": scored(follower.path),
        "tables": compared_in(follower.run),
    },
    # What the run shows up to now, in sentences and plots.
    "report": lambda follower, query: told(recorded(follower)),
    # What the stream carries: up to where each log was read.
    "positions": lambda follower, query: follower.positions(),
}
for _view in (
    status,
    steps,
    groups,
    boundary,
    task,
    episodes,
    models,
    logs,
    pool,
    funnel,
    lineage,
    pair,
):
    VIEWS[_view.__name__] = _view
