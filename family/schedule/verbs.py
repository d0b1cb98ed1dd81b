"""`rods trainer schedule`: where a schedule stands, and whether its draws follow from its log."""

from collections import Counter
from pathlib import Path

from rods.commands import Json
from rods.console.output import print_result
from rods.errors import EXIT_FAILED, EXIT_OK, UserError
from rods.family.schedule.schedule import LOG, History, follows, opened


def schedule(folder: Path, /, *, replay: bool = False, as_json: Json = False) -> int:
    """Show where a schedule of others' tasks stands (docs/schedule.md).

    Args:
        folder: What `open_schedule` was given.
        replay: Derive each draw again from the records before it; exits 1 where one is another.
    """
    history: History | None = None
    others: list[int] = []
    for each, history in opened(folder):
        if replay and each["kind"] == "scheduled" and not follows(each, history):
            others.append(each["step"])
    if history is None:
        raise UserError("no schedule", where=folder / LOG, remedy="name what was opened as one")
    counts = Counter(
        f"{task.domain} {task.retired or ('active' if task.step else 'unseen')}".strip()
        for task in history.standings.tasks.values()
    )
    drawn = Counter(role for batch in history.draws.values() for _, role in batch)
    lines = [
        f"step {history.step}",
        *(f"{count:6} drawn: {role}" for role, count in sorted(drawn.items())),
        *(f"{count:6} tasks: {kind}" for kind, count in sorted(counts.items())),
        *(f"step {step}: another draw follows from the log" for step in others),
    ]
    if replay and not others:
        lines.append("each draw follows from the log")
    facts = {"step": history.step, "drawn": drawn, "tasks": counts, "others": others}
    print_result(as_json, facts, lines)
    return EXIT_FAILED if others else EXIT_OK
