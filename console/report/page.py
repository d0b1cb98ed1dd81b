"""The report of a run: all plots that have data, and one HTML page with the images inside that fetches nothing.

The page is made from page.html by jinja2, which escapes every text of a task, a model or a file.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib as mpl
from jinja2 import Environment, StrictUndefined
from matplotlib.figure import Figure

from console.output import estimated
from console.report import plots, style
from console.report.findings import findings, limits, numbers
from console.report.history import History, Variant
from rods.tasks import TASK_TYPES, AnyTask, Task

LONGEST = 600  # characters of a text or call that the page shows
MOST_VERSIONS = 40  # of the interface, in its table
MEASURES = {
    "progress": "progress reward",
    "binary": "all turns resolved",
    "official": "the benchmark's own verdict",  # skips turns in which no call is right (FACTS §1)
}
Draw = Callable[[History], Figure | None]
# file name, drawing, heading, what one sees. A drawing that has no data is left out.
PLOTS: tuple[tuple[str, Draw, str, str], ...] = (
    (
        "reward",
        plots.reward,
        "Reward over steps",
        "Mean progress reward (resolved turns over expected turns) of the tasks in each step, with the 95 % interval "
        "over those tasks. The pool changes at the grey lines: mastered variants leave and new ones at the boundary "
        "join, so this curve may fall while the policy improves. Held-out tasks say how the policy improves. Dotted "
        "lines: what the policy is shown changes.",
    ),
    (
        "zones",
        plots.zones,
        "Zones over time",
        "Share of the tasks in each zone, by the latest group of every task in the epoch.",
    ),
    (
        "labels",
        plots.labels,
        "What became of the turns",
        "Share of the turns that the policy finished by their label: what succeeded in greens, and why the others "
        "failed (docs/diagnosis.md).",
    ),
    (
        "dynamics",
        plots.dynamics,
        "Calls, replies, entropy, gradient",
        "Of each step: the share of turns with a call and the replies that a turn took (valid rollouts, over all turns "
        "of their tasks); the policy's entropy over its own tokens that the update was computed on, at the temperature "
        "of sampling; the norm of the gradient before clipping.",
    ),
    (
        "difficulty",
        plots.difficulty,
        "Difficulty of drawn tasks",
        "Tasks that are drawn for a step are as difficult as the steps before allow: difficulty (1 to 100) rises after "
        "a step whose drawn tasks earned more than the upper dotted line, and falls below the lower one.",
    ),
    (
        "variance_by_zone",
        plots.variance_by_zone,
        "Reward variance by zone",
        "Population variance of the progress reward within a group. GRPO learns from what rollouts of one task "
        "disagree about. Left: every group (a dot's area shows how many share its place), with the bound for any "
        "reward in [0, 1]. Right: quartiles and mean by zone.",
    ),
    (
        "pool",
        plots.composition,
        "Composition of the pool",
        "Tasks in training in each epoch. Variants that were accepted and not injected yet wait in staging.",
    ),
    (
        "unique",
        plots.unique,
        "Tasks seen against the pool's size",
        "All tasks that were ever in the pool, against those in it at a time.",
    ),
    (
        "first_reward",
        plots.first_reward,
        "Where variants land",
        "Mean reward of a variant's first group after its injection. A variant inside the shaded zone is about as hard "
        "for the policy as its seed was.",
    ),
    (
        "drift",
        plots.drift,
        "Delay and drift",
        "Left: steps between the pick of a seed and the injection of its variant. Right: how the seed's own mean "
        "reward moved meanwhile; far from 0 would mean that variants arrive too late.",
    ),
    (
        "retirements",
        plots.retirements,
        "Retirements",
        "Variants that left the pool at each merge, by rule; below the axis those that came back after a re-test.",
    ),
    (
        "yield",
        plots.yields,
        "Yield of the pipeline",
        "What became of every candidate: accepted, or rejected by a stage for a reason. A seed may take several tries.",
    ),
)


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawn plot: its file name without ending, its heading, what one sees in it, and the PNG's bytes."""

    name: str
    title: str
    caption: str
    png: bytes

    @property
    def base64(self) -> str:
        """The image as it stands in the page."""
        return base64.b64encode(self.png).decode()


def build(history: History, folder: Path) -> Path:
    """Writes index.html and one PNG a plot into `folder`; returns the page's path. Earlier ones are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = draw(history)
    for plot in drawn:
        (folder / f"{plot.name}.png").write_bytes(plot.png)
    target = folder / "index.html"
    target.write_text(page(history, drawn), encoding="utf-8")
    return target


def draw(history: History) -> list[Plot]:
    """All plots that have data."""
    drawn = []
    with mpl.rc_context(style.SETTINGS):
        for name, drawing, title, caption in PLOTS:
            figure = drawing(history)
            if figure is not None:
                out = io.BytesIO()
                figure.savefig(out, format="png", dpi=style.DPI)
                drawn.append(Plot(name, title, caption, out.getvalue()))
    return drawn


def page(history: History, drawn: list[Plot]) -> str:
    """The HTML page."""
    shown = history.versions if len(history.versions) > 1 else ()
    templates = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = templates.from_string(files("console.report").joinpath("page.html").read_text(encoding="utf-8"))
    return template.render(
        history=history,
        subtitle=_subtitle(history),
        cards=_cards(history),
        findings=findings(history),
        scores=_scores(history.heldout) if history.heldout else [],
        plots=drawn,
        versions=shown[-MOST_VERSIONS:],
        earlier=max(0, len(shown) - MOST_VERSIONS),
        examples=[
            (variant, [("Seed", seed, _turns(seed)), ("Variant", variant.task, _turns(variant.task))])
            for seed, variant in examples(history)
        ],
        limits=limits(history),
    )


def examples(history: History) -> list[tuple[AnyTask, Variant]]:
    """One injected variant of each type with its seed: the latest, because the policy was at its best then."""
    known = history.tasks | {task_id: variant.task for task_id, variant in history.variants.items()}
    found = []
    for kind in TASK_TYPES:
        of_kind = [one for one in history.variants.values() if one.task.type == kind and one.seed in known]
        chosen = [one for one in of_kind if one.injected is not None] or of_kind
        if chosen:
            found.append((known[chosen[-1].seed], chosen[-1]))
    return found


def _subtitle(history: History) -> str:
    config = history.config
    originals = sum(task.split == "train" for task in history.tasks.values())
    held_out = len(history.tasks) - originals
    return (
        f"policy {config.policy.kind} · {config.data.tasks}: {originals} original tasks, {held_out} held out · "
        f"{config.training.batch_tasks} tasks × {config.rollouts.rollouts_per_task} rollouts a step · "
        f"sync {config.sync}" + (f" · {history.attempts} starts" if history.attempts > 1 else "")
    )


def _cards(history: History) -> list[tuple[str, str]]:
    """The figures at the top: number and words."""
    found = numbers(history)
    cards = [
        (str(found["steps"]), "steps"),
        (str(found["epochs"]), "epochs"),
        (str(found["picks"]), "seeds picked"),
        (str(found["accepted"]), "variants accepted"),
        (str(found["injected"]), "injected"),
        (str(sum(found["retired"].values())), "retired"),
        (str(found["revived"]), "revived"),
    ]
    if history.heldout:
        cards.insert(0, (f"{history.heldout['difference']['progress']['mean']:+.3f}", "held-out progress"))
    return cards


def _scores(heldout: dict[str, Any]) -> list[tuple[str, ...]]:
    """Rows of the held-out table: measure, start, end, paired difference, tasks."""
    start, end = heldout["start"], heldout["end"]
    rows = [
        (MEASURES.get(name, name), start[name], end[name], estimated(difference, "+"))
        for name, difference in heldout["difference"].items()
    ]
    before, after = start["progress_by_type"], end["progress_by_type"]
    rows += [(f"progress, {kind}", before[kind], after[kind], "") for kind in sorted(before.keys() & after.keys())]
    return [(name, estimated(old), estimated(new), between, str(new["tasks"])) for name, old, new, between in rows]


def _turns(task: AnyTask) -> list[tuple[str, str, list[str]]]:
    """What a turn shows: its text, the names of the tools that return in it, and its calls; with the first one of a
    task that is judged at the end stand those that its goal names."""
    calls = task.calls if isinstance(task, Task) else (task.goal_calls, *[()] * len(task.texts))
    return [
        (
            _short(text),
            ", ".join(task.held_out.get(turn, ())),
            [_short(str(call)) for call in calls[turn]],
        )
        for turn, text in enumerate(task.texts)
    ]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
