"""What a run shows up to now, as data: figures, sentences, limits, and where variants land. The
page draws it (static/report.js); `rods dash --export` prints its sentences.

All of it is computed from the columns of a `Follower`, whose lock the caller holds by
`Follower.whole`. Only live records count: a restart of the trainer takes back the steps and epochs
beyond its checkpoint. report.toml has the words.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rods.canonical import JsonObject
from rods.daemon.stand_ins import NAME
from rods.evaluation.heldout import scored
from rods.evaluation.scoring import compared_sentence
from rods.family.page.follower import DECISIONS, Follower
from rods.files import module_table
from rods.observations import ROLES
from rods.rules.zones import zone_of

NONE = -1  # in place of a step
WORDS = module_table(__file__)
Values = NDArray[Any]


class Landing(NamedTuple):
    """How variants came into the pool: `first` the first counted mean of each that was rolled out,
    `delays` the steps between pick and injection, and `moves`, for each seed that was rolled out
    again after the injection, its mean reward then minus its mean at the pick."""

    first: Values
    delays: Values
    moves: Values


def report(follower: Follower) -> JsonObject:
    """The whole report, as JSON can say it; text of tasks and models stays what it is. Raises
    CorruptLogError for a damaged log."""
    with follower.whole():
        numbers = figures(follower)
        return {
            "name": follower.run.name,
            "subtitle": _subtitle(follower),
            # such a run shows how the loop works, no more
            "simulated": follower.config.policy.kind == "simulated",
            "numbers": numbers,
            "findings": findings(follower, numbers),
            "limits": limits(follower, scored=bool(numbers["heldout"])),
            "landing": _bars(follower, landed(follower).first),
            "examples": _examples(follower),
        }


def _subtitle(follower: Follower) -> str:
    config = follower.config
    # of others it is a folder
    model = f" {config.policy.model}" if config.policy.kind == "external" else ""
    parts = [
        f"policy {config.policy.kind}{model}",
        f"{config.data.tasks}: {follower.originals} original tasks, "
        f"{len(follower.run.held_out)} held out",
        f"{config.training.batch_tasks} tasks × {config.rollouts.rollouts_per_task} rollouts a step"
        + (f", refilled in {refill} rounds at most" if (refill := config.rollouts.refill) else ""),
        f"sync {config.sync}",
    ]
    if follower.authors:
        parts.append(f"variants by {', '.join(sorted(follower.authors))}")
    if follower.state.attempt > 1:
        parts.append(f"{follower.state.attempt} starts")
    return " · ".join(parts)


def figures(follower: Follower) -> JsonObject:
    """The figures that the sentences rest on."""
    totals = follower.totals
    landing = landed(follower)
    zones = follower.config.zones
    inside = [zone_of(mean, zones) == "boundary" for mean in landing.first.tolist()]
    return {
        "steps": follower.state.last_step,
        "epochs": len(follower.epochs),
        "attempts": follower.state.attempt,
        "picks": totals.picks.total(),
        "picks_by_type": dict(totals.picks),
        "accepted": len(_variants(follower)[0]),
        "rejected": sum(count for count, _ in totals.failures.values()),
        **{
            kind: follower.decisions_of(kind).total() for kind in ("injected", "revived", "refused")
        },
        "retired": dict(follower.decisions_of("retired")),
        "first_reward": {
            "variants": len(inside),
            "mean": _mean(landing.first),
            "in_boundary": _mean(inside),
        },
        "delay_steps": _mean(landing.delays),
        "seed_drift": _mean(landing.moves),
        "heldout": scored(follower.path),
    }


def findings(follower: Follower, numbers: JsonObject) -> list[str]:
    """What the run shows by its `figures`, one plain sentence each; nothing where there is no
    data."""
    lines = [compared_sentence(numbers["heldout"])] if numbers["heldout"] else []

    def say(name: str, **more: object) -> None:
        lines.append(WORDS["findings"][name].format(**{**numbers, **more}))

    if numbers["injected"]:
        order = follower.config.selection.order
        seeds = "boundary seeds" if order in ("proxy", "variance") else f"{order} seeds"
        # epoch 0 opens before there is a variant
        say("injected", seeds=seeds, merges=int((follower.epochs["epoch"] > 0).sum()))
    elif numbers["picks"]:
        say("waiting")
    if retired := numbers["retired"]:
        words = WORDS["rules"]
        rules = (f"{count} {words.get(rule, rule[:80])}" for rule, count in sorted(retired.items()))
        say("retired", count=sum(retired.values()), rules=", ".join(rules))
    if (first := numbers["first_reward"])["variants"]:
        say("landed", **first, percent=100 * first["in_boundary"])
    if numbers["delay_steps"] is not None:
        drift = numbers["seed_drift"]
        moved = "" if drift is None else WORDS["findings"]["drift"].format(signed=signed(drift))
        say("delay", drift=moved)
    return lines or [WORDS["findings"]["none"]]


def limits(follower: Follower, *, scored: bool) -> list[str]:
    """What must not be concluded from this run; `scored`: whether there are held-out scores."""
    kind = follower.config.policy.kind
    holds = {"stub": NAME in follower.authors, "one_run": True, "heldout": scored, "zones": True}
    return [
        text.format(stub=NAME)
        for name, text in WORDS["limits"].items()
        if holds.get(name, name == kind)
    ]


def _bars(follower: Follower, first: Values) -> JsonObject:
    """How many variants have a mean in each twentieth from 0 to 1 at their first group."""
    counts, edges = np.histogram(first, np.linspace(0, 1, 21))
    zones = follower.config.zones
    return {
        "at": ((edges[:-1] + edges[1:]) / 2).round(6).tolist(),
        "variants": counts.tolist(),
        "mean": _mean(first),
        "bounds": [zones.boundary_low, zones.boundary_high],
    }


def landed(follower: Follower) -> Landing:
    """See `Landing`."""
    groups = follower.groups
    of_pool = groups["role"] != ROLES.index("drawn")
    counted = np.flatnonzero(of_pool & ~np.isnan(groups["mean"]))
    places = _place(groups["task"][counted], groups["step"][counted])
    order = np.argsort(places, kind="stable")
    places = places[order]
    rows = counted[order]

    def means(task: Values, step: Values, behind: int) -> Values:
        """The mean of each task's last counted group up to the step (-1), or of its first one
        behind it (0); NaN where there is none."""
        place = np.searchsorted(places, _place(task, step), "right") + behind
        there = np.flatnonzero((place >= 0) & (place < len(places)))
        there = there[places[place[there]] >> 32 == task[there]]
        values = np.full(len(task), np.nan)
        values[there] = groups["mean"][rows[place[there]]]
        return values

    variants, injected = _variants(follower)
    table = follower.variants
    first = means(table["task"][variants], np.zeros(len(variants), np.int32), 0)
    inside = injected != NONE
    injected = injected[inside]
    seed, picked = (table[name][variants[inside]] for name in ("seed", "step"))
    moves = means(seed, injected, 0) - means(seed, picked, -1)
    return Landing(
        first[~np.isnan(first)], (injected - picked).astype(float), moves[~np.isnan(moves)]
    )


def _place(task: Values, step: Values) -> Values:
    return (task.astype(np.int64) << 32) + step


def _variants(follower: Follower) -> tuple[Values, Values]:
    """The rows of the latest record of each variant, and the last step before the merge that
    injected it (`NONE` while it waits)."""
    table = follower.variants
    decisions = follower.decisions
    latest = table.newest[table["task"]] == np.arange(len(table))
    rows = np.flatnonzero(latest & (table["type"] >= 0))
    injected = np.full(len(follower.ids), NONE, np.int32)
    inside = decisions["kind"] == DECISIONS.index("injected")
    injected[decisions["task"][inside]] = decisions["step"][inside]
    return rows, injected[table["task"][rows]]


def _examples(follower: Follower) -> list[str]:
    """Of each type the variant that was injected last: the policy was at its best then."""
    rows, injected = _variants(follower)
    table = follower.variants
    inside = rows[injected != NONE]
    latest = dict(table.values(inside, "type", "task"))
    return [follower.ids[task] for _, task in sorted(latest.items())]


def signed(value: float) -> str:
    """Two decimals with a sign, and no minus before a zero."""
    return f"{round(value, 2) + 0.0:+.2f}"


def _mean(values: Values | list[bool]) -> float | None:
    return float(np.mean(values)) if len(values) else None
