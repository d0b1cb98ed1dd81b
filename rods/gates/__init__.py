"""The rules that a variant must pass before anybody judges its wording (004 Appendix G; DESIGN §5.4, §5.6).

One file a gate; each is a pure function that returns reasons, and no reasons mean passed. `check` asks them in the
paper's order, with the switches of the configuration (`[gates]`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rods.analysis.profile import Profile, isomorphic
from rods.analysis.profile import profile as profile_of
from rods.config import Gates
from rods.environments.base import Environment
from rods.gates.arguments import arguments
from rods.gates.contamination import contamination, held_out_index, overlaps
from rods.gates.duplicates import duplicates
from rods.gates.grounding import grounding
from rods.gates.leaks import leaks
from rods.gates.missing import missing
from rods.gates.reason import Reason
from rods.gates.replay import Results, abridged, replay, replayed
from rods.gates.requests import requests
from rods.gates.similarity import Match, SimilarityIndex
from rods.gates.tools import tools
from rods.tasks import Task

__all__ = [
    "OF_WORDS",
    "Gate",
    "Match",
    "Reason",
    "Rejection",
    "SimilarityIndex",
    "abridged",
    "arguments",
    "check",
    "contamination",
    "duplicates",
    "grounding",
    "held_out_index",
    "leaks",
    "missing",
    "overlaps",
    "replay",
    "requests",
    "tools",
]
Gate = Literal[
    "replay",
    "tools",
    "arguments",
    "leaks",
    "grounding",
    "requests",
    "missing",
    "profile",
    "duplicates",
    "contamination",
]
# What these object to lies in the words of a turn, and other words may mend it; the others blame calls or neighbours.
OF_WORDS: frozenset[Gate] = frozenset({"leaks", "grounding", "requests"})
Reading = Callable[[Environment, Task, Results], list[Reason]]  # a gate that needs the results of the ground truth


@dataclass(frozen=True, slots=True)
class Rejection:
    """A gate that `reasons` keep shut."""

    gate: Gate
    reasons: tuple[Reason, ...]

    def as_json(self) -> dict[str, Any]:
        return {"gate": self.gate, "reasons": [str(reason) for reason in self.reasons]}


def check(
    environment: Environment,
    task: Task,
    root: Profile,
    gates: Gates,
    *,
    pool: SimilarityIndex,
    held_out: SimilarityIndex,
) -> list[Rejection]:
    """Every gate that rejects `task`, in order; empty when all let it pass.

    `root` is the profile of the original at the root of the variant's lineage, `pool` holds the tasks that it must not
    nearly repeat, `held_out` those that it must not teach. A gate that is switched off passes everything. Raises
    InfrastructureError when the replay broke for reasons that are not the task's.
    """
    reads: list[tuple[Gate, Reading]] = [("grounding", grounding), ("requests", requests), ("missing", missing)]
    results: Results | None = None
    unsound: list[Reason] = []
    if any(getattr(gates, gate) for gate in ("replay", "profile", *(gate for gate, _ in reads))):
        results, unsound = replayed(environment, task)
    runs = results is not None and all(call.name in environment.tools() for turn in task.calls for call in turn)
    asked: list[tuple[Gate, list[Reason]]] = [
        ("replay", unsound if gates.replay else []),
        ("tools", tools(environment, task) if gates.tools else []),
        ("arguments", arguments(task, gates) if gates.arguments else []),
        ("leaks", leaks(environment, task) if gates.leaks else []),
    ]
    if results is not None and runs:
        asked += [(gate, reasons(environment, task, results)) for gate, reasons in reads if getattr(gates, gate)]
    asked += [
        ("profile", _shape(environment, task, results if runs else None, root, gates) if gates.profile else []),
        ("duplicates", duplicates(task, pool) if gates.duplicates else []),
        ("contamination", contamination(task, held_out) if gates.contamination else []),
    ]
    return [Rejection(gate, tuple(reasons)) for gate, reasons in asked if reasons]


def _shape(environment: Environment, task: Task, results: Results | None, root: Profile, gates: Gates) -> list[Reason]:
    if results is None:
        return [Reason("its ground truth does not run here, so it has no profile")]
    shape = profile_of(environment, task, results)
    return [Reason(told) for told in isomorphic(root, shape, gates.profile_distance)]
