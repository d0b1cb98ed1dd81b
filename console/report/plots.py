"""The plots of a report as data: the policy (reward, zones, turns), the pool, and the variants.

Each function makes one `Plot` from a `History`, or None where there is no data for it; static/report.js draws them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from console.report.findings import RULE_NAMES, signed
from console.report.history import Flags, Floats, Groups, History, Integers
from evaluation.scoring import share
from rods.faults import LABELS, SUCCESSES
from rods.rules.zones import ZONES

POINTS = 500  # of a curve; of more steps each nth is shown, the last among them
MOST_DOTS = 2_000  # of a cloud, those that most groups share
MERGES, CHANGES = "merges", "what the policy is shown changes"
OBSERVATIONS, POOL, EXPANDED = "observations.jsonl", "pool.jsonl", "expanded_epoch_*.jsonl"


@dataclass(frozen=True, slots=True)
class Series:
    """`values`: as many as the plot has places on its x axis, None where there is none. `colour`: a name in style.css.
    `low` and `high`: an interval around them."""

    label: str
    colour: str
    values: list[float | None]
    points: bool = False
    low: list[float] | None = None
    high: list[float] | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """`curves` over `at`, `bars` that stand on one another there, or a `cloud`, whose only places are in `dots`: mean,
    variance, groups, zone. `x` and `unit` say what the axes show; `range`: of the y axis, None for that of the data;
    `marks`: vertical lines by what they mean; `levels`: horizontal ones; `source`: the files of the run behind it."""

    name: str
    title: str
    caption: str
    unit: str
    source: str
    kind: Literal["curves", "bars", "cloud"] = "curves"
    x: str = "step"
    at: list[float] | None = None
    series: tuple[Series, ...] = ()
    range: tuple[float, float] | None = None
    marks: dict[str, list[float]] | None = None
    levels: tuple[float, ...] = ()
    dots: list[tuple[float, float, int, str]] | None = None


def reward(history: History) -> Plot | None:
    """Mean progress reward of the steps with its 95 % interval over a step's tasks; epoch means by origin."""
    groups = history.groups
    use = ~groups.retest & ~np.isnan(groups.mean)
    if not use.any():
        return None
    steps, begins = np.unique(groups.step[use], return_index=True)
    chosen = _thinned(len(steps))
    parts = np.split(groups.mean[use], begins[1:])
    rows = [share(parts[place].tolist()) for place in chosen]
    at = steps[chosen]
    origins = []
    for generated, colour, name in ((False, "ink", "originals"), (True, "second", "variants")):
        means = _epoch_means(groups, use & (groups.generated == generated), at)
        if means:
            values = [means.get(place) for place in range(len(at))]
            origins.append(Series(f"{name}, epoch mean", colour, values, points=True))
    low, high = [row.low for row in rows], [row.high for row in rows]
    every = Series("all tasks of the step", "boundary", [row.mean for row in rows], low=low, high=high)
    return Plot(
        "reward",
        "Reward over steps",
        "Mean progress reward (resolved turns over expected turns) of the tasks in each step, with the 95 % interval "
        "over those tasks. The pool changes at the grey lines: mastered variants leave and new ones at the boundary "
        "join, so this curve may fall while the policy improves. Held-out tasks say how the policy improves. Dotted "
        "lines: what the policy is shown changes.",
        "progress reward, 0 to 1",
        f"{OBSERVATIONS}: groups; {POOL}: epoch records",
        at=at.tolist(),
        series=(every, *origins),
        range=(0, 1),
        marks={MERGES: [epoch.step + 0.5 for epoch in history.epochs if epoch.step], **_changes(history)},
    )


def _epoch_means(groups: Groups, use: Flags, at: Integers) -> dict[int, float]:
    """The mean of the groups of each epoch that are of `use`, at the place among the steps `at` that is nearest to
    their middle."""
    _, begins = np.unique(groups.epoch[use], return_index=True)
    parts = zip(np.split(groups.step[use], begins[1:]), np.split(groups.mean[use], begins[1:]), strict=True)
    return {int(np.argmin(np.abs(at - step.mean()))): float(mean.mean()) for step, mean in parts if len(step)}


def zones(history: History) -> Plot | None:
    """Share of the tasks in each zone, epoch by epoch, by a task's latest group of that epoch."""
    groups = history.groups
    if not len(groups):
        return None
    # Epochs ascend, so the last row of each pair of task and epoch is the first one from behind.
    _, behind = np.unique(((groups.epoch.astype(np.int64) << 32) + groups.task)[::-1], return_index=True)
    latest = len(groups) - 1 - behind
    epochs, column = np.unique(groups.epoch[latest], return_inverse=True)
    counts = np.bincount(column * len(ZONES) + groups.zone[latest], minlength=len(epochs) * len(ZONES))
    shares = counts.reshape(-1, len(ZONES)).T
    shares = 100 * shares / shares.sum(axis=0)
    return Plot(
        "zones",
        "Zones over time",
        "Share of the tasks in each zone, by the latest group of every task in the epoch.",
        "% of the epoch's tasks",
        f"{OBSERVATIONS}: the zone of each group",
        kind="bars",
        x="epoch",
        at=epochs.tolist(),
        series=_stack((zone.replace("_", " "), zone, shares[row]) for row, zone in enumerate(ZONES)),
        range=(0, 100),
    )


def labels(history: History) -> Plot | None:
    """Share of the turns with each label, epoch by epoch; what succeeded stands at the bottom."""
    if not history.labels:
        return None
    epochs = sorted(history.labels)
    totals = np.array([history.labels[epoch].total() for epoch in epochs])
    order = sorted(LABELS, key=lambda label: label not in SUCCESSES)
    counts = {label: np.array([history.labels[epoch][label] for epoch in epochs]) for label in order}
    return Plot(
        "labels",
        "What became of the turns",
        "Share of the turns that the policy finished by their label: what succeeded in greens, and why the others "
        "failed (docs/diagnosis.md).",
        "% of the epoch's turns",
        f"{OBSERVATIONS}: labels of rollouts",
        kind="bars",
        x="epoch",
        at=[float(epoch) for epoch in epochs],
        series=_stack((label.replace("_", " "), label, 100 * counts[label] / totals) for label in order),
        range=(0, 100),
    )


def calling(history: History) -> Plot | None:
    """Share of the turns with a call (000 Appendix F.1)."""
    told = "Share of the turns with a call, of valid rollouts, over all turns of their tasks."
    found = [(step, one.calling_share) for step, one in history.dynamics.items()]
    return _curve(history, "calling", "Turns with a call", told, "share of turns, 0 to 1", "calling", found, (0, 1))


def replies(history: History) -> Plot | None:
    """Replies that a turn took."""
    told = "Replies of the policy that a turn took, of valid rollouts, over all turns of their tasks."
    found = [(step, one.replies_a_turn) for step, one in history.dynamics.items()]
    return _curve(history, "replies", "Replies", told, "per turn", "replies", found)


def entropy(history: History) -> Plot | None:
    """The policy's entropy over its own tokens."""
    told = "The policy's entropy over its own tokens that the update was computed on, at the temperature of sampling."
    found = [(step, one.entropy) for step, one in history.updates.items()]
    return _curve(history, "entropy", "Entropy", told, "nats a token", "update records", found)


def gradient(history: History) -> Plot | None:
    """The norm of the gradient before clipping."""
    told = "The norm of the gradient before clipping."
    found = [(step, one.gradient_norm) for step, one in history.updates.items()]
    return _curve(history, "gradient", "Gradient norm", told, "before clipping", "update records", found)


def difficulty(history: History) -> Plot | None:
    """The difficulty of each step's drawn tasks (001 §2.3)."""
    told = (
        "Tasks that are drawn for a step are as difficult as the steps before allow: difficulty rises after a step "
        "whose drawn tasks earned more than the upper line of the next plot, and falls below the lower one."
    )
    found = [(one.step, one.difficulty) for one in history.difficulty]
    unit, fields = "1 to 100", "folded from the groups of drawn tasks"
    return _curve(history, "difficulty", "Difficulty of drawn tasks", told, unit, fields, found, (0, 100))


def drawn(history: History) -> Plot | None:
    """What each step's drawn tasks earned."""
    rules = history.config.difficulty
    found = [(one.step, one.mean) for one in history.difficulty]
    levels = (rules.down_below, rules.up_above) if rules.adaptive else ()
    told = "Mean reward of the step's drawn tasks; dashed: the bounds at which difficulty falls and rises."
    unit, fields = "mean reward, −1 to 1", "groups of drawn tasks"
    return _curve(history, "drawn", "Reward of drawn tasks", told, unit, fields, found, (-1, 1), levels)


def variance_by_zone(history: History) -> Plot | None:
    """Variance of the progress reward within a group, against the group's mean (004 Figure 3, right)."""
    groups = history.groups
    use = ~np.isnan(groups.variance)
    if use.sum() < 2:
        return None
    zone = groups.zone[use]
    # Rewards are fractions, so many groups share a place.
    means, mean = np.unique(groups.mean[use], return_inverse=True)
    spreads, spread = np.unique(groups.variance[use], return_inverse=True)
    places, counts = np.unique((mean * len(spreads) + spread) * len(ZONES) + zone, return_counts=True)
    said = ", ".join(
        f"{ZONES[number].replace('_', ' ')} {np.mean(part):.3f} over {len(part):,} groups"
        for number in range(len(ZONES))
        if len(part := groups.variance[use][zone == number])
    )
    most = np.argsort(-counts, kind="stable")[:MOST_DOTS]
    cut = f" The {MOST_DOTS:,} commonest places are drawn." if len(counts) > MOST_DOTS else ""
    return Plot(
        "variance_by_zone",
        "Reward variance by zone",
        "Every group: its mean progress reward, and the population variance within it. GRPO learns from what rollouts "
        "of one task disagree about. A dot's area shows how many groups share its place; dashed: the bound for any "
        f"reward in [0, 1]. Mean variance: {said}.{cut}",
        "variance within the group",
        f"{OBSERVATIONS}: groups",
        kind="cloud",
        x="mean progress of the group, 0 to 1",
        dots=[
            (
                float(means[place // len(ZONES) // len(spreads)]),
                float(spreads[place // len(ZONES) % len(spreads)]),
                count,
                ZONES[place % len(ZONES)],
            )
            for place, count in zip(places[most].tolist(), counts[most].tolist(), strict=True)
        ],
    )


def composition(history: History) -> Plot | None:
    """Active originals and variants in every epoch, and what waits in staging."""
    if not history.epochs:
        return None
    rows = history.epochs
    parts = (
        ("originals", "truncated", [epoch.originals for epoch in rows]),
        ("variants", "second", [epoch.generated for epoch in rows]),
        ("waiting in staging", "line", [epoch.staged for epoch in rows]),
    )
    return Plot(
        "pool",
        "Composition of the pool",
        "Tasks in training in each epoch. Variants that were accepted and not injected yet wait in staging.",
        "tasks",
        f"{POOL}: counts of epoch records",
        kind="bars",
        x="epoch",
        at=[float(epoch.number) for epoch in rows],
        series=_stack((label, colour, np.array(values, float)) for label, colour, values in parts),
    )


def unique(history: History) -> Plot | None:
    """Tasks that were ever in the pool against the tasks that are in it (004 Figure 3, left)."""
    if not history.epochs:
        return None
    seen = itertools.accumulate(epoch.injected for epoch in history.epochs)
    ever: list[float | None] = [epoch.originals + count for epoch, count in zip(history.epochs, seen, strict=True)]
    active: list[float | None] = [epoch.originals + epoch.generated for epoch in history.epochs]
    bound = history.epochs[-1].originals + history.config.pool.max_generated
    near = bound < 3 * (ever[-1] or 0)
    return Plot(
        "unique",
        "Tasks seen against the pool's size",
        "All tasks that were ever in the pool, against those in it at a time"
        + (f"; dashed: the pool's bound, {bound}." if near else "."),
        "tasks",
        f"{POOL}: injected, and counts of epoch records",
        x="epoch",
        at=[float(epoch.number) for epoch in history.epochs],
        series=(Series("ever in the pool", "second", ever), Series("in the pool", "ink", active)),
        levels=(bound,) if near else (),
    )


def retirements(history: History) -> Plot | None:
    """Variants retired at each merge, by rule, and revived."""
    parts = [
        (RULE_NAMES[rule], rule, np.array([epoch.retired[rule] for epoch in history.epochs], float))
        for rule in RULE_NAMES
    ]
    parts.append(("revived (came back)", "line", np.array([epoch.revived for epoch in history.epochs], float)))
    if not any(counts.any() for _, _, counts in parts):
        return None
    return Plot(
        "retirements",
        "Retirements",
        "Variants that left the pool at each merge, by rule; on top those that came back after a re-test.",
        "variants",
        f"{POOL}: retired and revived",
        kind="bars",
        x="merge before epoch",
        at=[float(epoch.number) for epoch in history.epochs],
        series=_stack((f"{label}: {counts.sum():.0f} in all", colour, counts) for label, colour, counts in parts),
    )


def first_reward(history: History) -> Plot | None:
    """Mean reward of each variant's first group after its injection (004 Figure 3, middle)."""
    means, zone = history.landing.first, history.config.zones
    return _histogram(
        "first_reward",
        "Where variants land",
        "Mean reward of a variant's first group after its injection. A variant between the dotted lines, in the "
        f"boundary zone ({zone.boundary_low} to {zone.boundary_high}), is about as hard as its seed was.",
        f"{OBSERVATIONS}: first group of each variant; {POOL}: injected",
        "mean reward of the first group, 0 to 1",
        means,
        np.linspace(0, 1, 21),
        {"bounds of the boundary zone": [zone.boundary_low, zone.boundary_high]},
    )


def delay(history: History) -> Plot | None:
    """Delay from a seed's pick to its variant's injection."""
    delays = history.landing.delays
    width = max(1, int(max(delays, default=0)) // 25)
    return _histogram(
        "delay",
        "Delay",
        "Steps between the pick of a seed and the injection of its variant"
        + (f"; {delays.mean():.1f} on average." if len(delays) else "."),
        f"{EXPANDED}: step of the pick; {POOL}: injected",
        "steps from pick to injection",
        delays,
        np.arange(-0.5, max(delays, default=0) + 0.5 + width, width),  # the last bin holds the longest delay
    )


def drift(history: History) -> Plot | None:
    """How the seed's own reward moved between pick and injection (004 B.2)."""
    moves = history.landing.moves
    return _histogram(
        "drift",
        "Drift",
        "How the seed's own mean reward moved between its pick and the injection of its variant; far from 0 would mean "
        "that variants arrive too late" + (f". The mean is {signed(moves.mean())}." if len(moves) else "."),
        f"{OBSERVATIONS}: groups of seeds; {POOL}: injected",
        "seed's mean reward afterwards minus at the pick, −1 to 1",
        moves,
        np.linspace(-1, 1, 21),
    )


DRAWN: tuple[Callable[[History], Plot | None], ...] = (
    *(reward, zones, labels, calling, replies, entropy, gradient, difficulty, drawn, variance_by_zone),
    *(composition, unique, first_reward, delay, drift, retirements),
)


def plots(history: History) -> list[Plot]:
    """All that have data."""
    return [plot for draw in DRAWN if (plot := draw(history)) is not None]


def _curve(
    history: History,
    name: str,
    title: str,
    caption: str,
    unit: str,
    fields: str,
    found: Sequence[tuple[int, float | None]],
    bounds: tuple[float, float] | None = None,
    levels: tuple[float, ...] = (),
) -> Plot | None:
    """One value a step, where it is known; `fields`: which of observations.jsonl it is from."""
    known = [(step, value) for step, value in found if value is not None]
    if not known:
        return None
    chosen = [known[place] for place in _thinned(len(known))]
    return Plot(
        name,
        title,
        caption,
        unit,
        f"{OBSERVATIONS}: {fields}",
        at=[float(step) for step, _ in chosen],
        series=(Series(title.lower(), "boundary", [value for _, value in chosen]),),
        range=bounds,
        marks=_changes(history),
        levels=levels,
    )


def _histogram(
    name: str,
    title: str,
    caption: str,
    source: str,
    x: str,
    values: Floats,
    edges: Floats,
    marks: dict[str, list[float]] | None = None,
) -> Plot | None:
    """Counts of `values` between `edges`, with a line at their mean."""
    if not len(values):
        return None
    counts, _ = np.histogram(values, edges)
    at = ((edges[:-1] + edges[1:]) / 2).round(6).tolist()
    series = (Series("variants", "second", [float(count) for count in counts.tolist()]),)
    marks = {"mean": [float(values.mean())]} | (marks or {})
    return Plot(name, title, caption, "variants", source, kind="bars", x=x, at=at, series=series, marks=marks)


def _stack(parts: Iterable[tuple[str, str, Floats]]) -> tuple[Series, ...]:
    """Series of label, colour and values, without those that are nothing anywhere."""
    return tuple(Series(label, colour, values.tolist()) for label, colour, values in parts if values.any())


def _changes(history: History) -> dict[str, list[float]]:
    """A line before every step that shows another version of the interface."""
    found = [version.step - 0.5 for version in history.versions[1:]]
    return {CHANGES: found} if found else {}


def _thinned(count: int) -> list[int]:
    """Places of at most `POINTS` of `count` rows, with the last."""
    every = max(1, -(-count // POINTS))
    return list(range(count - 1, -1, -every))[::-1]
