"""`rods schedule`: where a schedule stands, and whether its draws follow from its log."""

from collections import Counter
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rods.commands import Json
from rods.console.output import print_result
from rods.errors import EXIT_FAILED, EXIT_OK, UserError
from rods.family.schedule.schedule import LOG, History, follows, opened


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
    history: History | None = None
    others: list[int] = []
    for each, history in opened(folder):
        if replay and each["kind"] == "scheduled" and not follows(each, history):
            others.append(each["step"])
    if history is None:
        raise UserError("is empty", where=folder / LOG, remedy="open the schedule once")
    counts: dict[str, Counter[str]] = {}
    for task in history.standings.tasks.values():
        stands = task.retired or ("active" if task.step else "unseen")
        counts.setdefault(task.domain, Counter())[stands] += 1
    drawn = Counter(role for batch in history.draws.values() for _, role in batch)
    lines = [
        f"step {history.step}; drawn: {_listed(drawn)}",
        *(f"{domain or 'tasks'}: {_listed(kinds)}" for domain, kinds in counts.items()),
        *(f"step {step}: another draw follows from the log" for step in others),
    ]
    if replay and not others:
        lines.append("each draw follows from the log")
    facts = {"step": history.step, "drawn": drawn, "domains": counts, "others": others}
    print_result(as_json, facts, lines)
    return EXIT_FAILED if others else EXIT_OK


def _listed(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(kinds.items()))
