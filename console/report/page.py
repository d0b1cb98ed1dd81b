"""What the page's view `report` is told of a run: sentences, figures, scores, plots as data, limits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from console.output import estimated
from console.report.findings import findings, limits, numbers
from console.report.history import History
from console.report.plots import plots

MOST_VERSIONS = 40  # of the interface, the latest
MEASURES = {
    "progress": "progress reward",
    "binary": "all turns resolved",
    "official": "the benchmark's own verdict",  # skips turns in which no call is right (FACTS §1)
}


def told(history: History) -> dict[str, Any]:
    """The whole report, as JSON can say it; text of tasks and models stays what it is."""
    return {
        "name": history.name,
        "subtitle": _subtitle(history),
        "simulated": history.simulated,
        "numbers": numbers(history),
        "findings": findings(history),
        "limits": limits(history),
        "scores": _scores(history.heldout) if history.heldout else [],
        "plots": [asdict(plot) for plot in plots(history)],
        "versions": [
            {**asdict(version), "reason": version.reason}
            for version in (history.versions[-MOST_VERSIONS:] if len(history.versions) > 1 else ())
        ],
        "examples": [
            {
                "seed": one.seed.as_json(),
                "variant": one.variant.as_json(),
                "picked": one.picked,
                "injected": one.injected,
                "generation": one.generation,
            }
            for one in history.examples
        ],
    }


def _subtitle(history: History) -> str:
    config = history.config
    return (
        f"policy {config.policy.kind} · {config.data.tasks}: {history.originals} original tasks, "
        f"{history.held_out} held out · "
        f"{config.training.batch_tasks} tasks × {config.rollouts.rollouts_per_task} rollouts a step · "
        f"sync {config.sync}"
        + (f" · variants by {', '.join(history.authors)}" if history.authors else "")
        + (f" · {history.attempts} starts" if history.attempts > 1 else "")
    )


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
