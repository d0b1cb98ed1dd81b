"""The HTML page: one file, images inlined, nothing fetched, every text of a task or a model escaped."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from console.output import estimated
from console.report.findings import findings, limits, numbers
from console.report.history import History, Variant
from rods.tasks import Task

MEASURES = {
    "progress": "progress reward",
    "binary": "all turns resolved",
    "official": "the benchmark's own verdict",  # skips turns in which no call is right (FACTS §1)
}


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawn plot: its file name without ending, its heading, what one sees in it, and the PNG's bytes."""

    name: str
    title: str
    caption: str
    png: bytes


def page(history: History, plots: Sequence[Plot], examples: Sequence[tuple[Task, Variant]]) -> str:
    """The whole page."""
    template = Template(files("console.report").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        name=escape(history.name),
        subtitle=escape(_subtitle(history)),
        warning=_warning(history),
        cards="".join(_card(number, words) for number, words in _cards(history)),
        findings=_items(findings(history)),
        heldout=_heldout(history.heldout) if history.heldout else "",
        plots="".join(_plot(plot) for plot in plots) or "<p>No step is recorded yet, so there is nothing to draw.</p>",
        examples=_examples(examples),
        limits=_items(limits(history)),
    )


def _subtitle(history: History) -> str:
    config = history.config
    originals = sum(task.split == "train" for task in history.tasks.values())
    held_out = len(history.tasks) - originals
    return (
        f"policy {config.policy.kind} · {config.data.tasks}: {originals} original tasks, {held_out} held out · "
        f"{config.training.batch_tasks} tasks × {config.rollouts.rollouts_per_task} rollouts a step · "
        f"sync {config.sync}" + (f" · {history.attempts} starts" if history.attempts > 1 else "")
    )


def _warning(history: History) -> str:
    if not history.simulated:
        return ""
    return '<p class="warning">Simulated policy: a study of the loop, never evidence for the method.</p>'


def _cards(history: History) -> list[tuple[str, str]]:
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


def _card(number: str, words: str) -> str:
    return f'<div class="card"><b>{escape(number)}</b>{escape(words)}</div>'


def _items(lines: Iterable[str]) -> str:
    return "".join(f"<li>{escape(line)}</li>" for line in lines)


def _heldout(heldout: dict[str, Any]) -> str:
    rows = []
    start, end = heldout["start"], heldout["end"]
    for name, difference in heldout["difference"].items():
        words = MEASURES.get(name, name)
        rows.append(_score_row(words, start[name], end[name], difference))
    for kind in sorted(start["progress_by_type"].keys() & end["progress_by_type"].keys()):
        rows.append(
            _score_row(f"progress, {kind}", start["progress_by_type"][kind], end["progress_by_type"][kind], None)
        )
    head = "".join(
        f'<th class="number">{escape(words)}</th>'
        for words in (f"step {start['step']}", f"step {end['step']}", "paired difference", "tasks")
    )
    left_out = (
        f" {heldout['left_out']} tasks could not be scored at both ends and are left out."
        if heldout["left_out"]
        else ""
    )
    return (
        "<h2>Held-out tasks</h2>"
        f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"
        f'<p class="soft">Mean over tasks, with 95 % intervals; {escape(str(start["rollouts_per_task"]))} sampled '
        "rollout(s) a task, the same tasks and the same random seeds at both ends, the plain interface. Environments: "
        f"{escape(', '.join(end['versions']))}.{escape(left_out)}</p>"
    )


def _score_row(words: str, start: dict[str, Any], end: dict[str, Any], difference: dict[str, Any] | None) -> str:
    cells = [estimated(start), estimated(end), estimated(difference, "+") if difference else "", str(end["tasks"])]
    return (
        f"<tr><td>{escape(words)}</td>" + "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells) + "</tr>"
    )


def _plot(plot: Plot) -> str:
    data = base64.b64encode(plot.png).decode()
    return (
        f'<h3>{escape(plot.title)}</h3><figure><img src="data:image/png;base64,{data}" alt="{escape(plot.title)}">'
        f"<figcaption>{escape(plot.caption)}</figcaption></figure>"
    )


def _examples(examples: Sequence[tuple[Task, Variant]]) -> str:
    if not examples:
        return ""
    parts = ["<h2>Seed and variant, side by side</h2>"]
    for seed, variant in examples:
        where = "" if variant.injected is None else f", injected after step {variant.injected}"
        parts.append(
            f'<p class="soft">{escape(seed.type)} · picked at step {variant.picked}{escape(where)} · '
            f"generation {variant.generation}</p>"
            f'<div class="pair"><div>{_conversation("Seed", seed)}</div>'
            f"<div>{_conversation('Variant', variant.task)}</div></div>"
        )
    return "".join(parts)


def _conversation(heading: str, task: Task) -> str:
    parts = [f"<b>{heading}</b> <code>{escape(task.id)}</code>"]
    for turn, (text, calls) in enumerate(zip(task.script, task.calls, strict=True)):
        returned = task.held_out.get(turn)
        news = f' <span class="soft">(now available: {escape(", ".join(returned))})</span>' if returned else ""
        listed = "".join(f"<code>{escape(_short(str(call)))}</code>" for call in calls)
        listed = listed or '<span class="soft">no call is right here</span>'
        parts.append(
            f'<div class="turn">{turn + 1}. {escape(_short(text))}{news}<div class="calls">{listed}</div></div>'
        )
    return "".join(parts)


def _short(text: str, most: int = 600) -> str:
    return text if len(text) <= most else text[:most] + "…"
