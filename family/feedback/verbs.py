"""`rods env feedback`: the failures that agents were asked about, what was approved, and a text
that is taken back."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict

from rods.buffers.log.record_bytes import record
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.locks import Ownership
from rods.buffers.run.run import Run
from rods.canonical import JsonMapping, JsonObject
from rods.commands import Json
from rods.console.output import RunFolder, print_result
from rods.errors import RefusedError, UserError
from rods.family.feedback.cases import FeedbackCase, FeedbackFold
from rods.family.feedback.settings import DROPPED

LONGEST = 300  # characters of a reason


def list_cases(run: RunFolder, /, *, as_json: Json = False) -> None:
    """List the failures that agents were asked about: what was approved, given up, dropped, or is
    open."""
    listed = cases(Run.open(run))
    listing = {
        "run": str(run),
        "counts": counts(listed),
        "failures": [asdict(case) for case in listed],
    }
    lines = [_summary(counts(listed)) if listed else "nobody was asked about a failure so far"]
    for case in listed:
        lines.append(
            f"{case.failure[:8]}  {case.state.replace('_', ' '):8}  {case.tool}: {case.pattern}"
        )
        lines.append(f"          {case.text or case.why or case.objection}")
    print_result(as_json, listing, lines)


def drop(run: RunFolder, failure: str, /, *, why: str = "", as_json: Json = False) -> None:
    """Take an approved text out of force, for good: from the next epoch on it is not shown. Nobody
    is asked again.

    Args:
        failure: The id of a failure, or its first digits.
        why: The reason, which is kept on record.
    """
    opened = Run.open(run)
    with Ownership(opened.path, DROPPED, "feedback"):
        case = find(opened, failure)
        if case.state != "approved":
            raise RefusedError(
                f"failure {case.failure} has no text in force ({case.state.replace('_', ' ')})",
                where=opened.path,
            )
        case.state = "dropped"
        case.why = why[:LONGEST]
        with closing(LogWriter(opened.path / DROPPED)) as writer:
            writer.append(
                [record("dropped", failure=case.failure, why=case.why, time=round(time.time(), 3))]
            )
    line = f"{case.failure[:8]} is not shown any more from the next epoch on: {case.text}"
    print_result(as_json, asdict(case), line)


def _summary(counts: JsonMapping) -> str:
    reasons = ", ".join(f"{count} × {reason}" for reason, count in counts["reasons"].items())
    states = "{approved} approved, {dropped} dropped, {open} open, {given_up} given up".format(
        **counts
    )
    return (
        f"{counts['failures']} failures, {counts['questions']} questions: "
        f"{states}{f' ({reasons})' if reasons else ''}"
    )


def cases(run: Run) -> list[FeedbackCase]:
    """Every kind of failure that agents were asked about, in the order of the log."""
    fold = FeedbackFold(run.path)
    fold.poll()
    return list(fold.cases.values())


def counts(listed: Sequence[FeedbackCase]) -> JsonObject:
    """How many failures there are in each state, how many questions were put about them, and how
    many were given up for which reason (up to its colon: what the last answer met with is its
    own)."""
    states = Counter(case.state for case in listed)
    reasons = Counter(case.why.partition(":")[0] for case in listed if case.state == "given_up")
    return {
        "failures": len(listed),
        "questions": sum(case.questions for case in listed),
        **{state: states[state] for state in ("approved", "dropped", "open", "given_up")},
        "reasons": dict(reasons.most_common()),
    }


def find(run: Run, failure: str) -> FeedbackCase:
    """The case whose id begins with `failure`. Raises UserError for none or several."""
    matching = [case for case in cases(run) if case.failure.startswith(failure)]
    if len(matching) != 1:
        raise UserError(
            f"{len(matching) or 'no'} kinds of failure have an id that begins with {failure!r}",
            where=run.path,
            remedy=f"`rods env feedback list {run.path}` shows the ids",
        )
    return matching[0]
