"""`rods inspect`: one task with its ancestry, windows and history in a run; a list of all; what
variants cost."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

from cyclopts import Parameter

from rods.buffers.run.run import Run
from rods.buffers.usage import Costs, Spent, costs
from rods.canonical import JsonObject, without
from rods.commands import Json
from rods.console.output import RunFolder, print_result
from rods.conversations import Checks, Persona
from rods.errors import UserError
from rods.family.page.follower import Follower
from rods.family.page.task_history import TaskHistory, task_history, task_list
from rods.model_json import mapped
from rods.tasks import OpenTask, Task
from rods.turn_statistics import Dynamics, shares

RECENT = 10  # groups of a task whose labels are summed up turn by turn


def inspect(
    run: RunFolder,
    task: Annotated[
        str | None,
        Parameter(
            help="A task's id, or enough of its first characters; variants or originals list "
            "these, none lists all."
        ),
    ] = None,
    /,
    *,
    cost: bool = False,
    as_json: Json = False,
) -> None:
    """Show one task: conversation, ground truth, what became of each turn, ancestry from seed to
    variant, windows of rewards, and its history; or calls, tokens and time for each accepted
    variant, with what failed and without.

    Without either list all tasks: id, type, zone, generation (0: an original), and whether it is
    active. The page has the episodes of a task.

    Args:
        cost: Show what variants cost in calls of language models, by stage.
    """
    if task is not None and cost:
        raise UserError(
            "one thing is shown at a time",
            where="rods inspect",
            remedy=f"`rods inspect {run} TASK`, or without a task --cost",
        )
    if cost:
        Run.open(run)
        spent = costs(run)
        print_result(as_json, spent.as_json(), cost_lines(spent))
        return
    follower = Follower(run)
    if task is None or task in ("variants", "originals"):
        listed = [
            row
            for row in task_list(follower)
            if task is None or (row["generation"] > 0) is (task == "variants")
        ]
        print_result(as_json, {"tasks": listed}, map(_list_line, listed))
    else:
        history = task_history(follower, task)
        print_result(as_json, history.as_json(), _lines(history))


def _list_line(task: JsonObject) -> str:
    now = "active" if task["active"] else "not active"
    return (
        f"{task['id']}  {task['type']:<12} {task['zone'] or 'no zone':<9} generation "
        f"{task['generation']}  {now}"
    )


def _lines(history: TaskHistory) -> list[str]:
    task = history.task
    origin = (
        "original" if len(history.ancestry) == 1 and "seed" not in task.provenance else "variant"
    )
    origin = "drawn" if any(event["event"] == "drawn" for event in history.history) else origin
    lines = [f"{task.id}  {task.type}, {origin}, {task.split}, environment {task.environment.name}"]
    if world := history.environment:
        texts = {
            key: " ".join(value) if isinstance(value, list) else value
            for key, value in world["parameters"].items()
        }
        facts = ", ".join(f"{key} {text}" for key, text in texts.items() if text)
        lines.append(f"world     {facts or 'of unknown kind'}; hash {world['hash']}")
    if len(history.ancestry) > 1:
        lines.append("ancestry  " + " → ".join(ancestor.id for ancestor in history.ancestry))
    if history.variants:
        lines.append("variants  " + ", ".join(history.variants))
    lines.append(f"tools     {', '.join(task.tools)}")
    lines += [f"system    {task.system}"] if task.system else []
    lines.append("")
    for turn, text in enumerate(task.texts):
        if turn in task.later_tools:
            lines.append(f"turn {turn}  now available: {', '.join(task.later_tools[turn])}")
        lines.append(f"turn {turn}  user: {text}")
        if isinstance(task, Task):
            lines += [
                f"        truth: {call}" for call in task.calls[turn] or ["no call is right here"]
            ]
        recent = sum(
            (Counter(group["turns"][turn]) for group in history.labels[-RECENT:]), Counter()
        )
        if recent:
            lines.append(
                f"        {shares(recent)}; of {recent.total()} rollouts in its last groups"
            )
    went = sum((Dynamics(**group["went"]) for group in history.labels[-RECENT:]), Dynamics())
    if went.turns:
        lines.append(f"replies   {went.words()} in its last groups")
    if isinstance(task, OpenTask):
        lines += _open_lines(task)
    lines.append("")
    for window in history.windows:
        lines.append(
            f"window    {window.reward}: mean {window.mean:.3f}, variance {window.variance:.3f} "
            f"over {window.count} of {window.groups} groups; zone {window.zone or 'none'}, last "
            f"step {window.last_step}, trend {window.trend:+.3f}"
        )
    lines += history.notes
    for event in history.history:
        own = without(event, "step", "event")
        brief = mapped(
            own, lambda value: float(f"{value:.4g}") if isinstance(value, float) else value
        )
        facts = ", ".join(f"{key} {value}" for key, value in brief.items())
        lines.append(f"step {event['step']:<5} {event['event']}" + (f" ({facts})" if facts else ""))
    if not history.windows and not history.history:
        lines.append("never rolled out, never picked")
    return lines


def _open_lines(task: OpenTask) -> list[str]:
    """What a played user goes by, and what the task is judged by at the end."""
    user = task.user
    lines = []
    if isinstance(user, Persona):
        lines = [f"user      wants: {user.intent}", f"          at most {user.turns} texts"]
        lines += [f"          then asks: {text}" for text in user.further]
        lines += [f"          talks: {user.manner}"] if user.manner else []
        lines += [f"          knows {topic}: {words}" for topic, words in user.knows.items()]
    if isinstance(task.goal, Checks):
        return lines + [f"check     {call}" for call in task.goal.calls]
    lines += [f"rubric    {criterion}" for criterion in task.goal.criteria]
    return lines + [f"expects   {call}" for call in task.goal.calls]


def cost_lines(costs: Costs) -> Iterator[str]:
    """The tables for people: what roles have used, and what an accepted variant costs by stage."""
    yield from _cost_table("models that play", costs.played, 1)
    if not costs.stages:
        yield "no language model has written for this run"
        return
    yield f"{costs.accepted} variants accepted of {costs.variants} that calls were made for"
    each = costs.accepted or 1
    yield from _cost_table("all calls, by stage", costs.stages, each)
    yield from _cost_table("on its own path", costs.path, each)
    summary = costs.as_json()
    yield (
        f"{summary['calls_per_accepted']} calls for an accepted variant, "
        f"{summary['calls_on_the_path']} on its own path; endpoints were busy for "
        f"{summary['busy_seconds_per_accepted']} s of it (times their GPUs)"
        if costs.accepted
        else "no variant is accepted yet: the figures are totals"
    )
    for name, endpoint in summary["endpoints"].items():
        yield (
            f"endpoint {name}: {endpoint['calls']} calls, busy for {endpoint['busy_seconds']:.0f} s"
        )


def _cost_table(title: str, rows: dict[str, Spent], count: int) -> Iterator[str]:
    """Calls, tokens and seconds of each row, by `count`, the most called first."""
    if not rows:
        return
    yield f"{title:26} {'calls':>8} {'tokens in':>11} {'out':>8} {'seconds':>9}"
    row = "{:26} {calls:8.2f} {tokens_in:11.0f} {tokens_out:8.0f} {seconds:9.2f}"
    for name, spent in sorted(rows.items(), key=lambda item: -item[1].calls):
        yield row.format(name, **spent.per(count))
    yield ""
