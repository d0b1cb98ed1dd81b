"""`rods status`: where runs stand, from their files alone."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rods.buffers.run.heartbeat import local_time
from rods.buffers.run.runfolder import EVALUATION
from rods.canonical import JsonObject
from rods.commands import Json
from rods.console.events import GRAVE, PROCESSES, Events, event_line
from rods.console.live import LiveView
from rods.console.output import FoldersOfRuns, estimated, find_runs, holds_runs, print_result
from rods.console.progress import Progress
from rods.errors import RodsError, UserError

FEW = 3  # environments that are named on a line
SECONDS = 0.5  # between looks of who follows a run


def status(runs: FoldersOfRuns = None, /, *, follow: bool = False, as_json: Json = False) -> None:
    """Say where a run stands: progress, zones, pool, staging, and which processes live. Reads files
    only.

    Lists several runs, the latest first: state, last step, reward over the last ten steps, pool,
    variants; and held-out progress at start and end with the paired difference (95 % intervals),
    where `rods trainer score` has scored both.

    Args:
        follow: A line whenever it has moved, until it is finished.
    """
    if runs and len(runs) == 1 and not holds_runs(runs[0]):
        _stand(runs[0], follow, as_json)
        return
    if follow:
        raise UserError(
            "--follow is of one run", where="rods status", remedy="name its folder alone"
        )
    listed = [_run_facts(name, path) for name, path in find_runs(runs or [Path("runs")]).items()]
    none = "there is no run → `rods up RUN --config FILE` makes one"
    print_result(as_json, {"runs": listed}, _table(listed) if listed else none)


def _stand(run: Path, follow: bool, as_json: bool) -> None:
    progress = Progress(run)
    if follow:
        _follow(progress, as_json)
        return
    now = progress.poll()
    policy = progress.config.policy
    facts: JsonObject = {
        "policy": policy.kind,
        "model": policy.model,
        "environments": progress.run.environment_records(),
        "processes": {name: progress.process(name) for name in PROCESSES},
        "notes": progress.notes(),
    }
    print_result(
        as_json,
        {"run": str(run), **now.standing(), **facts},
        f"{run}: step {now.step} of {now.steps}, epoch {now.epoch}, stage {now.stage}, start "
        f"{now.attempt}",
        (
            f"  {line}"
            for name, process in facts["processes"].items()
            for line in _process_lines(name, process)
        ),
        f"  policy   {policy.kind} {policy.model}".rstrip(),
        f"  worlds   {_worlds(facts['environments'])}",
        (f"  {line}" for line in now.lines()),
        (f"  note     {note}" for note in facts["notes"]),
    )


def _worlds(environments: list[JsonObject]) -> str:
    """The line about environments: how many of which kind, by name where they are few."""
    kinds = [world["parameters"].get("kind") for world in environments]
    if len(environments) <= FEW:
        names = [
            f"{world['name']} ({kind or 'kind unknown'})"
            for world, kind in zip(environments, kinds, strict=True)
        ]
    else:
        names = [
            f"{count} {kind or 'of unknown kind'}" for kind, count in Counter(kinds).most_common()
        ]
    return ", ".join(names)


def _process_lines(name: str, facts: JsonObject) -> Iterator[str]:
    """Whether trainer or daemon lives, where, since when; of one that asks models what it tries,
    endpoints, budget."""
    yield f"{name:8} {_life(facts)}"
    if not facts["alive"]:
        return
    yield from (f"{'':8} {line}" for line in facts.get("trying", ()))
    for endpoint in facts.get("endpoints", ()):
        calls = f"{endpoint['in_flight']} calls in flight (of at most {endpoint['limit']})"
        down = (
            f", down for {endpoint['down_seconds']:.0f} s: {endpoint['why']}"
            if endpoint["why"]
            else ""
        )
        yield (
            f"{'':8} endpoint {endpoint['endpoint']}: {calls}, {endpoint['waiting']} waiting{down}"
        )
    budget = facts.get("budget", {})
    for kind in ("tokens", "requests"):
        if budget.get(kind) is not None:
            yield f"{'':8} budget: {budget[f'used_{kind}']:,} of {budget[kind]:,} {kind} used"


def _life(facts: JsonObject) -> str:
    life = facts["life"]
    state = f", {facts['state']}" if facts["state"] else ""
    if life == "never started":
        return "never started here"
    if life == "no heartbeat":
        return "not here; it has written its log, but left no heartbeat"
    job = f", job {facts['job']}" if facts["job"] else ""
    where = f"pid {facts['pid']} on {facts['host']}{job}"
    if facts["alive"]:
        stuck = f"; no progress for {facts['still']:.0f} s" if life == "stuck" else ""
        return f"{life} ({where}, since {local_time(facts['since'])}{state}{stuck})"
    at = local_time(facts["last_heartbeat"])
    if life == "stopped":
        return f"stopped (last sign of life {at})"
    return (
        f"dead: it ended without a word ({where}; last sign of life {at}{state}) → start the same "
        f"command again"
    )


def _follow(progress: Progress, as_json: bool) -> None:
    view = LiveView(progress, as_json)
    events = Events(progress.run.path)
    state = ""
    events.poll()  # what was said before is in logs/
    while state != "finished":
        now = view.look()
        for event in events.poll():
            if event.get("level") in GRAVE:
                view.say(event_line(event))
        if (seen := now.condition(progress.process("trainer")["life"])) != state:
            state = seen
            if state == "finished":
                view.look(finished=True)
            view.say(f"the run is {state}")
        time.sleep(SECONDS)


def _run_facts(name: str, path: Path) -> JsonObject:
    """A run in figures; one that cannot be read says why in `condition`."""
    facts = {"name": name, "run": str(path)}
    try:
        progress = Progress(path)
        now = progress.poll(daemon=False)
        state = now.condition(progress.process("trainer")["life"])
        heldout = None
        if any((path / EVALUATION).glob("heldout_*")):
            from rods.evaluation.heldout import scored  # scipy

            heldout = scored(path)
    except RodsError as error:
        return {**facts, "condition": f"cannot be read: {error}"}
    return {
        **facts,
        "condition": state,
        "step": now.step,
        "steps": now.steps,
        "reward": now.recent if now.reward is not None else None,
        **{figure: getattr(now, figure) for figure in ("originals", "generated", "injected")},
        "policy": progress.config.policy.kind,
        "model": progress.config.policy.model,
        "heldout": heldout,
    }


def _table(runs: list[JsonObject]) -> Iterator[str]:
    wide = max(len(run["name"]) for run in runs)
    yield f"{'run':{wide}}  {'state':13}  {'step':>11}  reward  {'pool':>9}  injected"
    for run in runs:
        if "step" not in run:
            yield f"{run['name']:{wide}}  {run['condition']}"
            continue
        reward = "–" if run["reward"] is None else f"{run['reward']:.3f}"
        step = f"{run['step']}/{run['steps']}"
        pool = f"{run['originals']}+{run['generated']}"
        figures = f"{step:>11}  {reward:>6}  {pool:>9}  {run['injected']:8}"
        ending = (
            f"  {run['policy']} policy {run['model']}"
            if run["policy"] in ("simulated", "external")
            else ""
        )
        yield f"{run['name']:{wide}}  {run['condition']:13}  {figures}{ending}".rstrip()
        if run["heldout"]:
            start, end, difference = (
                run["heldout"][name]["progress"] for name in ("start", "end", "difference")
            )
            held_out = (
                f"{estimated(start)} to {estimated(end)}, difference {estimated(difference, '+')}"
            )
            yield f"{'':{wide}}  held-out progress {held_out}"
