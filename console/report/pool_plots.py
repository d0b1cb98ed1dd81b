"""Plots about the pool: what it is made of, how much it has seen, why tasks left it."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from console.report import style
from console.report.history import History

RULE_NAMES = {
    "burn_in": "burn-in: too hard at once",
    "drift_mastered": "drift: mastered",
    "drift_too_hard": "drift: too hard",
    "unsampled": "unsampled",
    "capacity": "capacity: least variance",
}


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
