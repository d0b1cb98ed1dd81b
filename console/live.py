"""Shows the progress of `rods up`, as `console.progress` reads it from the run's files: a panel that redraws on a
terminal, plain lines elsewhere, JSON lines for scripts.
"""

from __future__ import annotations

import sys
import time
from abc import abstractmethod
from contextlib import ExitStack
from typing import Any, Self

from console.output import print_json
from console.progress import ProgressSample
from rods.errors import plain

LINE_SECONDS = 5.0  # between lines


class View(ExitStack):
    """Shows progress (`show`) and events (`say`); a context manager that restores the terminal."""

    @abstractmethod
    def show(self, now: ProgressSample) -> None: ...

    @abstractmethod
    def say(self, text: str) -> None: ...


def view(as_json: bool) -> View:
    """JSON lines if asked for, a panel where standard output is a terminal, plain lines elsewhere."""
    if as_json:
        return Lines(json=True)
    return Panel() if sys.stdout.isatty() else Lines()


class Lines(View):
    """A line every `LINE_SECONDS` while something changes, and one for the last state."""

    def __init__(self, json: bool = False) -> None:
        super().__init__()
        self.json = json
        self._last: object = None
        self._at = -LINE_SECONDS

    def show(self, now: ProgressSample) -> None:
        seen = now if self.json else now.line()
        due = time.monotonic() - self._at >= LINE_SECONDS
        if seen == self._last or not (due or now.finished):
            return
        self._last, self._at = seen, time.monotonic()
        if self.json:
            print_json({"event": "progress", **now.as_json()})
        else:
            print(seen)
        sys.stdout.flush()

    def say(self, text: str) -> None:
        if self.json:
            print_json({"event": "said", "text": text})
        else:
            print(f"  {plain(text)}")
        sys.stdout.flush()


class Panel(View):
    """A small table that redraws in place, with events scrolling above it."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False)
        self._live = Live(console=self._console, refresh_per_second=4, transient=False)

    def show(self, now: ProgressSample) -> None:
        self._live.update(panel(now))

    def say(self, text: str) -> None:
        self._live.console.print(f"  {plain(text)}", markup=False)

    def __enter__(self) -> Self:
        self.enter_context(self._live)
        return self


COLOURS = {"too_hard": "red", "boundary": "blue", "mastered": "green", "truncated": "bright_black"}


def panel(now: ProgressSample) -> Any:
    """A small table of where a run stands, and a bar."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", justify="right")
    table.add_column()
    if now.preparing:
        table.add_row("trainer", Text(now.preparing))
    else:
        table.add_row("step", Text(f"{now.step} of {now.steps}   epoch {now.epoch}   {now.pace()}"))
    reward = "–" if now.reward is None else f"{now.reward:.3f}   (last 10 steps {now.recent:.3f})"
    table.add_row("progress reward", Text(reward))
    zones = Text()
    for name, count in now.zones.items():
        if count:
            zones.append(f"{count} {name.replace('_', ' ')}   ", style=COLOURS[name])
    table.add_row("tasks per zone", zones if now.zones else Text("–"))
    table.add_row("pool", Text(f"{now.originals} originals + {now.generated} variants"))
    table.add_row(
        "variants",
        Text(
            f"{now.picked} seeds picked   {now.staged} staged   {now.injected} injected   {now.retired} retired"
            + (f"   {now.revived} revived" if now.revived else "")
        ),
    )
    bar = ProgressBar(total=max(1, now.steps), completed=now.step, width=60)
    return Group(Text(), table, bar)
