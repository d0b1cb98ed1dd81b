"""What the page is told of variants: the pool, the funnel from seeds to injected variants, lineages."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from buffers.log.parts import Lookup
from buffers.run.runfolder import REJECTED
from console.dash.views import PAGE, Query, plain_list, whole
from console.follower import DECISIONS, Follower
from rods.analysis.profile import profile
from rods.errors import RodsError, UserError, plain
from rods.faults import Gate
from rods.rules.zones import ZONES
from rods.tasks import AnyTask, Task

LIFE = ("task", "step", "kind", "rule")
STATES = np.array(["staged", *DECISIONS, "refused"])
MOST_TEXT = 1 << 20  # characters of what a failed candidate had written that an answer holds
MOST_NODES = 300  # of a lineage


def pool(one: Follower, query: Query) -> dict[str, Any]:
    """A page of the variants, the latest first: where each came from and what became of it. `state` filters."""
    with one.whole():
        table, states = one.variants, _states(one)
        counts = dict(zip(*(plain_list(found) for found in np.unique(states, return_counts=True)), strict=True))
        wanted = np.flatnonzero(states == query["state"]) if query.get("state") else np.arange(len(table))
        begin = whole(query, "from", 0)
        page = wanted[::-1][begin : begin + PAGE]
        lives = _lives(one, table["task"][page])
        rows = [
            {
                **_told(one, int(row), states),
                "picked": int(table["step"][row]),
                "events": lives[int(table["task"][row])] + _refusal(one, int(table["seq"][row])),
            }
            for row in page
        ]
        return {"total": len(wanted), "from": begin, "counts": counts, "variants": rows}


def _states(one: Follower) -> NDArray[Any]:
    """What became of each variant last."""
    task = one.variants["task"]
    if not len(task):
        return STATES[:0]
    kinds = np.append(one.decisions["kind"], -1)[one.newest_decision.rows(len(one.ids))[task]]
    refused = np.isin(one.variants["seq"], list(one.refused))
    return STATES[np.where((kinds < 0) & refused, len(STATES) - 1, kinds + 1)]


def _told(one: Follower, row: int, states: NDArray[Any]) -> dict[str, Any]:
    """A variant, and what its latest group says."""
    table = one.variants
    number = int(table["task"][row])
    return {
        "task": one.ids[number],
        "seed": one.ids[table["seed"][row]],
        "generation": int(table["generation"][row]),
        "state": str(states[row]),
        **_latest(one, number),
    }


def _latest(one: Follower, number: int) -> dict[str, Any]:
    group = one.newest_group.rows(len(one.ids))[number]
    if group < 0:
        return {"mean": None, "zone": None}
    return {"mean": plain_list(one.groups["mean"][group]), "zone": ZONES[one.groups["zone"][group]]}


def _lives(one: Follower, numbers: Any) -> dict[int, list[dict[str, Any]]]:
    """What pool.jsonl says of each of these tasks, in order."""
    table, wanted = one.decisions, np.zeros(len(one.ids), bool)
    wanted[numbers] = True
    found: dict[int, list[dict[str, Any]]] = {int(number): [] for number in numbers}
    rows = np.flatnonzero(wanted[table["task"]])
    for task, step, kind, rule in zip(*(table[name][rows].tolist() for name in LIFE), strict=True):
        found[task].append({"step": step, "event": DECISIONS[kind], "rule": one.rules[rule]})
    return found


def _refusal(one: Follower, seq: int) -> list[dict[str, Any]]:
    """A merge's refusal of the variant at `seq` of the expanded log, if there was one."""
    if (found := one.refused.get(seq)) is None:
        return []
    return [{"step": found.step, "event": "refused", "rule": found.rule}]


def funnel(one: Follower, query: Query) -> dict[str, Any]:
    """From picked seeds to variants in the pool: how many are left after each stage, and what took the others, with
    the latest example of each way to fail."""
    with one.whole() as now:
        failures = [(stage, error, kind.count, kind.latest) for (stage, error), kind in one.progress.failures.items()]
        decided = Counter(
            (DECISIONS[kind], one.rules[rule])
            for kind, rule in zip(*(one.decisions[name].tolist() for name in ("kind", "rule")), strict=True)
        )
        decided.update(("refused", found.rule) for found in one.refused.values())
        states = dict(zip(*(plain_list(found) for found in np.unique(_states(one), return_counts=True)), strict=True))
    log, gates = Lookup(one.path / REJECTED), get_args(Gate)
    told = []
    for stage, error, count, latest in sorted(failures, key=lambda each: -each[2]):
        kind = "gate" if error in gates else "judge" if error == "judge_rejected" else "error type"
        entry = {"stage": stage, "error": error, "count": count, "kind": kind}
        with suppress(KeyError):  # damage took it
            record = log[latest]
            example = {"pick": record["pick"], "evidence": record["evidence"], "raw": record["raw"][:MOST_TEXT]}
            entry |= {"example": example}
        told.append(entry)
    return {
        "picked": now.picked,
        "outcomes": now.outcomes,
        "discards": now.discards,
        "failures": told,
        "accepted": len(one.variants),
        "decisions": [{"event": event, "rule": rule, "count": count} for (event, rule), count in decided.most_common()],
        "states": states,
    }


def lineage(one: Follower, query: Query) -> dict[str, Any]:
    """All that comes from the root of a task, at most `MOST_NODES` of it: the way to the task, then the latest."""
    with one.whole():
        number = _number(one, query)
        rows, table = one.newest_variant.rows(len(one.ids)), one.variants
        line = [number]
        while rows[line[-1]] >= 0 and (seed := int(table["seed"][rows[line[-1]]])) not in line:
            line.append(seed)
        found, new = np.zeros(0, np.int64), np.array(line[-1:])
        while len(new):
            below = np.flatnonzero(np.isin(table["seed"], new))
            new = np.setdiff1d(table["task"][below], np.append(found, line[-1:]))
            found = np.union1d(found, new)
        kept = dict.fromkeys([*line[::-1], *sorted(found.tolist(), key=lambda each: -rows[each])][:MOST_NODES])
        states = _states(one)
        nodes = [
            _told(one, int(rows[each]), states)
            if rows[each] >= 0
            else {"task": one.ids[each], "seed": None, "generation": 0, "state": "original", **_latest(one, each)}
            for each in kept
        ]
        return {"total": len(found) + 1, "nodes": [node for node in nodes if _hangs(node, kept, one)]}


def _hangs(node: dict[str, Any], kept: dict[int, None], one: Follower) -> bool:
    """Whether the seed of a node is among those kept."""
    return node["seed"] is None or one.numbers[node["seed"]] in kept


def pair(one: Follower, query: Query) -> dict[str, Any]:
    """A task beside its seed: both contents, and the profiles of their calls where they have any."""
    with one.whole():
        number = _number(one, query)
        row = int(one.newest_variant.rows(len(one.ids))[number])
        numbers = [number] if row < 0 else [number, int(one.variants["seed"][row])]
        tasks = [one.content(each) for each in numbers]
    profiles = [None if task is None else _profile(one, task) for task in tasks]
    names = ("task", "seed")
    return {
        **dict.fromkeys(names),
        **{name: None if task is None else task.as_json() for name, task in zip(names, tasks, strict=False)},
        "profiles": dict(zip(names, profiles, strict=False)),
    }


def _number(one: Follower, query: Query) -> int:
    """The task that a question names. Raises UserError for one that the run does not have."""
    task_id = query.get("task", "")
    if task_id not in one.numbers:
        remedy = "choose one of the boundary or of the pool"
        raise UserError(f"{plain(task_id)!r} is no task of this run", where="the page", remedy=remedy)
    return one.numbers[task_id]


def _profile(one: Follower, task: AnyTask) -> dict[str, Any] | None:
    """The profile of a task's calls, which are run once in a fresh instance; None without calls by turn, and where the
    environment is not there in the version of the task."""
    if not isinstance(task, Task):
        return None
    try:
        environment = one.run.environments.load(task.environment.name)
        return profile(environment, task).as_json() if environment.hash == task.environment.hash else None
    except (RodsError, KeyError, ValueError):
        return None


VIEWS = {"pool": pool, "funnel": funnel, "lineage": lineage, "pair": pair}
