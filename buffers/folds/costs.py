"""What a run's variants cost in calls of language models: a fold of the daemon's log of calls and the expanded log.

Every call names its stage and the variant that pays for it (`account`: pick, `#`, index). So two questions have an
answer by stage: what does an accepted variant cost with all that failed on the way to it, and what does it cost when
only its own calls count (004 Appendix N gives the latter).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from buffers.log.tail import read
from rods.runfolder import EXPANDED, usage


@dataclass(slots=True)
class Spent:
    """Calls, tokens, and the seconds that the last attempts took, added up over calls in flight side by side."""

    calls: int = 0
    failed: int = 0  # of these, without an answer
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0

    def add(self, call: dict[str, Any]) -> None:
        self.calls += 1
        self.failed += call["outcome"] in ("failed", "refused", "budget", "cancelled")
        self.tokens_in += call["tokens_in"]
        self.tokens_out += call["tokens_out"]
        self.seconds += call["seconds"]

    def per(self, count: int) -> dict[str, float]:
        """Each figure by `count`; nothing by zero."""
        names = ("calls", "tokens_in", "tokens_out", "seconds") if count else ()
        return {name: round(getattr(self, name) / count, 3) for name in names}


@dataclass(slots=True)
class Costs:
    """`stages`: all calls. `path`: those of accepted variants. `models`: all calls by endpoint. `busy`: the seconds in
    which at least one call was in flight, by endpoint: what its GPUs were kept for."""

    accepted: int = 0
    variants: int = 0  # that any call was made for
    stages: dict[str, Spent] = field(default_factory=dict)
    path: dict[str, Spent] = field(default_factory=dict)
    models: dict[str, Spent] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        calls = [spent.calls for spent in self.path.values()]
        return {
            "accepted": self.accepted,
            "variants": self.variants,
            "calls": sum(spent.calls for spent in self.stages.values()),
            "calls_per_accepted": _ratio(sum(spent.calls for spent in self.stages.values()), self.accepted),
            "calls_on_the_path": _ratio(sum(calls), self.accepted),
            "busy_seconds_per_accepted": _ratio(sum(self.busy.values()), self.accepted),
            "stages": {
                stage: {
                    "calls": spent.calls,
                    "failed": spent.failed,
                    "per_accepted": spent.per(self.accepted),
                    "on_the_path": self.path.get(stage, Spent()).per(self.accepted),
                }
                for stage, spent in self.stages.items()
            },
            "endpoints": {
                name: {"calls": spent.calls, "busy_seconds": round(self.busy[name], 1)}
                for name, spent in self.models.items()
            },
        }


def costs(folder: Path) -> Costs:
    """Reads the logs of the run `folder`; all zero where no model has been asked."""
    accepted = {f"{record['pick']}#{record['index']}" for record in read(folder / EXPANDED)}
    found = Costs()
    if not (folder / usage("daemon")).exists():
        return found
    accounts: Counter[str] = Counter()
    spans: dict[str, list[tuple[float, float]]] = {}
    for call in read(folder / usage("daemon")):
        accounts[call["account"]] += 1
        found.stages.setdefault(call["stage"], Spent()).add(call)
        if call["account"] in accepted:
            found.path.setdefault(call["stage"], Spent()).add(call)
        found.models.setdefault(call["backbone"], Spent()).add(call)
        spans.setdefault(call["backbone"], []).append((call["time"] - call["seconds"], call["time"]))
    found.accepted, found.variants = len(accepted.intersection(accounts)), len(accounts)
    found.busy = {name: covered(pieces) for name, pieces in spans.items()}
    return found


def covered(spans: list[tuple[float, float]]) -> float:
    """The length of the union of intervals."""
    total, end = 0.0, float("-inf")
    for begin, finish in sorted(spans):
        total += max(0.0, finish - max(begin, end))
        end = max(end, finish)
    return total


def _ratio(number: float, count: int) -> float | None:
    return round(number / count, 2) if count else None
