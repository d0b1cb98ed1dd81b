"""The yields of known models (docs/yield.md), and yields side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# by name, as `rods doctor --synthesis --json` prints them
KNOWN: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text())


def yield_table(yields: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields side by side, a column a model, in Markdown; a seed may fail often."""
    every = list(yields.values())
    yield from _heads("", *yields)
    yield _row("seeds", *(f"{trial['finished']} of {trial['data']}" for trial in every))
    for name, key in (("a ground truth runs", "executable"), ("a variant is accepted", "accepted")):
        yield _row(
            name, *(f"{100 * trial[key] / max(1, trial['finished']):.0f} %" for trial in every)
        )
    for name in ("calls", "tokens", "seconds"):
        figures = (trial[f"{name}_per_variant"] for trial in every)
        yield _row(f"{name} a variant", *("–" if figure is None else figure for figure in figures))
    yield ""
    yield from _heads("failures for each 100 seeds", *yields)
    for failure in sorted({failure for trial in every for failure in trial["failures"]}):
        counts = (
            100 * trial["failures"].get(failure, 0) / max(1, trial["finished"]) for trial in every
        )
        yield _row(f"`{failure}`", *(f"{count:.0f}" for count in counts))
    yield ""
    yield from _heads("stage: calls, tokens in and out, seconds each", *yields)
    for stage in dict.fromkeys(stage for trial in every for stage in trial["stages"]):
        yield _row(stage, *(_calls(trial["stages"].get(stage)) for trial in every))


def _calls(stage: Mapping[str, Any] | None) -> str:
    if stage is None:
        return "–"
    cut = f" ({stage['cut']} cut)" if stage["cut"] else ""
    return (
        f"{stage['calls']}{cut}, {stage['tokens_in']} + {stage['tokens_out']}, "
        f"{stage['seconds']:.1f}"
    )


def _heads(*names: str) -> list[str]:
    return [_row(*names), "|" + "---|" * len(names)]


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"
