"""What triage adds to the core: a verb, and what it has found of a run for the page."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rods.canonical import JsonMapping

if TYPE_CHECKING:
    from rods.family.provides import Provides


def _tables(run: Path) -> "Iterable[JsonMapping]":
    from rods.family.triage.findings import tables

    return tables(run)


PROVIDES: "Provides" = {
    "tables": _tables,
    "verbs": {
        "triage": (
            "rods.family.triage.verbs:triage",
            "Say why tasks are hopeless: teachable, broken, unfair or beyond reach.",
            "repair",
        )
    },
}
