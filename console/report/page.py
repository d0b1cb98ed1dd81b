"""What the page's view `report` is told of a run: sentences, figures, scores, limits, and plots as
data, of the policy (reward, zones, turns), the pool, and the variants.

Each function of a plot gives a `Plot` of a `History`, or None where there is no data for it;
plots.toml has its words, and static/report.js draws it.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rods.console.columns import thinned
from rods.console.output import estimated
from rods.console.report.findings import RULE_NAMES, TEXTS, findings, limits, numbers, signed
from rods.console.report.history import Flags, Floats, Groups, History, Integers
from rods.evaluation.scoring import share
from rods.faults import LABELS, SUCCESSES
from rods.rules.zones import ZONES

POINTS = 500  # of a curve; of more steps each nth is shown, the last among them
MOST_DOTS = 2_000  # of a cloud, those that most groups share
CHANGES = "what the policy is shown changes"
MOST_VERSIONS = 40  # of the interface, the latest
WORDS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("plots.toml").read_text(encoding="utf-8")
)


@dataclass(frozen=True, slots=True)
class Series:
    """`values`: as many as the plot has places on its x axis, None where there is none. `colour`: a
    name in style.css. `low` and `high`: an interval around them."""

    label: str
    colour: str
    values: list[float | None]
    points: bool = False
    low: list[float] | None = None
    high: list[float] | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """`curves` over `at`, `bars` that stand on one another there, or a `cloud`, whose only places
    are in `dots`: mean, variance, groups, zone. `x` and `unit` say what the axes show; `range`: of
    the y axis, None for that of the data; `marks`: vertical lines by what they mean; `levels`:
    horizontal ones; `source`: the files of the run behind it."""

    name: str
    title: str
    caption: str
    unit: str
    source: str
    kind: Literal["curves", "bars", "cloud"] = "curves"
    x: str = "step"
    at: list[float] | None = None
    series: tuple[Series, ...] = ()
    range: list[float] | None = None
    marks: dict[str, list[float]] | None = None
    levels: tuple[float, ...] = ()
    dots: list[tuple[float, float, int, str]] | None = None


def told(history: History) -> dict[str, Any]:
    """The whole report, as JSON can say it; text of tasks and models stays what it is."""
    figures = numbers(history)
    versions = history.versions[-MOST_VERSIONS:] if len(history.versions) > 1 else ()
    return {
        "name": history.name,
        "subtitle": _subtitle(history),
        # such a run shows how the loop works, no more
        "simulated": history.config.policy.kind == "simulated",
        "numbers": figures,
        "findings": findings(history, figures),
        "limits": limits(history),
        "scores": _scores(history.heldout) if history.heldout else [],
        "plots": [asdict(plot) for plot in plots(history)],
        "versions": [{**asdict(version), "reason": version.reason} for version in versions],
        "examples": history.examples,
    }


def _subtitle(history: History) -> str:
    config = history.config
    # of others it is a folder
    name = f" {config.policy.model}" if config.policy.kind == "external" else ""
    return (
        f"policy {config.policy.kind}{name} · {config.data.tasks}: {history.originals} original "
        f"tasks, "
        f"{history.held_out} held out · "
        f"{config.training.batch_tasks} tasks × {config.rollouts.rollouts_per_task} rollouts a step"
        + (
            f", refilled in {config.rollouts.refill} rounds at most"
            if config.rollouts.refill
            else ""
        )
        + f" · sync {config.sync}"
        + (f" · variants by {', '.join(history.authors)}" if history.authors else "")
        + (f" · {history.attempts} starts" if history.attempts > 1 else "")
    )


def _scores(heldout: dict[str, Any]) -> list[tuple[str, ...]]:
    """Rows of the held-out table: measure, start, end, paired difference, tasks."""
    start = heldout["start"]
    end = heldout["end"]
    rows = [
        (TEXTS["measures"].get(name, name), start[name], end[name], estimated(difference, "+"))
        for name, difference in heldout["difference"].items()
    ]
    before = start["progress_by_type"]
    after = end["progress_by_type"]
    rows += [
        (f"progress, {kind}", before[kind], after[kind], "")
        for kind in sorted(before.keys() & after.keys())
    ]
    return [
        (name, estimated(old), estimated(new), between, str(new["tasks"]))
        for name, old, new, between in rows
    ]


def plots(history: History) -> list[Plot]:
    """All that have data."""
    drawn = [
        *(
            reward(history),
            zones(history),
            labels(history),
            *curves(history),
            variance_by_zone(history),
        ),
        *(*pool(history), *histograms(history), retirements(history)),
    ]
    return [plot for plot in drawn if plot is not None]


def _plot(name: str, figures: Mapping[str, object] | None = None, **data: Any) -> Plot:
    """The plot of this name in plots.toml, with `figures` in its caption."""
    words = WORDS[name]
    return Plot(name, **{**words, "caption": words["caption"].format(**(figures or {}))}, **data)


def reward(history: History) -> Plot | None:
    """Mean progress reward of the steps with its 95 % interval over a step's tasks; epoch means by
    origin."""
    groups = history.groups
    use = ~groups.retest & ~np.isnan(groups.mean)
    if not use.any():
        return None
    steps, begins = np.unique(groups.step[use], return_index=True)
    chosen = thinned(0, len(steps), POINTS)
    parts = np.split(groups.mean[use], begins[1:])
    shares = [share(parts[place].tolist()) for place in chosen]
    at = steps[chosen]
    low = [estimate.low for estimate in shares]
    high = [estimate.high for estimate in shares]
    series = [
        Series(
            "all tasks of the step",
            "boundary",
            [estimate.mean for estimate in shares],
            low=low,
            high=high,
        )
    ]
    for generated, colour, origin in ((False, "ink", "originals"), (True, "second", "variants")):
        if means := _epoch_means(groups, use & (groups.generated == generated), at):
            values = [means.get(place) for place in range(len(at))]
            series.append(Series(f"{origin}, epoch mean", colour, values, points=True))
    merges = {"merges": [step + 0.5 for step in history.epochs["step"].tolist() if step]}
    return _plot("reward", at=at.tolist(), series=tuple(series), marks=merges | _changes(history))


def _epoch_means(groups: Groups, use: Flags, at: Integers) -> dict[int, float]:
    """The mean of the groups of each epoch that are of `use`, at the place among the steps `at`
    that is nearest to their middle."""
    _, begins = np.unique(groups.epoch[use], return_index=True)
    parts = zip(
        np.split(groups.step[use], begins[1:]), np.split(groups.mean[use], begins[1:]), strict=True
    )
    return {
        int(np.argmin(np.abs(at - step.mean()))): float(mean.mean())
        for step, mean in parts
        if len(step)
    }


def zones(history: History) -> Plot | None:
    """Share of the tasks in each zone, epoch by epoch, by a task's latest group of that epoch."""
    groups = history.groups
    if not len(groups):
        return None
    # Epochs ascend, so the last row of each pair of task and epoch is the first one from behind.
    _, behind = np.unique(
        ((groups.epoch.astype(np.int64) << 32) + groups.task)[::-1], return_index=True
    )
    latest = len(groups) - 1 - behind
    epochs, column = np.unique(groups.epoch[latest], return_inverse=True)
    counts = np.bincount(
        column * len(ZONES) + groups.zone[latest], minlength=len(epochs) * len(ZONES)
    )
    shares = counts.reshape(-1, len(ZONES)).T
    shares = 100 * shares / shares.sum(axis=0)
    parts = ((zone.replace("_", " "), zone, shares[row]) for row, zone in enumerate(ZONES))
    return _bars("zones", epochs.tolist(), parts)


def labels(history: History) -> Plot | None:
    """Share of the turns with each label, epoch by epoch; what succeeded stands at the bottom."""
    if not history.labelled:
        return None
    shares = 100 * np.array([*history.labels.values()]) / sum(history.labels.values())
    parts = zip((label.replace("_", " ") for label in LABELS), LABELS, shares, strict=True)
    return _bars(
        "labels", history.labelled, sorted(parts, key=lambda part: part[1] not in SUCCESSES)
    )


def curves(history: History) -> Iterator[Plot]:
    """The plots of one value a step, of the steps where it is known."""
    went = history.dynamics
    updates = history.updates
    faced = history.difficulty
    values: dict[str, list[tuple[int, float | None]]] = {
        "calling": [(step, dynamics.calling_share) for step, dynamics in went.items()],
        "replies": [(step, dynamics.replies_a_turn) for step, dynamics in went.items()],
        "entropy": [(step, update.entropy) for step, update in updates.items()],
        "gradient": [(step, update.gradient_norm) for step, update in updates.items()],
        "difficulty": [(drawn.step, drawn.difficulty) for drawn in faced],
        "drawn": [(drawn.step, drawn.mean) for drawn in faced],
    }
    for name, of_steps in values.items():
        known = [(step, value) for step, value in of_steps if value is not None]
        if not known:
            continue
        # of the extension that has drawn them
        rules: Any = getattr(history.config, "difficulty", None)
        levels = (rules.down_below, rules.up_above) if name == "drawn" and rules.adaptive else ()
        at, shown = zip(*(known[place] for place in thinned(0, len(known), POINTS)), strict=True)
        series = (Series(WORDS[name]["title"].lower(), "boundary", list(shown)),)
        yield _plot(
            name, at=list(map(float, at)), series=series, marks=_changes(history), levels=levels
        )


def variance_by_zone(history: History) -> Plot | None:
    """Variance of the progress reward within a group, against the group's mean."""
    groups = history.groups
    use = ~np.isnan(groups.variance)
    if use.sum() < 2:
        return None
    zone = groups.zone[use]
    variance = groups.variance[use]
    # Rewards are fractions, so many groups share a place.
    means, mean = np.unique(groups.mean[use], return_inverse=True)
    spreads, spread = np.unique(variance, return_inverse=True)
    shape = len(means), len(spreads), len(ZONES)
    places, counts = np.unique(
        np.ravel_multi_index((mean, spread, zone), shape), return_counts=True
    )
    most = np.argsort(-counts, kind="stable")[:MOST_DOTS]
    mean, spread, number = np.unravel_index(places[most], shape)
    shown = [ZONES[at] for at in number.tolist()]
    dots = list(
        zip(
            means[mean].tolist(),
            spreads[spread].tolist(),
            counts[most].tolist(),
            shown,
            strict=True,
        )
    )
    of_zones = ((name.replace("_", " "), variance[zone == at]) for at, name in enumerate(ZONES))
    said = ", ".join(
        f"{name} {np.mean(part):.3f} over {len(part):,} groups"
        for name, part in of_zones
        if len(part)
    )
    cut = f" The {MOST_DOTS:,} commonest places are drawn." if len(counts) > MOST_DOTS else ""
    return _plot("variance_by_zone", {"means": said, "cut": cut}, dots=dots)


def pool(history: History) -> Iterator[Plot]:
    """Active originals and variants in every epoch, and what waits in staging; tasks that were ever
    in the pool against the tasks that are in it."""
    names = ("epoch", "originals", "generated", "staged", "injected")
    at, originals, generated, staged, injected = (
        history.epochs[name].astype(float) for name in names
    )
    if not len(at):
        return
    parts = (("originals", "truncated", originals), ("variants", "second", generated))
    yield _bars("pool", at, (*parts, ("waiting in staging", "line", staged)))
    ever = originals + injected.cumsum()
    bound = int(originals[-1]) + history.config.pool.max_generated
    near = bound < 3 * ever[-1]
    told = {"bound": f"; dashed: the pool's bound, {bound}" if near else ""}
    now = Series("in the pool", "ink", (originals + generated).tolist())
    series = Series("ever in the pool", "second", ever.tolist()), now
    yield _plot("unique", told, at=at.tolist(), series=series, levels=(bound,) if near else ())


def histograms(history: History) -> Iterator[Plot | None]:
    """How variants came into the pool: rewards of their first groups, their delay, and how their
    seeds drifted."""
    landing = history.landing
    zone = history.config.zones
    bounds = {"low": zone.boundary_low, "high": zone.boundary_high}
    yield _histogram("first_reward", landing.first, np.linspace(0, 1, 21), **bounds)
    longest = max(landing.delays, default=0)
    width = max(1, int(longest) // 25)
    edges = np.arange(-0.5, longest + 0.5 + width, width)  # the last bin holds the longest delay
    yield _histogram("delay", landing.delays, edges)
    yield _histogram("drift", landing.moves, np.linspace(-1, 1, 21))


def _histogram(name: str, values: Floats, edges: Floats, **bounds: float) -> Plot | None:
    """Counts of `values` between `edges`, with lines at their mean and at the `bounds` of the
    boundary zone."""
    if not len(values):
        return None
    mean = float(values.mean())
    counts, _ = np.histogram(values, edges)
    marks = {"mean": [mean]} | (
        {"bounds of the boundary zone": [*bounds.values()]} if bounds else {}
    )
    at = ((edges[:-1] + edges[1:]) / 2).round(6).tolist()
    series = (Series("variants", "second", counts.astype(float).tolist()),)
    return _plot(
        name, {"mean": mean, "signed": signed(mean), **bounds}, at=at, series=series, marks=marks
    )


def retirements(history: History) -> Plot | None:
    """Variants retired at each merge, by rule, and revived."""
    retired = history.retired
    counts = {
        (name, rule): retired[rule].astype(float)
        for rule, name in RULE_NAMES.items()
        if rule in retired
    }
    counts["revived (came back)", "line"] = history.epochs["revived"].astype(float)
    if not any(count.any() for count in counts.values()):
        return None
    parts = (
        (f"{label}: {count.sum():.0f} in all", colour, count)
        for (label, colour), count in counts.items()
    )
    return _bars("retirements", history.epochs["epoch"].tolist(), parts)


def _bars(name: str, at: Iterable[float], parts: Iterable[tuple[str, str, Floats]]) -> Plot:
    """Bars of label, colour and values that stand on one another, without those that are nothing
    anywhere."""
    series = tuple(
        Series(label, colour, values.tolist()) for label, colour, values in parts if values.any()
    )
    return _plot(name, at=list(map(float, at)), series=series)


def _changes(history: History) -> dict[str, list[float]]:
    """A line before every step that shows another version of the interface."""
    changed = [version.step - 0.5 for version in history.versions[1:]]
    return {CHANGES: changed} if changed else {}
