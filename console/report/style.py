"""The look of all plots: one palette (colour-blind safe), sizes, legends, ticks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rods.faults import Label

# Okabe and Ito's palette, which most colour-blind readers can tell apart.
ZONE_COLOURS = {"too_hard": "#D55E00", "boundary": "#0072B2", "mastered": "#009E73", "truncated": "#9A9A9A"}
ORIGINAL, GENERATED, WAITING = "#5A5A5A", "#CC79A7", "#E8D3DF"
RULE_COLOURS = {
    "burn_in": "#D55E00",
    "drift_mastered": "#009E73",
    "drift_too_hard": "#E69F00",
    "unsampled": "#9A9A9A",
    "capacity": "#56B4E9",
}
# Turns: successes in greens, what the trace alone shows in warm colours, what a comparison shows in blues and greys.
LABEL_COLOURS: dict[Label, str] = {
    "pass": "#009E73",
    "correct_abstention": "#7FCFB6",
    "invalid_tool_call": "#A33B00",
    "argument_mismatch": "#D55E00",
    "empty_turn_model_response": "#E69F00",
    "spurious_tool_call": "#F0E442",
    "instance_mismatch": "#CC79A7",
    "state_mismatch": "#0072B2",
    "recovery_failure": "#56B4E9",
    "missing_tool_call": "#5A5A5A",
    "response_mismatch": "#B5B5B5",
}
INK, FAINT = "#222222", "#DDDDDD"
WIDTH, HEIGHT = 7.2, 3.1  # inches
DPI = 150

SETTINGS: Any = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#EEEEEE",
    "grid.linewidth": 0.8,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "figure.constrained_layout.use": True,
    "savefig.facecolor": "white",
}


def canvas(columns: int = 1, height: float = HEIGHT, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure with `rows` rows of `columns` panels. All drawing happens inside `rc_context(SETTINGS)`."""
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    return figure, [figure.add_subplot(rows, columns, index + 1) for index in range(rows * columns)]


def legend(axes: Axes, columns: int = 4) -> None:
    """One row above the panel, so that it never covers data."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, borderaxespad=0.2, handlelength=1.4)


def merges(axes: Axes, steps: Iterable[int]) -> None:
    """A faint line at every merge."""
    for step in steps:
        axes.axvline(step + 0.5, color=FAINT, linewidth=0.8, zorder=0)


def changes(axes: Axes, steps: Iterable[int]) -> None:
    """A dotted line before every step that shows another version of the interface."""
    for step in steps:
        axes.axvline(step - 0.5, color=GENERATED, linewidth=0.9, linestyle=":", zorder=0)


def whole_numbers(axes: Axes, *, x: bool = True, y: bool = False) -> None:
    """Ticks at integers only: there is no epoch 2.5."""
    if x:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if y:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
