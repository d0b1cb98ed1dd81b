"""Plots about the policy: reward over steps, zones over epochs, reward variance by zone."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from console.report import style
from console.report.history import History
from evaluation.scoring import estimate
from rods.rules.zones import ZONES


def reward(history: History) -> Figure | None:
    """Mean progress reward of every step with its 95 % interval over the step's tasks; epoch means by origin."""
    groups = history.groups
    use = ~groups.retest & ~np.isnan(groups.mean)
    if not use.any():
        return None
    figure, (axes,) = style.canvas()
    steps = np.unique(groups.step[use])
    rows = [estimate(groups.mean[use & (groups.step == step)].tolist()) for step in steps]
    middle = np.array([row.mean for row in rows])
    low = np.clip([row.low for row in rows], 0, 1)
    high = np.clip([row.high for row in rows], 0, 1)
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
                label=style.ZONE_NAMES[zone],
            )
            bottom += shares[row]
    axes.grid(axis="x", visible=False)
    axes.set(xlabel="epoch", ylabel="tasks of the epoch, %", ylim=(0, 100))
    style.whole_numbers(axes)
    style.legend(axes)
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
    labels = [f"{style.ZONE_NAMES[zone]}\n{len(part):,} groups" for zone, part in zip(names, values, strict=True)]
    boxes.set_xticks(range(1, len(names) + 1), labels)
    boxes.set(ylim=(0, 0.26), ylabel="variance in the group")
    boxes.grid(axis="x", visible=False)
    style.legend(boxes)
    return figure
