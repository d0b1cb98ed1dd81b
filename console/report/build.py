"""Draws all plots of a run and writes them beside the page: `report/index.html` and one PNG a plot."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from console.report import policy_plots, pool_plots, style, variant_plots
from console.report.history import History, Variant
from console.report.page import Plot, page
from rods.tasks import TASK_TYPES, Task

Draw = Callable[[History], Figure | None]
# file name, drawing, heading, what one sees. A drawing that has no data is left out.
PLOTS: tuple[tuple[str, Draw, str, str], ...] = (
    (
        "reward",
        policy_plots.reward,
        "Reward over steps",
        "Mean progress reward (resolved turns over expected turns) of the tasks in each step, with the 95 % interval "
        "over those tasks. The pool changes at the grey lines: mastered variants leave and new ones at the boundary "
        "join, so this curve may fall while the policy improves. Held-out tasks say how the policy improves.",
    ),
    (
        "zones",
        policy_plots.zones,
        "Zones over time",
        "Share of the tasks in each zone, by the latest group of every task in the epoch.",
    ),
    (
        "variance_by_zone",
        policy_plots.variance_by_zone,
        "Reward variance by zone",
        "Population variance of the progress reward within a group. GRPO learns from what rollouts of one task "
        "disagree about. Left: every group (a dot's area shows how many share its place), with the bound for any "
        "reward in [0, 1]. Right: quartiles and mean by zone.",
    ),
    (
        "pool",
        pool_plots.composition,
        "Composition of the pool",
        "Tasks in training in each epoch. Variants that were accepted and not injected yet wait in staging.",
    ),
    (
        "unique",
        pool_plots.unique,
        "Tasks seen against the pool's size",
        "All tasks that were ever in the pool, against those in it at a time.",
    ),
    (
        "first_reward",
        variant_plots.first_reward,
        "Where variants land",
        "Mean reward of a variant's first group after its injection. A variant inside the shaded zone is about as hard "
        "for the policy as its seed was.",
    ),
    (
        "drift",
        variant_plots.drift,
        "Delay and drift",
        "Left: steps between the pick of a seed and the injection of its variant. Right: how the seed's own mean "
        "reward moved meanwhile; far from 0 would mean that variants arrive too late.",
    ),
    (
        "retirements",
        pool_plots.retirements,
        "Retirements",
        "Variants that left the pool at each merge, by rule; below the axis those that came back after a re-test.",
    ),
    (
        "yield",
        variant_plots.yields,
        "Yield of the pipeline",
        "What became of every candidate: accepted, or rejected by a stage for a reason. A seed may take several tries.",
    ),
)


def build(history: History, folder: Path) -> Path:
    """Writes the plots and the page into `folder` and returns the page's path. Earlier ones are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    plots = draw(history)
    for plot in plots:
        (folder / f"{plot.name}.png").write_bytes(plot.png)
    target = folder / "index.html"
    target.write_text(page(history, plots, examples(history)), encoding="utf-8")
    return target


def draw(history: History) -> list[Plot]:
    """All plots that have data."""
    plots = []
    with mpl.rc_context(style.SETTINGS):
        for name, drawing, title, caption in PLOTS:
            figure = drawing(history)
            if figure is not None:
                out = io.BytesIO()
                figure.savefig(out, format="png", dpi=style.DPI)
                plots.append(Plot(name, title, caption, out.getvalue()))
    return plots


def examples(history: History) -> list[tuple[Task, Variant]]:
    """One injected variant of each type with its seed: the latest, because the policy was at its best then."""
    known = history.tasks | {task_id: variant.task for task_id, variant in history.variants.items()}
    found = []
    for kind in TASK_TYPES:
        of_kind = [one for one in history.variants.values() if one.task.type == kind and one.seed in known]
        chosen = [one for one in of_kind if one.injected is not None] or of_kind
        if chosen:
            found.append((known[chosen[-1].seed], chosen[-1]))
    return found
