"""`rods feedback`: the failures that agents were asked about, what was approved, and a text that is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from buffers import feedback
from buffers.run.run import Run
from buffers.run.runfolder import DROPPED, FEEDBACK
from buffers.state import read_state
from console.output import RunFolder, print_json, print_lines
from rods.commands import Json

Failure = Annotated[str, Parameter(help="The id of a failure, or its first digits.")]
Why = Annotated[str, Parameter(help="The reason, which is kept on record.")]


def list_cases(run: RunFolder, /, *, as_json: Json = False) -> None:
    """List the failures that agents were asked about: what was approved, given up, dropped, or is open."""
    found = feedback.cases(Run.open(run))
    if as_json:
        print_json({"run": str(run), "counts": feedback.counts(found), "failures": [case.as_json() for case in found]})
        return
    if found:
        print_lines([_summary(feedback.counts(found))])
    for case in found:
        said = case.text or case.why or case.objection
        print_lines(
            [f"{case.failure[:8]}  {case.state.replace('_', ' '):8}  {case.tool}: {case.pattern}", f"          {said}"]
        )
    if not found:
        print_lines(["nobody was asked about a failure so far"])


def show(run: RunFolder, failure: Failure, /, *, as_json: Json = False) -> None:
    """Show everything on record about one failure: how often it was met, each attempt, and what became of it."""
    opened = Run.open(run)
    case = feedback.find(opened, failure)
    state = read_state(opened, strict=False)
    records = [
        {key: value for key, value in one.items() if key not in ("seq", "id", "crc", "failure")}
        for log in (FEEDBACK, DROPPED)
        for one in state.records(log)
        if one.get("failure") == case.failure
    ]
    met = next((one for one in state.mining if (one.tool, one.pattern) == (case.tool, case.pattern)), None)
    counts = {} if met is None else {"rollouts": met.rollouts, "calls": met.calls, "last_step": met.last}
    if as_json:
        print_json({**case.as_json(), "met": counts, "records": records})
        return
    print_lines([f"{case.failure}  {case.state.replace('_', ' ')}", f"{case.environment}, {case.tool}: {case.pattern}"])
    if counts:
        print_lines(["met by {calls} calls in {rollouts} rollouts, last in step {last_step}".format(**counts)])
    print_lines(_line(one) for one in records)


def drop(run: RunFolder, failure: Failure, /, *, why: Why = "", as_json: Json = False) -> None:
    """Take an approved text out of force, for good: from the next epoch on it is not shown. Nobody is asked again."""
    case = feedback.drop(Run.open(run), failure, why)
    if as_json:
        print_json(case.as_json())
        return
    print_lines([f"{case.failure[:8]} is not shown any more from the next epoch on: {case.text}"])


def _summary(counts: Mapping[str, Any]) -> str:
    given = ", ".join(f"{count} × {reason}" for reason, count in counts["reasons"].items())
    states = "{approved} approved, {dropped} dropped, {open} open, {given_up} given up".format(**counts)
    return f"{counts['failures']} failures, {counts['questions']} questions: {states}{f' ({given})' if given else ''}"


def _line(record: dict[str, Any]) -> str:
    kind = record["kind"].replace("_", " ")
    if kind == "asked":
        return f"  {record['number']}. asked"
    by = f" by {record['by']}" if "by" in record else ""
    said = [record[name] for name in ("text", "why") if record.get(name)]
    return f"     {kind}{by}: {' — '.join(said)}"
