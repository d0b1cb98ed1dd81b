"""Plots about variants: where they land, how long they waited, how far the policy moved meanwhile, what failed."""

from __future__ import annotations

from collections import Counter

import numpy as np
from matplotlib.figure import Figure

from console.report import style
from console.report.history import Floats, History


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
    axes.hist(means, bins=np.linspace(0, 1, 21).tolist(), color=style.GENERATED, edgecolor="white", label="variants")
    axes.axvline(float(means.mean()), color=style.INK, linewidth=1.2, label=f"mean {means.mean():.2f}")
    axes.set(xlabel="mean reward of the first group after injection, r̄", ylabel="variants", xlim=(0, 1))
    style.whole_numbers(axes, x=False, y=True)
    style.legend(axes)
    return figure


def first_means(history: History) -> Floats:
    """The first counted mean of every injected variant that was rolled out."""
    groups = history.groups
    found: dict[str, float] = {}
    for task, mean, generated in zip(groups.task, groups.mean, groups.generated, strict=True):
        if generated and not np.isnan(mean):
            found.setdefault(str(task), float(mean))
    return np.array([found[task] for task in history.variants if task in found])


def drift(history: History) -> Figure | None:
    """Delay from a seed's pick to its variant's injection, and how the seed's own reward moved meanwhile (004 B.2)."""
    delays, moves = delays_and_moves(history)
    if not len(delays):
        return None
    figure, (left, right) = style.canvas(2)
    width = max(1, delays.max() // 25)
    edges = np.arange(-0.5, delays.max() + 0.5 + width, width)  # the last bin holds the longest delay
    left.hist(delays, bins=edges.tolist(), color=style.GENERATED, edgecolor="white")
    left.axvline(float(delays.mean()), color=style.INK, linewidth=1.2, label=f"mean {delays.mean():.1f} steps")
    left.set(xlabel="delay from pick to injection, steps", ylabel="variants")
    style.whole_numbers(left, y=True)
    style.legend(left)
    if len(moves):
        right.hist(moves, bins=np.linspace(-1, 1, 21).tolist(), color=style.ORIGINAL, edgecolor="white")
        right.axvline(
            float(moves.mean()), color=style.INK, linewidth=1.2, label=f"mean {round(moves.mean(), 2) + 0.0:+.2f}"
        )
        right.set(xlabel="seed's r̄ after the injection minus at the pick", ylabel="seeds", xlim=(-1, 1))
        style.whole_numbers(right, x=False, y=True)
        style.legend(right)
    else:
        right.set_axis_off()
    return figure


def delays_and_moves(history: History) -> tuple[Floats, Floats]:
    """Steps between pick and injection of every injected variant; and for each seed that was rolled out again after
    the injection, its mean reward then minus its mean at the pick."""
    groups = history.groups
    seen: dict[str, list[tuple[int, float]]] = {}
    for task, step, mean in zip(groups.task, groups.step, groups.mean, strict=True):
        if not np.isnan(mean):
            seen.setdefault(str(task), []).append((int(step), float(mean)))
    delays, moves = [], []
    for variant in history.variants.values():
        if variant.injected is None:
            continue
        delays.append(variant.injected - variant.picked)
        later = next((mean for step, mean in seen.get(variant.seed, []) if step > variant.injected), None)
        if later is not None and variant.seed_mean is not None:
            moves.append(later - variant.seed_mean)
    return np.array(delays, dtype=float), np.array(moves, dtype=float)


def yields(history: History) -> Figure | None:
    """What became of every candidate: accepted, or rejected at a stage with an error type."""
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
