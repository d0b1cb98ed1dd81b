"""Where a run stands while it moves, for `rods up` and `rods watch`: a few lines that are redrawn in place where
standard output is a terminal, plain lines elsewhere, JSON lines for scripts.
"""

import os
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from rods.console.output import print_result
from rods.console.progress import Progress, ProgressSample
from rods.errors import plain

if TYPE_CHECKING:
    from rich.live import Live

LINE_SECONDS = 5.0  # between plain lines
DUMB = ("", "dumb", "unknown")  # values of TERM for terminals that cannot be drawn on


class LiveView(ExitStack):
    """Shows a run as `look` reads it, and what is said (`say`) above or between; a context manager that leaves the
    terminal as it was."""

    def __init__(self, progress: Progress, as_json: bool) -> None:
        super().__init__()
        self._progress, self._json = progress, as_json
        self._drawn: Live | None = None  # None: plain or JSON lines
        self._last: object = None  # of these, and when it was written
        self._at = -LINE_SECONDS
        self._barren = ""

    def __enter__(self) -> Self:
        if not self._json and sys.stdout.isatty() and os.environ.get("TERM", "") not in DUMB:
            from rich.console import Console
            from rich.live import Live

            self._drawn = self.enter_context(Live(console=Console(highlight=False), refresh_per_second=4))
        for note in self._progress.notes():
            self.say(f"note: {note}")
        self._barren = self._progress.barren()
        return self

    def look(self, *, finished: bool = False) -> ProgressSample:
        """Reads what is new and shows it, in lines where something has changed, at most one in `LINE_SECONDS`, and one
        for the last state; says once, each time that it begins, that seeds give no variants."""
        now = self._progress.poll(finished=finished)
        seen = (finished, now.standing()) if self._json else now.line()
        if self._drawn is not None:
            self._drawn.update(_panel(now))
        elif seen != self._last and (finished or time.monotonic() - self._at >= LINE_SECONDS):
            self._last, self._at = seen, time.monotonic()
            print_result(self._json, {"event": "progress", **vars(now)}, now.line())
            sys.stdout.flush()
        if (why := self._progress.barren()) and not self._barren:
            self.say(f"note: {why}")
        self._barren = why
        return now

    def say(self, text: str) -> None:
        if self._drawn is not None:
            self._drawn.console.print(f"  {plain(text)}", markup=False)
        else:
            print_result(self._json, {"event": "said", "text": text}, f"  {text}")
            sys.stdout.flush()


def _panel(now: ProgressSample) -> Any:
    """The lines of `rods status` about a sample, and a bar of its steps."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    head = f"trainer: {now.preparing}" if now.preparing else f"step {now.step} of {now.steps}, epoch {now.epoch}"
    lines = map(Text, map(plain, [f"{head}   {now.pace()}", *now.lines()]))
    return Group(Text(), *lines, ProgressBar(total=max(1, now.steps), completed=now.step, width=60))
