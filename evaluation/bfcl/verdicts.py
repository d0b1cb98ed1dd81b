"""The benchmark's two binary verdicts over a whole episode.

*official*: every turn with ground-truth calls is resolved (some call, the state, the results); turns without are
skipped, so junk calls there pass. *strict* also demands that the policy abstains in those. An episode that ended
early fails both, as the benchmark's forced termination does.
"""

from __future__ import annotations

from collections.abc import Sequence

from rods.episode.engine import Trace, Verdict
from rods.tasks import Task


def official(task: Task, verdicts: Sequence[Verdict | None]) -> bool:
    """`verdicts` by turn, as `GroundTruth` gives them; None or missing: the turn was not finished."""
    return len(verdicts) == task.expected_turns and all(
        verdict is not None and (not calls or verdict.resolved)
        for calls, verdict in zip(task.calls, verdicts, strict=True)
    )


def strict(task: Task, verdicts: Sequence[Verdict | None]) -> bool:
    return len(verdicts) == task.expected_turns and all(
        verdict is not None and verdict.resolved for verdict in verdicts
    )


def of_trace(task: Task, trace: Trace) -> dict[str, bool]:
    """Both verdicts of an episode: {"official": …, "strict": …}."""
    verdicts = [turn.verdict for turn in trace.turns]
    finished = trace.end == "finished"
    return {"official": finished and official(task, verdicts), "strict": finished and strict(task, verdicts)}
