"""The verdicts of BFCL's scorer on an episode, out of the verdicts on its turns (None or missing:
not finished).

*official*: every turn with ground-truth calls is resolved; turns without are skipped, so junk calls
there pass. *strict* also wants no call in those."""

from collections.abc import Sequence

from rods.episode.engine import Trace, Verdict
from rods.tasks import Task


def official_verdict(task: Task, verdicts: Sequence[Verdict | None]) -> bool:
    return len(verdicts) == task.expected and all(
        verdict is not None and (not calls or verdict.resolved)
        for calls, verdict in zip(task.calls, verdicts, strict=True)
    )


def strict_verdict(task: Task, verdicts: Sequence[Verdict | None]) -> bool:
    return len(verdicts) == task.expected and all(
        verdict is not None and verdict.resolved for verdict in verdicts
    )


def official(task: Task, trace: Trace) -> bool:
    """Whether BFCL's scorer would accept what a trace shows."""
    return trace.end == "finished" and official_verdict(
        task, [turn.verdict for turn in trace.turns]
    )
