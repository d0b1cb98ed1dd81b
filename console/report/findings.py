"""The findings of a report in sentences, and the limits of what they show; for the page and `make
demo`."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from rods.console.report.history import History
from rods.daemon.stand_ins import NAME
from rods.evaluation.scoring import too_few
from rods.observations import Dynamics, shares
from rods.rules.zones import ZONES, zone_of

TEXTS: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
RULE_NAMES = TEXTS["rules"]


def numbers(history: History) -> dict[str, Any]:
    """The figures that the sentences rest on, for `--json`."""
    groups = history.groups
    zones = history.config.zones
    drawn = history.difficulty
    retired = {rule: int(counts.sum()) for rule, counts in history.retired.items() if counts.any()}
    first = history.landing.first
    delays = history.landing.delays
    moves = history.landing.moves
    inside = [zone_of(mean, zones) == "boundary" for mean in first.tolist()]
    went = sum(history.dynamics.values(), Dynamics())
    entropies = [
        update.entropy for update in history.updates.values() if update.entropy is not None
    ]
    known = ~np.isnan(groups.variance)
    parts = {
        zone: groups.variance[known & (groups.zone == index)] for index, zone in enumerate(ZONES)
    }
    by_zone = {
        zone: {"groups": len(part), "mean_variance": _mean(part)}
        for zone, part in parts.items()
        if len(part)
    }
    return {
        "steps": max(
            [*groups.step[-1:].tolist(), *(faced.step for faced in drawn[-1:])], default=0
        ),
        "epochs": len(history.epochs["epoch"]),
        "attempts": history.attempts,
        "picks": sum(history.picks.values()),
        "picks_by_type": dict(history.picks),
        "accepted": history.accepted,
        "rejected": history.rejected,
        **{name: int(history.epochs[name].sum()) for name in ("injected", "revived", "refused")},
        "retired": retired,
        "first_reward": {
            "variants": len(first),
            "mean": _mean(first),
            "in_boundary": _mean(inside),
        },
        "delay_steps": _mean(delays),
        "seed_drift": _mean(moves),
        "variance_by_zone": by_zone,
        "labels": {
            label: int(counts.sum()) for label, counts in history.labels.items() if counts.any()
        },
        "calling": went.calling_share,
        "replies": went.replies_a_turn,
        "entropy": [entropies[0], entropies[-1]] if entropies else None,
        "difficulty": [drawn[0].difficulty, drawn[-1].difficulty] if drawn else None,
        "drawn": sum(faced.tasks for faced in drawn),
        "interface_versions": len(history.versions),
        "heldout": history.heldout,
    }


def findings(history: History, figures: dict[str, Any]) -> list[str]:
    """What the run shows by its figures (`numbers`), one plain sentence each; nothing where there
    is no data."""
    said = [heldout_sentence(history.heldout)] if history.heldout else []

    def say(name: str, **more: object) -> None:
        said.append(TEXTS["findings"][name].format(**{**figures, **more}))

    if figures["injected"]:
        order = history.config.selection.order
        seeds = "boundary seeds" if order in ("proxy", "variance") else f"{order} seeds"
        merges = int((history.epochs["epoch"] > 0).sum())  # epoch 0 opens before there is a variant
        say("injected", seeds=seeds, merges=merges)
    elif figures["picks"]:
        say("waiting")
    if retired := figures["retired"]:
        rules = ", ".join(f"{count} {RULE_NAMES[rule]}" for rule, count in sorted(retired.items()))
        say("retired", count=sum(retired.values()), rules=rules)
    if (first := figures["first_reward"])["variants"]:
        say("landed", **first, percent=100 * first["in_boundary"])
    if figures["difficulty"]:
        say("drawn")
    if turns := sum(figures["labels"].values()):
        say("turns", turns=turns, shares=shares(figures["labels"]))
    for name in ("calling", "entropy"):
        if figures[name] is not None:
            say(name)
    by_zone = figures["variance_by_zone"]
    if "boundary" in by_zone and len(by_zone) > 1:
        parts = [
            f"{zone.replace('_', ' ')} {row['mean_variance']:.3f}" for zone, row in by_zone.items()
        ]
        say("variance", zones=", ".join(parts))
    if figures["delay_steps"] is not None:
        drift = figures["seed_drift"]
        say(
            "delay",
            drift="" if drift is None else TEXTS["findings"]["drift"].format(signed=signed(drift)),
        )
    return said or [TEXTS["findings"]["none"]]


def heldout_sentence(heldout: dict[str, Any]) -> str:
    """Start, end and the paired difference with its interval, and whether that excludes zero. One
    task has none."""
    texts = TEXTS["heldout"]
    difference = heldout["difference"]["progress"]
    if difference["interval"] is None:
        return texts["alone"].format(**heldout)
    low, high = difference["interval"]
    verdict = "lies above 0" if low > 0 else "lies below 0" if high < 0 else "includes 0"
    few = too_few(difference["tasks"])
    return texts["interval"].format(**heldout, verdict=f"{verdict} ({few})" if few else verdict)


def limits(history: History) -> list[str]:
    """What must not be concluded from this run."""
    kind = history.config.policy.kind
    holds = {
        "stub": NAME in history.authors,
        "one_run": True,
        "heldout": bool(history.heldout),
        "zones": True,
    }
    return [
        text.format(stub=NAME)
        for name, text in TEXTS["limits"].items()
        if holds.get(name, name == kind)
    ]


def signed(value: float) -> str:
    """Two decimals with a sign, and no minus before a zero."""
    return f"{round(value, 2) + 0.0:+.2f}"


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None
