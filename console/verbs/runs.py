"""`rods ls` and `rods compare`: runs beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from console.output import estimated, print_json, print_lines
from console.progress import Progress
from console.runs import condition, find_runs
from rods.commands import Json
from rods.errors import RodsError

Runs = Annotated[list[Path] | None, Parameter(help="Run folders, and folders that hold some; runs/ by default.")]
Compared = Annotated[list[Path], Parameter(help="Run folders, and folders that hold some.")]


def ls(runs: Runs = None, /, *, as_json: Json = False) -> None:
    """List runs, the latest first: state, last step, reward over the last ten steps, pool, variants."""
    found = [_told(name, path) for name, path in find_runs(runs or [Path("runs")]).items()]
    if as_json:
        print_json({"runs": found})
    else:
        print_lines(_table(found) if found else ["there is no run → `rods new` makes one"])


def compare(runs: Compared, /, *, as_json: Json = False) -> None:
    """Put runs beside each other: as `rods ls`, and held-out progress at start and end with the paired difference
    (95 % intervals), where `rods score` has scored both."""
    from evaluation.heldout import scored

    found = [{**_told(name, path), "heldout": scored(path)} for name, path in find_runs(runs).items()]
    if as_json:
        print_json({"runs": found})
        return
    print_lines(_table(found))
    for one in found:
        if one["heldout"] is None:
            print_lines([f"{one['name']}: held-out tasks are not scored → rods score {one['run']}"])
        else:
            start, end, difference = (one["heldout"][name]["progress"] for name in ("start", "end", "difference"))
            told = f"held-out progress {estimated(start)} to {estimated(end)}, difference {estimated(difference, '+')}"
            print_lines([f"{one['name']}: {told}"])


def _told(name: str, path: Path) -> dict[str, Any]:
    """A run in figures; one that cannot be read says why in `condition`."""
    facts: dict[str, Any] = {"name": name, "run": str(path)}
    try:
        progress = Progress(path)
        now = progress.poll(daemon=False)
        life = progress.process("trainer")["life"]
    except RodsError as error:
        return {**facts, "condition": f"cannot be read: {error}"}
    return {
        **facts,
        "condition": condition(now.step, now.steps, life),
        "step": now.step,
        "steps": now.steps,
        "reward": now.recent if now.reward is not None else None,
        "originals": now.originals,
        "generated": now.generated,
        "injected": now.injected,
        "simulated": progress.run.config.policy.kind == "simulated",
    }


def _table(runs: list[dict[str, Any]]) -> Iterator[str]:
    wide = max(len(one["name"]) for one in runs)
    yield f"{'run':{wide}}  {'state':13}  {'step':>11}  reward  {'pool':>9}  injected"
    for one in runs:
        if "step" not in one:
            yield f"{one['name']:{wide}}  {one['condition']}"
            continue
        reward = "–" if one["reward"] is None else f"{one['reward']:.3f}"
        step, pool = f"{one['step']}/{one['steps']}", f"{one['originals']}+{one['generated']}"
        figures = f"{step:>11}  {reward:>6}  {pool:>9}  {one['injected']:8}"
        ending = "  simulated policy" if one["simulated"] else ""
        yield f"{one['name']:{wide}}  {one['condition']:13}  {figures}{ending}"
