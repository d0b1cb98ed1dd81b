"""One row a fault, and the table of all."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.faults.workloads import Verdict

HEAD = (
    "| fault | points tried | survived | acknowledged records lost "
    "| duplicates | wrong recoveries | row |\n|---|---|---|---|---|---|---|"
)


@dataclass
class Row:
    fault: str
    tried: int = 0
    survived: int = 0
    lost: int = 0
    twice: int = 0
    wrong: int = 0
    failures: list[str] = field(default_factory=list)  # what went wrong where
    # what the machine could not do, and for want of which process
    untried: list[str] = field(default_factory=list)
    name: str = ""  # `python -m tests.faults --only NAME` makes it again

    def add(self, point: str, verdict: Verdict) -> None:
        self.tried += 1
        self.survived += verdict.good
        self.lost += verdict.lost
        self.twice += verdict.twice
        self.wrong += bool(verdict.wrong)
        if not verdict.good:
            self.failures.append(f"{point}: {verdict}")

    def __str__(self) -> str:
        counts = f"{self.tried:,} | {self.survived:,} | {self.lost} | {self.twice} | {self.wrong}"
        untried = f" ({len(self.untried)} not tried: no process for them)" if self.untried else ""
        return f"| {self.fault}{untried} | {counts} | `{self.name}` |"
