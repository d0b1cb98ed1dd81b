"""`rods score`: held-out scores of a run's policy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from console.output import Json, RunFolder, print_json

AtStep = Annotated[
    int | None, Parameter(help="Score the checkpoint of this step only. Default: start and end, paired.")
]


def score(run: RunFolder, /, *, step: AtStep = None, as_json: Json = False) -> None:
    """Score the run's policy on its held-out tasks, at the start and at the end, paired over the same tasks.

    Scores are kept in eval/; a checkpoint is scored once. Hints and augmented feedback are never shown here.
    """
    if step is not None:
        scored = _heldout().score_run(run, step)
        if as_json:
            print_json(scored)
        else:
            print(f"step {scored['step']}: progress {_words(scored['progress'])}, all turns {_words(scored['binary'])}")
        return
    compared = compare(run)
    if as_json:
        print_json(compared)
        return
    from console.report.findings import heldout_sentence

    print(heldout_sentence(compared))
    for name, values in compared["end"]["progress_by_type"].items():
        print(f"  {name:13} {_words(compared['start']['progress_by_type'][name])} → {_words(values)}")


def compare(run: Path) -> dict[str, Any]:
    """Scores of `run` at start and end and their paired difference; made where they are missing."""
    compared: dict[str, Any] = _heldout().compare(run)
    return compared


def _heldout() -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # transformers reads it when it is imported
    from evaluation import heldout

    return heldout


def _words(estimate: dict[str, Any]) -> str:
    low, high = estimate["interval"]
    return f"{estimate['mean']:.3f} [{low:.3f}, {high:.3f}]"
