"""Feedback of agents for people: what was asked, approved, given up; and a text that is dropped, on record."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from buffers.folds.feedback import FeedbackCase, FeedbackFold
from buffers.log.records import record
from buffers.log.writer import LogWriter
from buffers.run.locks import Ownership
from buffers.run.run import Run
from buffers.run.runfolder import DROPPED
from rods.errors import RefusedError, UserError

PROCESS = "feedback"
LONGEST = 300  # characters of a reason


def cases(run: Run) -> list[FeedbackCase]:
    """Every kind of failure that agents were asked about, in the order of the log."""
    fold = FeedbackFold(run.path)
    fold.poll()
    return list(fold.cases.values())


def counts(found: Sequence[FeedbackCase]) -> dict[str, Any]:
    """How many failures there are in each state, how many questions were put about them, and how many were given up for
    which reason (up to its colon: what the last answer met with is its own)."""
    states = Counter(case.state for case in found)
    reasons = Counter(case.why.partition(":")[0] for case in found if case.state == "given_up")
    return {
        "failures": len(found),
        "questions": sum(case.questions for case in found),
        **{state: states[state] for state in ("approved", "dropped", "open", "given_up")},
        "reasons": dict(reasons.most_common()),
    }


def find(run: Run, failure: str) -> FeedbackCase:
    """The case whose id begins with `failure`. Raises UserError for none or several."""
    found = [case for case in cases(run) if case.failure.startswith(failure)]
    if len(found) != 1:
        raise UserError(
            f"{len(found) or 'no'} kinds of failure have an id that begins with {failure!r}",
            where=str(run.path),
            remedy=f"`rods feedback list {run.path}` shows the ids",
        )
    return found[0]


def drop(run: Run, failure: str, why: str) -> FeedbackCase:
    """Takes an approved text out of force from the next merge on that no start has made before, and for good. Raises
    UserError for an unknown id, RefusedError for a text that is not in force."""
    owned = Ownership(run.path, DROPPED, PROCESS)
    try:
        case = find(run, failure)
        if case.state != "approved":
            raise RefusedError(
                f"failure {case.failure} has no text in force ({case.state.replace('_', ' ')})", where=str(run.path)
            )
        why = why[:LONGEST]
        with closing(LogWriter(run.path / DROPPED)) as writer:
            writer.append([record("dropped", failure=case.failure, why=why, time=round(time.time(), 3))])
        case.state, case.why = "dropped", why
        return case
    finally:
        owned.release()
