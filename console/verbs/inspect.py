"""`rods inspect`: one task with its lineage, windows and history in a run; a list of all; what
variants cost."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from itertools import zip_longest
from typing import Annotated, Any

from cyclopts import Parameter

from rods.buffers.run.run import Run
from rods.buffers.usage import Costs, costs
from rods.calls import Call
from rods.commands import Json
from rods.console.follower import Follower
from rods.console.output import RunFolder, print_result
from rods.console.progress import InterfaceVersion
from rods.console.task_history import TaskHistory, task_episodes, task_history, task_list
from rods.conversations import Checks, Persona
from rods.errors import UserError
from rods.model_json import mapped
from rods.observations import Dynamics, shares
from rods.tasks import OpenTask, Task

RECENT = 10  # groups of a task whose labels are summed up turn by turn
Listed = Annotated[
    str | None,
    Parameter(
        help="A task's id, or enough of its first characters; variants or originals list these, "
        "none lists all."
    ),
]
Versions = Annotated[
    bool, Parameter(negative="", help="Show the versions of what the policy was shown, and why.")
]
Cost = Annotated[
    bool,
    Parameter(negative="", help="Show what variants cost in calls of language models, by stage."),
]
Episodes = Annotated[
    bool, Parameter(negative="", help="Show the episodes of the task that were kept (traces/).")
]
Step = Annotated[
    int | None, Parameter(help="With --episodes: of this step; by default the latest that has any.")
]
FOLDED = 2_000  # characters of a text that are shown


def inspect(
    run: RunFolder,
    task: Listed = None,
    /,
    *,
    interface: Versions = False,
    cost: Cost = False,
    episodes: Episodes = False,
    step: Step = None,
    as_json: Json = False,
) -> None:
    """Show one task: conversation, ground truth, what became of each turn, lineage from seed to
    variant, windows of rewards, and its history; or its episodes; or what the policy was shown,
    version by version; or calls, tokens and time for each accepted variant, with what failed and
    without.

    Without either list all tasks: id, type, zone, generation (0: an original), and whether it is
    active.
    """
    if (task is not None) + interface + cost > 1:
        remedy = f"`rods inspect {run} TASK`, or without a task one of --interface, --cost"
        raise UserError("one thing is shown at a time", where="rods inspect", remedy=remedy)
    if (episodes and task in (None, "variants", "originals")) or (
        step is not None and not episodes
    ):
        remedy = f"`rods inspect {run} TASK --episodes --step STEP`"
        raise UserError("episodes are those of one task", where="rods inspect", remedy=remedy)
    if cost:
        Run.open(run)
        spent = costs(run)
        print_result(as_json, spent.as_json(), cost_lines(spent))
    elif interface:
        with (follower := Follower(run)).whole():
            versions = follower.versions.shown
        lines = (line for version in versions for line in _version_lines(version))
        print_result(as_json, {"versions": list(map(asdict, versions))}, lines)
    elif task is None or task in ("variants", "originals"):
        every = task_list(run)
        listed = [
            known
            for known in every
            if task is None or (known["generation"] > 0) is (task == "variants")
        ]
        print_result(as_json, {"tasks": listed}, map(_list_line, listed))
    elif episodes:
        kept = task_episodes(Follower(run), task, step)
        print_result(as_json, kept, _episode_lines(kept))
    else:
        history = task_history(Follower(run), task)
        print_result(as_json, history.as_json(), _lines(history))


def _version_lines(version: InterfaceVersion) -> list[str]:
    lines = [f"step {version.step:<6} stage {version.stage}  {version.version}"]
    for sign, names in (("+", version.added), ("-", version.removed)):
        lines += [f"  {sign} {name}: {what}" for name, what in names.items()]
    if version.reason:
        lines.append(f"  {version.reason}")
    return lines


def _list_line(task: dict[str, Any]) -> str:
    now = "active" if task["active"] else "not active"
    return (
        f"{task['id']}  {task['type']:<12} {task['zone'] or 'no zone':<9} generation "
        f"{task['generation']}  {now}"
    )


def _lines(known: TaskHistory) -> list[str]:
    task = known.task
    made = "original" if len(known.lineage) == 1 and "seed" not in task.provenance else "variant"
    made = "drawn" if any(event["event"] == "drawn" for event in known.history) else made
    lines = [f"{task.id}  {task.type}, {made}, {task.split}, environment {task.environment.name}"]
    if world := known.environment:
        texts = {
            key: " ".join(value) if isinstance(value, list) else value
            for key, value in world["parameters"].items()
        }
        made = ", ".join(f"{key} {text}" for key, text in texts.items() if text)
        since = (
            f"; admitted by {world['by']}: {world['why'] or 'no reason given'}"
            if "by" in world
            else ""
        )
        lines.append(f"world     {made or 'of unknown kind'}; hash {world['hash']}{since}")
    if len(known.lineage) > 1:
        lines.append("lineage   " + " → ".join(ancestor.id for ancestor in known.lineage))
    if known.variants:
        lines.append("variants  " + ", ".join(known.variants))
    lines.append(f"tools     {', '.join(task.tools)}")
    lines += [f"system    {task.system}"] if task.system else []
    lines.append("")
    for turn, text in enumerate(task.texts):
        if turn in task.held_out:
            lines.append(f"turn {turn}  now available: {', '.join(task.held_out[turn])}")
        lines.append(f"turn {turn}  user: {text}")
        if isinstance(task, Task):
            lines += [
                f"        truth: {call}" for call in task.calls[turn] or ["no call is right here"]
            ]
        recent: Counter[str] = sum(
            (Counter(group["turns"][turn]) for group in known.labels[-RECENT:]), Counter()
        )
        if recent:
            lines.append(
                f"        {shares(recent)}; of {recent.total()} rollouts in its last groups"
            )
    went = sum((Dynamics(**group["went"]) for group in known.labels[-RECENT:]), Dynamics())
    if went.turns:
        lines.append(f"replies   {went.words()} in its last groups")
    if isinstance(task, OpenTask):
        lines += _open_lines(task)
    lines.append("")
    for window in known.windows:
        lines.append(
            f"window    {window.reward}: mean {window.mean:.3f}, variance {window.variance:.3f} "
            f"over {window.count} of "
            f"{window.groups} groups; zone {window.zone or 'none'}, last step {window.last_step}, "
            f"trend {window.trend:+.3f}"
        )
    for event in known.history:
        told = {key: value for key, value in event.items() if key not in ("step", "event")}
        brief = mapped(
            told, lambda value: float(f"{value:.4g}") if isinstance(value, float) else value
        )
        facts = ", ".join(f"{key} {value}" for key, value in brief.items())
        lines.append(f"step {event['step']:<5} {event['event']}" + (f" ({facts})" if facts else ""))
    if not known.windows and not known.history:
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


def _episode_lines(kept: dict[str, Any]) -> Iterator[str]:
    others = ", ".join(str(step) for step in kept["steps"] if step != kept["step"])
    yield f"{kept['task']}  step {kept['step']}" + (
        f" (there are episodes of steps {others}, too)" if others else ""
    )
    if not kept["episodes"]:
        yield "the file of this step cannot be read any more"
    for episode in kept["episodes"]:
        yield ""
        yield from _episode(episode)


def _episode(trace: dict[str, Any]) -> Iterator[str]:
    """What the policy wrote and called, turn by turn, what came back, and what it earned."""
    record = trace["rollout_record"]
    spans = iter(trace["spans"])
    reward = "no reward" if record["reward"] is None else f"reward {record['reward']:.3f}"
    advantage = (
        f", advantage {record['advantage']:+.3f}" if record.get("advantage") is not None else ""
    )
    tokens = (
        f", {sum(end - start for start, end in trace['spans'])} tokens" if trace["spans"] else ""
    )
    earned = (
        f"{trace['resolved']} of {trace['expected']}{' turns' if 'outcome' not in trace else ''}"
    )
    yield f"rollout {trace['rollout']}  {earned}, {reward}{advantage}, ended {trace['end']}{tokens}"
    labels = dict(enumerate(record.get("labels", ())))
    for number, turn in enumerate(trace["turns"]):
        label = f", {labels[number].replace('_', ' ')}" if number in labels else ""
        yield f"  turn {number}  {_verdict(turn['verdict'])}{label}"
        for step in turn["steps"]:
            start, end = next(spans, (0, 0))
            yield from _said(
                f"    policy{f' ({end - start} tokens)' if end else ''}: ", step["text"]
            )
            if step["error"]:
                yield from _said("      malformed: ", step["error"])
            # the last call may have none
            for call, result in zip_longest(step["calls"], step["results"]):
                yield from _said("      call    ", str(Call.from_json(call)))
                if result is not None:
                    yield from _said(
                        f"      {'error ' if result['error'] else 'result'}  ", result["text"]
                    )
    if outcome := trace.get("outcome"):
        for note in outcome["notes"]:
            yield from _said("  judged: ", note)


def _verdict(verdict: dict[str, bool] | None) -> str:
    if verdict is None:
        return "no verdict"
    if all(verdict.values()):
        return "resolved"
    wrong = " and ".join(name for name, right in verdict.items() if not right)
    return f"not resolved ({wrong} not as expected)"


def _said(head: str, text: str) -> Iterator[str]:
    """A text behind its head, its further lines under the first; of a long one the middle is left
    out."""
    if len(text) > FOLDED:
        half = FOLDED // 2
        text = (
            f"{text[:half]} … {len(text) - 2 * half:,} more characters (--json shows them) … "
            f"{text[-half:]}"
        )
    first, *rest = text.split("\n")
    yield head + first
    yield from (" " * len(head) + line for line in rest)


def cost_lines(costs: Costs) -> Iterator[str]:
    """The tables for people."""
    if costs.played:
        yield (
            f"{'models that play':26} {'calls':>8} {'failed':>8} {'tokens in':>11} {'out':>9} "
            f"{'seconds':>9}"
        )
        for role, spent in sorted(costs.played.items(), key=lambda item: -item[1].calls):
            tokens = f"{spent.tokens_in:11} {spent.tokens_out:9}"
            yield f"{role:26} {spent.calls:8} {spent.failed:8} {tokens} {spent.seconds:9.1f}"
        yield ""
    if not costs.stages:
        yield "no language model has written for this run"
        return
    yield f"{costs.accepted} variants accepted of {costs.variants} that calls were made for"
    yield ""
    yield f"{'':26}    for each accepted variant, failures included   |  on its own path"
    yield (
        f"{'stage':26} {'calls':>8} {'tokens in':>11} {'out':>8} {'seconds':>9}     | {'calls':>7} "
        f"{'tokens in':>11}"
    )
    every = "{:26} {calls:8.2f} {tokens_in:11.0f} {tokens_out:8.0f} {seconds:9.2f}     |"
    for stage, spent in sorted(costs.stages.items(), key=lambda item: -item[1].calls):
        path = costs.path.get(stage)
        own = (
            ""
            if path is None
            else " {calls:7.2f} {tokens_in:11.0f}".format_map(path.per(costs.accepted))
        )
        yield every.format(stage, **spent.per(costs.accepted or 1)) + own
    summary = costs.as_json()
    yield ""
    yield (
        f"{summary['calls_per_accepted']} calls for an accepted variant, "
        f"{summary['calls_on_the_path']} on its own "
        f"path; endpoints were busy for {summary['busy_seconds_per_accepted']} s of it (times "
        f"their GPUs)"
        if costs.accepted
        else "no variant is accepted yet: the figures are totals"
    )
    for name, endpoint in summary["endpoints"].items():
        yield (
            f"endpoint {name}: {endpoint['calls']} calls, busy for {endpoint['busy_seconds']:.0f} s"
        )
