"""`rods watch`: a run that is followed in the terminal."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from buffers.state import ClosedStep
from console.events import GRAVE, Events, event_line
from console.output import print_json
from console.progress import Progress
from console.runs import condition, find_runs
from rods.commands import Json
from rods.errors import UserError, plain

SECONDS = 0.5  # between looks
DUMB = ("", "dumb", "unknown")
Watched = Annotated[Path | None, Parameter(help="The run folder; by default the latest in runs/.")]


def watch(run: Watched = None, /, *, as_json: Json = False) -> None:
    """Follow a run in the terminal: progress, the boundary, the pool, the funnel, events; keys change the view, q ends
    it.

    Where there is no terminal, or one that cannot be drawn on (TERM=dumb), a line each step, merge and warning from now
    on, until the run is finished.
    """
    path = run if run is not None else _latest()
    drawn = os.environ.get("TERM", "") not in DUMB and sys.stdin.isatty() and sys.stdout.isatty()
    if as_json or not drawn:
        _Lines(path, as_json).follow()
        return
    from console import screen
    from console.follower import Follower

    screen.watch(Follower(path))


def _latest() -> Path:
    found = find_runs([Path("runs")]) if Path("runs").is_dir() else {}
    if not found:
        raise UserError("there is no run", where="runs", remedy="name its folder, or make one with `rods new`")
    return next(iter(found.values()))


class _Lines:
    """A line for where the run stands, then one for each step that is closed from now on, each merge, each grave event,
    and each change of the run's state."""

    def __init__(self, path: Path, as_json: bool) -> None:
        self.json = as_json
        self._steps: list[dict[str, object]] | None = None  # None: what was before is not told
        self.progress = Progress(path, self._see)
        self.events = Events(path)

    def follow(self) -> None:
        now, state = self.progress.poll(), ""
        epoch = now.epoch
        self.events.poll()
        self._say("progress", now.line(), **now.as_json())
        while True:
            life = self.progress.process("trainer")["life"]
            if (found := condition(self.progress.step, now.steps, life)) != state:
                state = found
                self._say("state", f"the run is {state}", state=state)
            if state == "finished":
                return
            time.sleep(SECONDS)
            self._steps = []
            now = self.progress.poll()
            for step in self._steps:
                self._say("step", "step {step}  epoch {epoch}  reward {shown}".format(**step), **step)
            if now.epoch != epoch:
                epoch = now.epoch
                pool = f"{now.originals} originals + {now.generated} variants"
                self._say(
                    "merge",
                    f"epoch {epoch} of {pool}; so far {now.injected} injected, {now.retired} retired",
                    **now.as_json(),
                )
            for event in self.events.poll():
                if event.get("level") in GRAVE:
                    self._say("log", event_line(event), **{"log": event})

    def _see(self, step: ClosedStep, reward: float | None) -> None:
        if self._steps is not None:
            shown = "–" if reward is None else f"{reward:.3f}"
            self._steps.append({"step": step.step, "epoch": step.epoch, "reward": reward, "shown": shown})

    def _say(self, event: str, text: str, **facts: object) -> None:
        if self.json:
            facts.pop("shown", None)
            print_json({"event": event, **facts})
        else:
            print(plain(text))
        sys.stdout.flush()
