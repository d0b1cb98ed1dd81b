"""Where a run stands while it moves, for `rods up` and `rods status --follow`: lines, or JSON for
scripts."""

import math
import re
import time

from rods.console.output import print_result
from rods.console.progress import Progress, ProgressSample

LINE_SECONDS = 5.0  # between lines
SILENT_SECONDS = 15.0  # after which a person is told that nothing is written


class LiveView:
    """Shows a run as `look` reads it, and what is said (`say`) between."""

    def __init__(self, progress: Progress, as_json: bool) -> None:
        self._progress = progress
        self._json = as_json
        self._last: object = None  # what was shown last, and when
        self._at = -LINE_SECONDS
        self._said: set[str] = set()  # what was said, up to the first digit: counts grow
        for note in progress.notes():
            self.say(f"note: {note}")
        self._barren = progress.barren()
        self._silence = ""  # the kind of reason for which nothing is written
        self._silent_from = 0.0  # when it is told; infinite once it was

    def look(self, *, finished: bool = False) -> ProgressSample:
        """Reads what is new and shows it where something has changed, at most once in
        `LINE_SECONDS`, and the last state; says once, each time that it begins, that seeds give no
        variants, or why nothing is written."""
        now = self._progress.poll(finished=finished)
        seen = (finished, now.standing()) if self._json else now.line()
        if seen != self._last and (finished or time.monotonic() - self._at >= LINE_SECONDS):
            self._last = seen
            self._at = time.monotonic()
            print_result(self._json, {"event": "progress", **vars(now)}, now.line())
        if (why := self._progress.barren()) and not self._barren:
            self.say(f"note: {why}")
        self._barren = why
        why = self._progress.unwritten()
        kind = why.partition(":")[0]
        if kind != self._silence:
            self._silence = kind
            patience = SILENT_SECONDS if kind.startswith("NOTHING") else 0.0
            self._silent_from = time.monotonic() + patience
        if why and time.monotonic() >= self._silent_from:
            self._silent_from = math.inf
            self.say(why)
        return now

    def say(self, text: str, *, again: bool = True) -> None:
        """Not `again`: unless it was said with other figures."""
        head = re.split(r"\d", text)[0]
        if head in self._said and not again:
            return
        self._said.add(head)
        print_result(self._json, {"event": "said", "text": text}, f"  {text}")
