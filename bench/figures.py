"""What a measurement prints: one figure a claim, beside the anchor that it is compared with in the
same run.

A bench script is `bench/NAME.py` with `def measure(quick: bool) -> list[Figure]` and ends in
`run(measure)`. `quick` keeps it under about twenty seconds on two cores; the full size is for
figures that are published.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """`value` in `unit`; `anchor` names what it is compared with, measured in the same run as
    `anchor_value` where that exists. `reach` is what the project wants of `value` (`higher` says in
    which direction), None where nothing is."""

    claim: str
    value: float
    unit: str
    anchor: str = ""
    anchor_value: float | None = None
    reach: float | None = None
    higher: bool = True

    @property
    def reached(self) -> bool | None:
        if self.reach is None:
            return None
        return self.value >= self.reach if self.higher else self.value <= self.reach

    def __str__(self) -> str:
        parts = [f"{self.claim}: {_short(self.value)} {self.unit}".rstrip()]
        if self.anchor:
            known = "" if self.anchor_value is None else f" {_short(self.anchor_value)}"
            parts.append(f"anchor {self.anchor}{known}")
        if self.reach is not None:
            sign = "≥" if self.higher else "≤"
            parts.append(f"to reach {sign} {_short(self.reach)}: {'yes' if self.reached else 'NO'}")
        return "  |  ".join(parts)


def run(measure: Callable[..., list[Figure]], **options: str) -> None:
    """The command line of one script. Exits 0 whether or not a figure is reached: benches inform,
    tests judge. `options` are more options of the script with what they say of themselves; those
    given reach `measure` by name."""
    parser = argparse.ArgumentParser(description=measure.__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, for a look in seconds")
    parser.add_argument("--json", action="store_true", help="one JSON object a figure and line")
    for name, text in options.items():
        parser.add_argument(f"--{name}", help=text)
    asked = parser.parse_args()
    given = {name: getattr(asked, name) for name in options if getattr(asked, name) is not None}
    for figure in measure(asked.quick, **given):
        print(
            json.dumps({**asdict(figure), "reached": figure.reached}) if asked.json else figure,
            flush=True,
        )


def _short(value: float) -> str:
    if value and abs(value) < 0.001:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
