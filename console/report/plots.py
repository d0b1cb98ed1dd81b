"""All plots of a report: the policy (reward, zones, variance), the pool, and the variants.

Each function draws one figure from a `History`, or returns None where there is no data for it.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from console.report import style
from console.report.findings import RULE_NAMES, signed
from console.report.history import Floats, History, delays_and_moves, first_means
from evaluation.scoring import share
from rods.faults import SUCCESSES
from rods.rules.zones import ZONES


def reward(history: History) -> Figure | None:
    """Mean progress reward of every step with its 95 % interval over the step's tasks; epoch means by origin."""
    groups = history.groups
    use = ~groups.retest & ~np.isnan(groups.mean)
    if not use.any():
        return None
    figure, (axes,) = style.canvas()
    steps = np.unique(groups.step[use])
    rows = [share(groups.mean[use & (groups.step == step)].tolist()) for step in steps]
    middle = np.array([row.mean for row in rows])
    low, high = [row.low for row in rows], [row.high for row in rows]
    axes.fill_between(
        steps, low, high, color=style.ZONE_COLOURS["boundary"], alpha=0.13, linewidth=0, label="95 % interval"
    )
    axes.plot(steps, middle, color=style.ZONE_COLOURS["boundary"], label="all tasks of the step")
    for generated, colour, name in (
        (False, style.ORIGINAL, "originals, epoch mean"),
        (True, style.GENERATED, "variants, epoch mean"),
    ):
        points = []
        for epoch in np.unique(groups.epoch[use]):
            chosen = use & (groups.epoch == epoch) & (groups.generated == generated)
            if chosen.any():
                points.append((groups.step[chosen].mean(), groups.mean[chosen].mean()))
        if points:
            axes.plot(*zip(*points, strict=True), "o", color=colour, markersize=4.5, label=name)
    style.merges(axes, (epoch.step for epoch in history.epochs if epoch.step))
    style.changes(axes, (version.step for version in history.versions[1:]))
    axes.grid(axis="x", visible=False)
    axes.set(xlabel="step", ylabel="progress reward", ylim=(0, 1.02), xlim=(steps[0] - 0.5, steps[-1] + 0.5))
    style.whole_numbers(axes)
    style.legend(axes)
    return figure


def zones(history: History) -> Figure | None:
    """Share of the tasks in each zone, epoch by epoch, by a task's latest group of that epoch."""
    groups = history.groups
    epochs = np.unique(groups.epoch)
    if not len(epochs):
        return None
    shares = np.zeros((len(ZONES), len(epochs)))
    for column, epoch in enumerate(epochs):
        latest = dict(zip(groups.task[groups.epoch == epoch], groups.zone[groups.epoch == epoch], strict=True))
        counts = np.bincount(list(latest.values()), minlength=len(ZONES))
        shares[:, column] = 100 * counts / counts.sum()
    figure, (axes,) = style.canvas()
    bottom = np.zeros(len(epochs))
    for row, zone in enumerate(ZONES):
        if shares[row].any():
            axes.bar(
                epochs,
                shares[row],
                bottom=bottom,
                width=0.86,
                color=style.ZONE_COLOURS[zone],
                label=zone.replace("_", " "),
            )
            bottom += shares[row]
    axes.grid(axis="x", visible=False)
    axes.set(xlabel="epoch", ylabel="tasks of the epoch, %", ylim=(0, 100))
    style.whole_numbers(axes)
    style.legend(axes)
    return figure


def labels(history: History) -> Figure | None:
    """Share of the turns with each label, epoch by epoch; what succeeded stands at the bottom."""
    if not history.labels:
        return None
    epochs = sorted(history.labels)
    totals = np.array([history.labels[epoch].total() for epoch in epochs])
    figure, (axes,) = style.canvas(height=1.3 * style.HEIGHT)
    bottom = np.zeros(len(epochs))
    for label in sorted(style.LABEL_COLOURS, key=lambda label: label not in SUCCESSES):
        shares = 100 * np.array([history.labels[epoch][label] for epoch in epochs]) / totals
        if shares.any():
            name = label.replace("_", " ")
            axes.bar(epochs, shares, bottom=bottom, width=0.86, color=style.LABEL_COLOURS[label], label=name)
            bottom += shares
    axes.grid(axis="x", visible=False)
    axes.set(xlabel="epoch", ylabel="turns of the epoch, %", ylim=(0, 100))
    style.whole_numbers(axes)
    style.legend(axes)
    return figure


def dynamics(history: History) -> Figure | None:
    """How turns went and what updates have shown, step by step (000 Appendix F.1): a panel for each that is known."""
    went, updates = history.dynamics.items(), history.updates.items()
    curves: list[tuple[str, list[tuple[int, float | None]]]] = [
        ("turns with a call", [(step, one.calling_share) for step, one in went]),
        ("replies a turn", [(step, one.replies_a_turn) for step, one in went]),
        ("entropy, nats a token", [(step, one.entropy) for step, one in updates]),
        ("gradient norm", [(step, one.gradient_norm) for step, one in updates]),
    ]
    drawn = [(name, [(step, value) for step, value in points if value is not None]) for name, points in curves]
    drawn = [(name, points) for name, points in drawn if points]
    if not drawn:
        return None
    rows = (len(drawn) + 1) // 2
    figure, panels = style.canvas(2, height=0.75 * rows * style.HEIGHT, rows=rows)
    for axes in panels[len(drawn) :]:
        axes.set_axis_off()
    for axes, (name, points) in zip(panels, drawn, strict=False):
        axes.plot(*zip(*points, strict=True), color=style.ZONE_COLOURS["boundary"])
        style.changes(axes, (version.step for version in history.versions[1:]))
        axes.grid(axis="x", visible=False)
        axes.set(xlabel="step", ylabel=name, ylim=(0, 1.02) if name == "turns with a call" else (0, None))
        style.whole_numbers(axes)
    return figure


def difficulty(history: History) -> Figure | None:
    """The difficulty of each step's drawn tasks, and what they earned (001 §2.3)."""
    if not history.difficulty:
        return None
    figure, panels = style.canvas(rows=2)
    steps, rules = [one.step for one in history.difficulty], history.config.difficulty
    panels[0].plot(steps, [one.difficulty for one in history.difficulty], color=style.GENERATED)
    panels[0].set(ylabel="difficulty", ylim=(0, 102))
    earned = [(one.step, one.mean) for one in history.difficulty if one.mean is not None]
    panels[1].plot(*zip(*earned, strict=True) if earned else ([], []), color=style.ZONE_COLOURS["boundary"])
    for threshold in (rules.down_below, rules.up_above) if rules.adaptive else ():
        panels[1].axhline(threshold, color=style.ORIGINAL, linewidth=0.6, linestyle=":")
    panels[1].set(xlabel="step", ylabel="mean reward", ylim=(-1.02, 1.02))
    for axes in panels:
        axes.grid(axis="x", visible=False)
        style.whole_numbers(axes)
    return figure


def variance_by_zone(history: History) -> Figure | None:
    """Variance of the progress reward within a group, against the group's mean, and by zone (004 Figure 3, right)."""
    groups = history.groups
    use = ~np.isnan(groups.variance)
    if use.sum() < 2:
        return None
    figure, (cloud, boxes) = style.canvas(2)
    names = [zone for zone in ZONES if zone != "truncated" and (use & (groups.zone == ZONES.index(zone))).any()]
    for zone in names:
        chosen = use & (groups.zone == ZONES.index(zone))
        # Rewards are fractions, so many groups share a place: a dot's area shows how many.
        places, counts = np.unique(
            np.column_stack([groups.mean[chosen], groups.variance[chosen]]), axis=0, return_counts=True
        )
        cloud.scatter(
            places[:, 0],
            places[:, 1],
            s=3 + 140 * counts / use.sum() ** 0.5,
            color=style.ZONE_COLOURS[zone],
            alpha=0.45,
            linewidths=0,
        )
    line = np.linspace(0, 1, 101)
    cloud.plot(line, line * (1 - line), color="#888888", linewidth=1, linestyle="--", label="upper bound r̄·(1−r̄)")
    cloud.set(xlabel="mean reward of the group, r̄", ylabel="variance in the group", xlim=(0, 1), ylim=(0, 0.26))
    style.legend(cloud)
    values = [groups.variance[use & (groups.zone == ZONES.index(zone))] for zone in names]
    parts = boxes.boxplot(values, widths=0.5, showfliers=False, patch_artist=True, medianprops={"color": style.INK})
    for patch, zone in zip(parts["boxes"], names, strict=True):
        patch.set(facecolor=style.ZONE_COLOURS[zone], alpha=0.55, edgecolor="#555555")
    means = [float(np.mean(part)) for part in values]
    boxes.plot(range(1, len(names) + 1), means, "D", color=style.INK, markersize=4, label="mean")
    labels = [f"{zone.replace('_', ' ')}\n{len(part):,} groups" for zone, part in zip(names, values, strict=True)]
    boxes.set_xticks(range(1, len(names) + 1), labels)
    boxes.set(ylim=(0, 0.26), ylabel="variance in the group")
    boxes.grid(axis="x", visible=False)
    style.legend(boxes)
    return figure


def composition(history: History) -> Figure | None:
    """Active originals and variants in every epoch, and what waits in staging."""
    if not history.epochs:
        return None
    numbers = [epoch.number for epoch in history.epochs]
    originals = np.array([epoch.originals for epoch in history.epochs])
    generated = np.array([epoch.generated for epoch in history.epochs])
    staged = np.array([epoch.staged for epoch in history.epochs])
    figure, (axes,) = style.canvas()
    axes.bar(numbers, originals, width=0.86, color=style.ORIGINAL, label="originals")
    axes.bar(numbers, generated, bottom=originals, width=0.86, color=style.GENERATED, label="variants")
    if staged.any():
        axes.bar(
            numbers,
            staged,
            bottom=originals + generated,
            width=0.86,
            color=style.WAITING,
            label="waiting in staging",
        )
    axes.grid(axis="x", visible=False)
    axes.set(xlabel="epoch", ylabel="tasks")
    style.whole_numbers(axes, y=True)
    style.legend(axes)
    return figure


def unique(history: History) -> Figure | None:
    """Tasks that were ever in the pool against the tasks that are in it (004 Figure 3, left)."""
    if not history.epochs:
        return None
    numbers = [epoch.number for epoch in history.epochs]
    seen: set[str] = set()
    ever = []
    for epoch in history.epochs:
        seen.update(epoch.injected)
        ever.append(epoch.originals + len(seen))
    active = [epoch.originals + epoch.generated for epoch in history.epochs]
    figure, (axes,) = style.canvas()
    axes.plot(numbers, ever, "-o", markersize=3, color=style.GENERATED, label="tasks ever in the pool")
    axes.plot(numbers, active, "-o", markersize=3, color=style.INK, label="active pool")
    bound = history.epochs[-1].originals + history.config.pool.max_generated
    if bound < 3 * max(ever):
        axes.axhline(bound, color="#888888", linewidth=1, linestyle="--", label=f"bound of the pool: {bound}")
    axes.set(xlabel="epoch", ylabel="tasks", ylim=(0, None))
    style.whole_numbers(axes, y=True)
    style.legend(axes)
    return figure


def retirements(history: History) -> Figure | None:
    """Variants retired at each merge, by rule; revivals below the axis."""
    rules = [rule for rule in RULE_NAMES if any(epoch.retired[rule] for epoch in history.epochs)]
    if not rules and not any(epoch.revived for epoch in history.epochs):
        return None
    numbers = [epoch.number for epoch in history.epochs]
    figure, (axes,) = style.canvas()
    bottom = np.zeros(len(numbers))
    for rule in rules:
        counts = np.array([epoch.retired[rule] for epoch in history.epochs])
        label = f"{RULE_NAMES[rule]} ({counts.sum()})"
        axes.bar(numbers, counts, bottom=bottom, width=0.86, color=style.RULE_COLOURS[rule], label=label)
        bottom += counts
    revived = np.array([epoch.revived for epoch in history.epochs])
    if revived.any():
        axes.bar(numbers, -revived, width=0.86, color="#BBBBBB", label=f"revived ({revived.sum()})")
        axes.axhline(0, color="#888888", linewidth=0.8)
    axes.grid(axis="x", visible=False)
    axes.set(xlabel="merge before epoch", ylabel="tasks")
    style.whole_numbers(axes, y=True)
    style.legend(axes, columns=3)
    return figure


def first_reward(history: History) -> Figure | None:
    """Mean reward of each variant's first group after its injection (004 Figure 3, middle)."""
    means = first_means(history)
    if not len(means):
        return None
    zones = history.config.zones
    figure, (axes,) = style.canvas()
    axes.axvspan(
        zones.boundary_low,
        zones.boundary_high,
        color=style.ZONE_COLOURS["boundary"],
        alpha=0.1,
        linewidth=0,
        label=f"boundary zone {zones.boundary_low}–{zones.boundary_high}",
    )
    axes.set(xlabel="mean reward of the first group after injection, r̄", ylabel="variants", xlim=(0, 1))
    _histogram(axes, means, np.linspace(0, 1, 21), style.GENERATED, f"mean {means.mean():.2f}", label="variants")
    return figure


def drift(history: History) -> Figure | None:
    """Delay from a seed's pick to its variant's injection, and how the seed's own reward moved meanwhile (004 B.2)."""
    delays, moves = delays_and_moves(history)
    if not len(delays):
        return None
    figure, (left, right) = style.canvas(2)
    width = max(1, delays.max() // 25)
    edges = np.arange(-0.5, delays.max() + 0.5 + width, width)  # the last bin holds the longest delay
    left.set(xlabel="delay from pick to injection, steps", ylabel="variants")
    _histogram(left, delays, edges, style.GENERATED, f"mean {delays.mean():.1f} steps")
    style.whole_numbers(left)
    if len(moves):
        right.set(xlabel="seed's r̄ after the injection minus at the pick", ylabel="seeds", xlim=(-1, 1))
        _histogram(right, moves, np.linspace(-1, 1, 21), style.ORIGINAL, f"mean {signed(moves.mean())}")
    else:
        right.set_axis_off()
    return figure


def _histogram(axes: Axes, values: Floats, edges: Floats, colour: str, mean: str, *, label: str | None = None) -> None:
    """Counts of `values` between `edges`, with a line at their mean that the legend calls `mean`."""
    axes.hist(values, bins=edges.tolist(), color=colour, edgecolor="white", label=label)
    axes.axvline(float(values.mean()), color=style.INK, linewidth=1.2, label=mean)
    style.whole_numbers(axes, x=False, y=True)
    style.legend(axes)


def yields(history: History) -> Figure | None:
    """Candidates accepted, and rejected by stage and error type."""
    counts = Counter({f"{stage}: {error}".replace("_", " "): n for (stage, error), n in history.failures.items()})
    accepted = len(history.variants)
    if not counts and not accepted:
        return None
    rows = [("accepted", accepted), *counts.most_common(14)]
    figure, (axes,) = style.canvas(height=max(1.4, 0.5 + 0.24 * len(rows)))
    places = list(range(len(rows)))
    colours = [style.GENERATED] + ["#B5B5B5"] * (len(rows) - 1)
    axes.barh(places, [count for _, count in rows], color=colours, height=0.72)
    total = accepted + sum(counts.values())
    for place, (_, count) in zip(places, rows, strict=True):
        axes.text(count, place, f" {count}  ({100 * count / total:.0f} %)", va="center", fontsize=8)
    axes.set_yticks(places, [name for name, _ in rows])
    axes.invert_yaxis()
    axes.set(xlabel="candidates", xlim=(0, 1.15 * max(count for _, count in rows)))
    axes.grid(axis="y", visible=False)
    style.whole_numbers(axes)
    return figure
