"""The gate against near duplicates in pool and staging (DESIGN §5.6)."""

from __future__ import annotations

from rods.gates.reason import Reason
from rods.gates.similarity import SimilarityIndex
from rods.tasks import Task


def duplicates(task: Task, pool: SimilarityIndex) -> list[Reason]:
    """Why `task` is nothing new; empty when it is. The task itself, if it stands in `pool`, does not count."""
    match = pool.find(task)
    return [] if match is None else [Reason(str(match))]
