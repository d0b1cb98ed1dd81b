"""`rods schedule`: where a schedule stands, and whether its draws follow from its log."""

from collections import Counter
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rods.commands import Json
from rods.console.output import print_result
from rods.errors import EXIT_FAILED, EXIT_OK, UserError
from rods.family.schedule.rules import counts
from rods.family.schedule.schedule import LOG, mismatch, opened


def schedule(
    folder: Path,
    /,
    *,
    replay: Annotated[bool, Parameter(help="Derive each draw again from the log.")] = False,
    as_json: Json = False,
) -> int:
    """Show where a schedule of others' tasks stands (docs/schedule.md).

    With --replay each draw is derived again from the records before it: exits 1 where one is
    another.

    Args:
        folder: What `open_schedule` was given.
    """
    history = None
    faults = []
    for each, history in opened(folder):
        if replay and (fault := mismatch(each, history)):
            faults.append(fault)
    if history is None:
        raise UserError("no record", where=folder / LOG, remedy="open the schedule once")
    following = history.drawn + 1
    roles = Counter(role for drawn in history.draws.values() for _, role in drawn)
    facts = {
        "step": history.step,
        "drawn": history.drawn,
        "target": history.rules.target_at(following),
        "domains": counts(history.standings),
        "roles": roles,
        "profiling": history.standings.profiling(following),
        "faults": faults,
    }
    lines = [
        f"step {history.step} rewarded, {history.drawn} drawn; target {facts['target']:g}",
        f"drawn as {_listed(roles)}",
        *(f"{domain or 'tasks'}: {_listed(kinds)}" for domain, kinds in facts["domains"].items()),
        *faults,
    ]
    if replay and not faults:
        lines.append("each draw follows from the log")
    print_result(as_json, facts, lines)
    return EXIT_FAILED if faults else EXIT_OK


def _listed(kinds: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(kinds.items())) or "none"
