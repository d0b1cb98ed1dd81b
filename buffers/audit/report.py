"""What a check of a run found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Report:
    """What was looked at and what does not fit."""

    run: str
    counts: dict[str, int] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def problem(self, where: str, what: str) -> None:
        self.problems.append({"where": where, "what": what})

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "ok": self.ok,
            "counts": self.counts,
            "problems": self.problems,
            "notes": self.notes,
        }

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        yield f"{self.run}: " + ", ".join(f"{number} {what}" for what, number in self.counts.items())
        yield from (f"  note: {note}" for note in self.notes)
        yield from (f"  {problem['where']}: {problem['what']}" for problem in self.problems)
        found = len(self.problems)
        yield "everything agrees" if self.ok else f"{found} problem{'s' if found > 1 else ''}"
