"""tracker.json: what the tracker knows, for people and `jq` (DESIGN §4). A fold of the observations; it may be lost."""

from __future__ import annotations

import time
from typing import Any

import orjson

from buffers.folds.observations import Observations
from buffers.folds.pool import PoolView
from buffers.log.disk import replace
from buffers.run.run import Run
from rods.rules.tracker import Tracker
from rods.runfolder import TRACKER

VERSION = 1
EVERY = 10.0  # seconds between writes that nobody asked for
BUDGET = 0.005  # of the time may go into them


class TrackerStore:
    """Writes tracker.json: when it must, and otherwise as often as it may."""

    def __init__(self, run: Run) -> None:
        self.path = run.path / TRACKER
        self._due = time.monotonic()

    def write(self, observations: Observations, view: PoolView, *, force: bool) -> bool:
        """Returns whether the file was replaced."""
        started = time.monotonic()
        if not force and started < self._due:
            return False
        replace(self.path, orjson.dumps(content(observations, view)) + b"\n")
        ended = time.monotonic()
        self._due = ended + max(EVERY, (ended - started) / BUDGET)
        return True


def content(observations: Observations, view: PoolView) -> dict[str, Any]:
    """Every task that a live step has named and that has not left for good, with its windows."""
    tasks = {}
    for task_id, windows in windows_json(observations.tracker).items():
        member = view.active.get(task_id)
        gone = view.pool.revivable.get(task_id)
        if member is None and gone is not None:
            member = gone.member
        tasks[task_id] = {
            "type": member.type if member else None,
            "origin": None if member is None else "variant" if member.generated else "original",
            "active": gone is None and member is not None,
            "last_step": observations.tracker.last_step(task_id),
            "windows": windows,
        }
    return {
        "version": VERSION,
        "attempt": observations.attempt,
        "step": observations.last_step,
        "epoch": view.epoch,
        "tasks": tasks,
    }


def windows_json(tracker: Tracker) -> dict[str, list[dict[str, Any]]]:
    """The windows of every task that the tracker knows; none for one whose groups never counted."""
    found: dict[str, list[dict[str, Any]]] = {task_id: [] for task_id in tracker.tasks}
    for window in tracker.windows():
        found[window.task].append(window.as_json())
    return found
