"""`rods ctl`: changes what may change while a run's processes are at work."""

import time
from typing import Annotated, Any

from cyclopts import Parameter

from rods.buffers.run.control import CONFIGURED, SETTINGS, AskedChanges, ask
from rods.buffers.run.heartbeat import local_time
from rods.buffers.run.locks import owner
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS, SEEDS, operation
from rods.buffers.state import RunState
from rods.commands import Json
from rods.console.output import RunFolder, print_result
from rods.errors import UserError

SHORT = {"pause": ("picking", "paused"), "resume": ("picking", "on")}
OWNED = {"trainer": OBSERVATIONS, "daemon": SEEDS}
WAIT = 3.0  # seconds for a process to take it up
LOOK = 0.05

What = Annotated[str | None, Parameter(help="pause, resume, or a setting; none lists what holds and what there is.")]
To = Annotated[str | None, Parameter(help="What it is set to; `configured`: what the configuration says.")]
Endpoint = Annotated[str, Parameter(help="With concurrency: at this endpoint alone.")]


def ctl(
    run: RunFolder, setting: What = None, value: To = None, /, *, endpoint: Endpoint = "", as_json: Json = False
) -> None:
    """Pause or resume picking, or set how much is done at once, what it may cost, what is logged: while processes work,
    and for later starts, until it is set otherwise. Waits a moment for them to take it up, and says whether they
    have."""
    opened = Run.open(run)
    if setting is None:
        _list(opened, as_json)
        return
    name, text = SHORT.get(setting, (setting, value))
    if name not in SETTINGS or (setting in SHORT) is (value is not None):
        remedy = f"`rods ctl {run} pause`, `resume`, or a setting and its value: {', '.join(SETTINGS)}"
        asked = " ".join(filter(None, (setting, value)))
        raise UserError(f"{asked!r} is nothing to set", where="rods ctl", remedy=remedy)
    made = ask(opened, name, SETTINGS[name].parsed(name, text or ""), endpoint)
    taken = {process: _taken_up(opened, process, made["number"]) for process in SETTINGS[name].processes}
    lines = [_line(made), *(f"  {process}: {_SAYS[state]}" for process, state in taken.items())]
    print_result(as_json, {"run": str(run), **_told(made), "processes": taken}, lines)


_SAYS = {
    "taken up": "has taken it up",
    "not yet": "has not taken it up yet; it will at its next look (the trainer looks between two steps)",
    "another trainer": "is not ours, and does not look; it holds for rods-train",
    "not running": "does not run; it holds from its next start",
}


def _list(run: Run, as_json: bool) -> None:
    asked = AskedChanges(run.path)
    asked.poll()
    held = [made for made in asked.holds.values() if made["value"] is not None]
    lines = [*(map(_line, held) if held else ["everything is as configured"]), "", "what can be set:"]
    for name, setting in SETTINGS.items():
        numbers = [] if setting.least is None else [f"{setting.least}…"]
        lines.append(f"  {name:12} {' | '.join([*numbers, *setting.words, CONFIGURED]):42} {setting.about}")
    print_result(as_json, {"run": str(run.path), "asked": list(map(_told, held)), "settings": list(SETTINGS)}, lines)


def _told(made: dict[str, Any]) -> dict[str, Any]:
    return {key: made[key] for key in ("setting", "endpoint", "value", "number", "by")} | {"since": made["time"]}


def _line(made: dict[str, Any]) -> str:
    endpoint = f" of {made['endpoint']}" if made["endpoint"] else ""
    value = CONFIGURED if made["value"] is None else made["value"]
    return f"{made['setting']}{endpoint}: {value}, since {local_time(made['time'])} by {made['by']}"


def _taken_up(run: Run, process: str, number: int) -> str:
    """Whether `process` has taken up the record of that number since its last start; waits for it while it runs."""
    holder = owner(run.path, OWNED[process])
    if holder is None:
        return "not running"
    if holder.process != process:
        return "another trainer"
    log, seen, deadline = RunState(run).follow(operation(process)), False, time.monotonic() + WAIT
    while True:
        for record in log.records():
            seen = (seen and record["kind"] != "started") or record.get("number") == number
        if seen or time.monotonic() > deadline:
            return "taken up" if seen else "not yet"
        time.sleep(LOOK)
