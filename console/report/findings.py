"""The findings of a report in sentences, and the limits of what they show; for the page, `rods report`, `make demo`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from console.report.history import History
from console.stub_model import NAME as STUB
from evaluation.scoring import too_few
from rods.observations import Dynamics, shares
from rods.rules.zones import ZONES, zone_of

RULE_NAMES = {
    "burn_in": "burn-in: too hard at once",
    "drift_mastered": "drift: mastered",
    "drift_too_hard": "drift: too hard",
    "unsampled": "unsampled",
    "capacity": "capacity: least variance",
}


def numbers(history: History) -> dict[str, Any]:
    """The figures that the sentences rest on, for `--json`."""
    groups, zones = history.groups, history.config.zones
    retired: Counter[str] = sum((epoch.retired for epoch in history.epochs), Counter())
    first, delays, moves = history.landing.first, history.landing.delays, history.landing.moves
    inside = [zone_of(mean, zones) == "boundary" for mean in first.tolist()]
    went = sum(history.dynamics.values(), Dynamics())
    entropies = [one.entropy for one in history.updates.values() if one.entropy is not None]
    by_zone = {}
    for index, zone in enumerate(ZONES):
        chosen = groups.variance[(groups.zone == index) & ~np.isnan(groups.variance)]
        if len(chosen):
            by_zone[zone] = {"groups": len(chosen), "mean_variance": float(chosen.mean())}
    return {
        "steps": max([*groups.step[-1:].tolist(), *(one.step for one in history.difficulty[-1:])], default=0),
        "epochs": len(history.epochs),
        "attempts": history.attempts,
        "picks": sum(history.picks.values()),
        "picks_by_type": dict(history.picks),
        "accepted": history.accepted,
        "rejected": sum(history.failures.values()),
        "injected": sum(epoch.injected for epoch in history.epochs),
        "revived": sum(epoch.revived for epoch in history.epochs),
        "refused": sum(epoch.refused for epoch in history.epochs),
        "retired": dict(retired),
        "first_reward": {"variants": len(first), "mean": _mean(first), "in_boundary": _mean(inside)},
        "delay_steps": _mean(delays),
        "seed_drift": _mean(moves),
        "variance_by_zone": by_zone,
        "labels": dict(sum(history.labels.values(), Counter())),
        "calling": went.calling_share,
        "replies": went.replies_a_turn,
        "entropy": [entropies[0], entropies[-1]] if entropies else None,
        "difficulty": [history.difficulty[0].difficulty, history.difficulty[-1].difficulty]
        if history.difficulty
        else None,
        "drawn": sum(one.tasks for one in history.difficulty),
        "interface_versions": len(history.versions),
        "heldout": history.heldout,
    }


def findings(history: History) -> list[str]:
    """What the run shows, one plain sentence each; nothing where there is no data."""
    found = numbers(history)
    said = []
    if history.heldout:
        said.append(heldout_sentence(history.heldout))
    if found["injected"]:
        order = history.config.selection.order
        seeds = "boundary seeds" if order in ("proxy", "variance") else f"{order} seeds"
        merges = sum(epoch.number > 0 for epoch in history.epochs)  # epoch 0 opens before there is a variant
        said.append(
            f"{found['picks']} picks of {seeds} gave {found['accepted']} accepted variants; "
            f"{found['injected']} of them were injected at {merges} merges."
        )
    elif found["picks"]:
        said.append(
            f"{found['picks']} seeds were picked and {found['accepted']} variants accepted; none is injected yet."
        )
    if found["retired"]:
        rules = ", ".join(f"{count} {RULE_NAMES[rule]}" for rule, count in sorted(found["retired"].items()))
        said.append(f"{sum(found['retired'].values())} variants retired ({rules}); {found['revived']} came back.")
    first = found["first_reward"]
    if first["variants"]:
        said.append(
            f"At their first group after injection {first['variants']} variants earned {first['mean']:.2f} on average; "
            f"{100 * first['in_boundary']:.0f} % of them landed in the boundary zone."
        )
    if found["difficulty"]:
        begin, end = found["difficulty"]
        said.append(
            f"{found['drawn']} tasks were drawn, the first at difficulty {begin}, the last at {end} (1 to 100)."
        )
    if turns := sum(found["labels"].values()):
        said.append(f"What became of {turns:,} turns: {shares(found['labels'])}.")
    if found["calling"] is not None:
        said.append(
            f"The policy wrote a call in {found['calling']:.0%} of the turns, and took {found['replies']:.2f} replies "
            "a turn."
        )
    if found["entropy"]:
        begin, end = found["entropy"]
        said.append(f"Its entropy was {begin:.3f} nats a token in the first update and {end:.3f} in the last.")
    by_zone = found["variance_by_zone"]
    if "boundary" in by_zone and len(by_zone) > 1:
        parts = [f"{zone.replace('_', ' ')} {row['mean_variance']:.3f}" for zone, row in by_zone.items()]
        said.append(f"Mean variance of the reward within a group, by zone: {', '.join(parts)}.")
    if found["delay_steps"] is not None:
        drift = (
            ""
            if found["seed_drift"] is None
            else f"; meanwhile the seeds' own reward moved by {signed(found['seed_drift'])}"
        )
        said.append(f"From pick to injection a variant took {found['delay_steps']:.1f} steps on average{drift}.")
    return said or ["Nothing to say yet: no step is recorded."]


def heldout_sentence(heldout: dict[str, Any]) -> str:
    """Start, end and the paired difference with its interval, and whether that excludes zero. One task has none."""
    start, end, difference = heldout["start"], heldout["end"], heldout["difference"]["progress"]
    said = (
        f"Held-out progress reward: {start['progress']['mean']:.3f} at step {start['step']}, "
        f"{end['progress']['mean']:.3f} at step {end['step']}; paired difference {difference['mean']:+.3f} over "
    )
    if difference["interval"] is None:
        return f"{said}1 task, too few for an interval."
    low, high = difference["interval"]
    verdict = "lies above 0" if low > 0 else "lies below 0" if high < 0 else "includes 0"
    few = too_few(difference["tasks"])
    told = f"{said}{difference['tasks']} tasks, 95 % interval [{low:+.3f}, {high:+.3f}], which {verdict}"
    return f"{told} ({few})." if few else f"{told}."


def limits(history: History) -> list[str]:
    """What must not be concluded from this run."""
    kind = history.config.policy.kind
    said = []
    if kind == "simulated":
        said.append(
            "The policy is simulated: it has no weights, and its rewards are drawn from a formula. This run shows how "
            "the loop works; it is no evidence that the method helps."
        )
    if kind == "nano":
        said.append(
            "nano is a policy of under a million parameters on a small synthetic world. Its warm start was limited on "
            "purpose: more supervised warm-up would beat reinforcement learning here."
        )
    if STUB in history.authors:
        said.append(
            f"{STUB} wrote variants here, which is rules and no model: what became of them says nothing of variants "
            "that a model writes."
        )
    said.append(
        "One run says nothing about the worth of synthesised variants. That needs the same run on static data and with "
        "randomly selected seeds, over several random seeds; `python -m bench.nano_loop` makes those comparisons."
    )
    if history.heldout:
        said.append(
            "The held-out interval covers the chance of which tasks were drawn, for one training run; "
            "it does not cover the chance of training itself."
        )
    said.append("The zones rest on few rollouts a group, so a task near a bound changes its zone by chance.")
    return said


def signed(value: float) -> str:
    """Two decimals with a sign, and no minus before a zero."""
    return f"{round(value, 2) + 0.0:+.2f}"


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None
