"""`rods log`: what trainer and daemon have said."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from cyclopts import Parameter

from buffers.run.run import Run
from console.events import Events, event_line, matches
from console.output import RunFolder, print_json, print_lines
from rods.commands import Json

Level = Annotated[
    Literal["debug", "info", "warning", "error", "critical"] | None, Parameter(help="Show this level alone.")
]
Process = Annotated[Literal["trainer", "daemon"] | None, Parameter(help="Show this process alone.")]
Text = Annotated[str, Parameter(help="Show events that contain this, in capitals or not.")]
Follow = Annotated[bool, Parameter(negative="", help="Go on with what is said from now on, until Ctrl-C.")]
SECONDS = 0.5  # between looks


def log(
    run: RunFolder,
    /,
    *,
    level: Level = None,
    process: Process = None,
    text: Text = "",
    follow: Follow = False,
    as_json: Json = False,
) -> None:
    """Show the latest events of both processes in order of time: when, who, how grave, what, and its facts."""
    Run.open(run)
    events = Events(run)
    wanted = {"level": level or "", "process": process or "", "text": text}
    while True:
        found = [event for event in events.poll() if matches(event, wanted)]
        if as_json:
            for event in found:
                print_json(event)
        else:
            print_lines(map(event_line, found))
        if not follow:
            return
        time.sleep(SECONDS)
