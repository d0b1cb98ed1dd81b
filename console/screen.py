"""The screen of `rods watch`: what the page shows of a run, in characters, moved by keys.

A thread reads, at most twice a second, through the follower and the views of the page, so that keys never wait for a
disk. The main thread takes keys, and draws what has changed. The terminal is left as it was found, however it ends.
"""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.screen import Screen
from rich.text import Text

from console.dash import variants, views
from console.events import event_line
from console.follower import FRESH, Follower
from console.live import COLOURS, panel
from rods.errors import plain

BLINK = 0.25  # seconds between looks at the terminal's size
KEY = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|[^\x1b]")
TABS = ("run", "boundary", "pool", "funnel", "logs")
NEXT, BACK = ("\t", "\x1b[C", "\x1bOC", "l"), ("\x1b[Z", "\x1b[D", "\x1bOD", "h")
DOWN, UP = ("\x1b[B", "\x1bOB", "j"), ("\x1b[A", "\x1bOA", "k")
PAGE_DOWN, PAGE_UP = ("\x1b[6~", " "), ("\x1b[5~", "b")
BARS = "▁▂▃▄▅▆▇█"
HELP = "q quit   tab ← → or 1-5 view   ↑ ↓ or space b scroll"


class Reading(threading.Thread):
    """Keeps `content`, the lines of the view `tab`, up to date. `error` ends it, `changed` counts."""

    def __init__(self, one: Follower, size: Callable[[], tuple[int, int]]) -> None:
        super().__init__(daemon=True)
        self.one, self.size = one, size
        self.tab, self.title = 0, ""
        self.content: list[RenderableType] = [Text("reading…")]
        self.changed = 0
        self.error: Exception | None = None
        self.asked, self.stopped = threading.Event(), threading.Event()
        self._seen: object = None

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                self.asked.clear()
                self._look()
                self.asked.wait(FRESH)
        except Exception as error:  # noqa: BLE001 - shown by the main thread, which has the terminal
            self.error = error

    def _look(self) -> None:
        tab, size, at = self.tab, self.size(), self.one.positions()
        if (tab, size, at) == self._seen:
            return
        self._seen = tab, size, at
        told = views.status(self.one, {})
        self.title = f"{self.one.path.name}   {told['condition']}   step {told['step']} of {told['steps']}"
        if "reading" in at:
            self.title += f"   reading its history, {at['reading']} %"
        content = list(_VIEWS[TABS[tab]](self.one, told, size))
        if tab == self.tab:
            self.content = content
            self.changed += 1


def _run(one: Follower, told: dict[str, Any], size: tuple[int, int]) -> Iterator[RenderableType]:
    with one.fresh() as now:
        yield panel(now)
    yield Text()
    for name, facts in told["processes"].items():
        where = f", pid {facts['pid']} on {facts['host']}, {facts['state'] or 'no state'}" if facts["alive"] else ""
        yield _line(f"{name:8} {facts['life']}{where}")
        for endpoint in facts.get("endpoints", ()) if facts["alive"] else ():
            yield _line(f"{'':8} {endpoint['endpoint']}: {endpoint['in_flight']} calls of at most {endpoint['limit']}")
    if told["asked"]:
        yield _line(f"asked    {', '.join(told['asked'])} (rods ctl)")
    if len(rewards := one.steps["reward"][-(size[0] - 36) :]):
        yield _line(f"reward   {_curve(rewards)}  of the last {len(rewards)} steps")
    yield from (Text(plain(f"note     {note}")) for note in told["notes"])
    for event in told["errors"]:
        yield _line(event_line(event), "red" if event.get("level") != "warning" else "yellow")


def _curve(values: Any) -> str:
    """Numbers from 0 to 1 as a row of bars; a blank where there is none."""
    return "".join(BARS[min(7, int(8 * max(0.0, value)))] if value == value else " " for value in values.tolist())


def _boundary(one: Follower, told: dict[str, Any], size: tuple[int, int]) -> Iterator[RenderableType]:
    """A cell a mean reward (across, 0 to 1) and variance (up, 0 to 0.25): how many active tasks lie there."""
    found = views.boundary(one, {})
    wide, high = max(20, size[0] - 10), max(5, size[1] - 7)
    cells: dict[tuple[int, int], list[str]] = {}
    for _, mean, spread, zone, *_ in found["dots"]:
        if mean is not None and spread is not None:
            place = round(mean * (wide - 1)), round(min(spread, 0.25) * 4 * (high - 1))
            cells.setdefault(place, []).append(zone)
    bounds = [round(bound * (wide - 1)) for bound in found["bounds"]]
    yield _line(f"{found['active']} active tasks after step {found['step']}: variance up, mean reward across", "dim")
    for row in reversed(range(high)):
        line = Text(f"{0.25 * row / (high - 1):6.3f} ")
        for column in range(wide):
            if there := cells.get((column, row)):
                line.append(str(len(there)) if len(there) < 10 else "#", style=COLOURS[there[0]])
            else:
                line.append("|" if column in bounds else " ", style="dim")
        yield line
    yield Text(f"{'':7}0{'':{wide - 2}}1")
    zones = "   ".join(f"{count} {zone.replace('_', ' ')}" for zone, count in told["zones"].items())
    yield _line(f"{'':7}{zones}; bars: the boundary's limits", "dim")


def _pool(one: Follower, told: dict[str, Any], size: tuple[int, int]) -> Iterator[RenderableType]:
    found = variants.pool(one, {})
    counts = ", ".join(f"{count} {state}" for state, count in found["counts"].items()) or "none yet"
    yield _line(f"{found['total']} variants: {counts}; the latest first", "dim")
    yield _line(
        f"{'variant':8}  {'of seed':8}  {'picked':>6}  {'state':8}  {'mean':>5}  {'zone':9}  last decision", "bold"
    )
    for each in found["variants"]:
        mean = "–" if each["mean"] is None else f"{each['mean']:.3f}"
        zone = (each["zone"] or "–").replace("_", " ")
        last = each["events"][-1] if each["events"] else None
        decision = "" if last is None else f"{last['event']} {last['step']} {last['rule']}"
        names = f"{each['task'][:8]}  {each['seed'][:8]}  {each['picked']:6}  {each['state']:8}"
        yield _line(f"{names}  {mean:>5}  {zone:9}  {decision}")


def _funnel(one: Follower, told: dict[str, Any], size: tuple[int, int]) -> Iterator[RenderableType]:
    found = variants.funnel(one, {})
    yield _line(f"{found['picked']:6} seeds picked")
    yield from (_line(f"{count:6}   {name.replace('_', ' ')}") for name, count in found["outcomes"].items())
    yield _line(f"{found['accepted']:6} variants accepted")
    yield from (_line(f"{each['count']:6}   {each['event']} ({each['rule']})") for each in found["decisions"])
    if found["failures"]:
        yield _line("attempts that failed, and the latest of each", "bold")
    for each in found["failures"]:
        yield _line(f"{each['count']:6} {each['stage']}: {each['error']}")
        if "example" in each:
            yield _line(f"       {each['example']['evidence']}", "dim")


def _logs(one: Follower, told: dict[str, Any], size: tuple[int, int]) -> Iterator[RenderableType]:
    styles = {"warning": "yellow", "error": "red", "critical": "red"}
    for event in reversed(views.events(one, {})["events"]):
        yield _line(event_line(event), styles.get(str(event.get("level")), ""))


_VIEWS = dict(zip(TABS, (_run, _boundary, _pool, _funnel, _logs), strict=True))


def _line(text: str, style: str = "") -> Text:
    return Text(plain(text).replace("\n", " "), style=style, no_wrap=True, overflow="ellipsis")


def watch(one: Follower) -> None:
    """Until q is pressed. Raises what reading raises, once the terminal is as it was."""
    console = Console(highlight=False)
    reading = Reading(one, lambda: (console.width, console.height))
    reading.start()
    try:
        with _keys() as keys, console.screen():
            _show(console, reading, keys)
    finally:
        reading.stopped.set()
        reading.asked.set()
    if reading.error is not None:
        raise reading.error


def _show(console: Console, reading: Reading, keys: Callable[[], list[str]]) -> None:
    top, drawn = 0, None
    while reading.error is None:
        room = console.height - 3
        lines = len(reading.content)
        for key in keys():
            if key == "q":
                return
            tab = reading.tab
            if key in NEXT or key in BACK:
                tab = (tab + (1 if key in NEXT else -1)) % len(TABS)
            elif key.isdecimal() and 1 <= int(key) <= len(TABS):
                tab = int(key) - 1
            top += (key in DOWN) - (key in UP) + room * ((key in PAGE_DOWN) - (key in PAGE_UP))
            if tab != reading.tab:
                top, reading.tab = 0, tab
                reading.asked.set()
        top = max(0, min(top, lines - room))
        state = reading.changed, reading.tab, top, console.size
        if state != drawn:
            drawn = state
            console.control(Control.home())
            console.print(Screen(_frame(reading, top, room), application_mode=True), end="")


def _frame(reading: Reading, top: int, room: int) -> RenderableType:
    """The views, the run, and the keys, around what there is room for."""
    head = Text(no_wrap=True, overflow="crop")
    for number, name in enumerate(TABS):
        head.append(f" {number + 1} {name} ", style="reverse" if number == reading.tab else "")
    body = reading.content[top : top + room]
    return Group(_line(HELP, "dim"), head, _line(reading.title, "bold"), *body)


@contextmanager
def _keys() -> Iterator[Callable[[], list[str]]]:
    """A function that waits a moment for keys and gives those that were pressed; the terminal sends each at once, and
    shows none. Ctrl-C interrupts as ever; a stop (Ctrl-Z) is taken as no key, since it would leave the shell on this
    screen."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    rest = b""

    def pressed() -> list[str]:
        nonlocal rest
        if not select.select([terminal], [], [], BLINK)[0]:
            rest = b""  # an escape key alone
            return []
        data = os.read(terminal, 1024)
        if not data:  # the terminal has gone
            return ["q"]
        found = list(KEY.finditer(rest + data))
        rest = (rest + data)[found[-1].end() :] if found else rest + data
        return [each.group().decode(errors="replace") for each in found]

    try:
        tty.setcbreak(terminal)
        wanted = termios.tcgetattr(terminal)
        wanted[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(terminal, termios.TCSADRAIN, wanted)
        yield pressed
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
