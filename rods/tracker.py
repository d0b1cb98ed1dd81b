"""What the policy's own rollouts say about each task: windows of the last groups, and zones (004 §3.2).

Pure rules over closed `group` records; no clock, no disk. Statistics are computed from the window's values whenever
they are asked for, never updated: rewards that are counts are kept as exact integers, others summed by `math.fsum`, and
results are rounded to 12 decimals (DESIGN §5.2). Work is O(1) a group, memory O(known tasks).

A window belongs to (task, kind of reward, interface version). Groups scored by a format reward have windows but no
zone. All other groups are read as the *boundary reward* of the configuration, progress or binary success, whatever the
trainer trained on: every rollout reports both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from rods.config import Zones

DIGITS = 12
Zone = Literal["too_hard", "boundary", "mastered", "truncated"]
BoundaryReward = Literal["progress", "binary"]
FORMATS = frozenset({"format", "format_codes"})
# One group in a window. Its rewards in [0, 1] are value ÷ scale: for counts, sums and squares are integers below 2^53
# and the scale is the common denominator; for other rewards the scale is 1.
ENTRY = np.dtype([("step", "i4"), ("valid", "i4"), ("sum", "f8"), ("squares", "f8"), ("scale", "i8")])


@dataclass(frozen=True, slots=True)
class Window:
    """What a window says now. Moments are over valid rollouts, in [0, 1], rounded to 12 decimals."""

    task: str
    reward: str
    interface: str
    mean: float  # over all rollouts of the window's groups
    variance: float  # population variance inside a group, averaged over the window's groups: what a gradient sees
    count: int  # groups in the window
    groups: int  # groups ever counted
    zone: Zone | None  # by the latest group; None for format rewards
    last_step: int  # of the latest group that was counted or truncated
    trend: float  # mean of the latest group minus mean of the oldest one
    latest_mean: float
    latest_variance: float

    def as_json(self) -> dict[str, Any]:
        return {
            "reward": self.reward,
            "interface": self.interface,
            "mean": self.mean,
            "variance": self.variance,
            "count": self.count,
            "groups": self.groups,
            "zone": self.zone,
            "last_step": self.last_step,
            "trend": self.trend,
            "latest_mean": self.latest_mean,
            "latest_variance": self.latest_variance,
        }


@dataclass(frozen=True, slots=True)
class Standing:
    """What retirement reads of a task: its window's groups after some step. No group: moments are 0."""

    groups: int
    mean: float
    variance: float
    latest: Zone | None  # zone of the latest group after that step


class Tracker:
    """A fold of closed `group` records in the order of their steps."""

    def __init__(self, zones: Zones, reward: BoundaryReward = "progress") -> None:
        self.zones, self.reward = zones, reward
        self._rows: dict[tuple[str, str, str], int] = {}
        self._current: dict[str, int] = {}  # task → the row of its latest group with a zone
        self._last: dict[str, int] = {}  # task → step of its latest closed group, counted or not
        self._keys: list[tuple[str, str, str]] = []
        self._rings = np.zeros((64, zones.window), ENTRY)
        self._counted: list[int] = []
        self._truncated = bytearray()
        self._steps: list[int] = []

    def apply(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Folds records; all but those of kind `group` change nothing."""
        for record in records:
            if record["kind"] == "group":
                self._apply(record)

    @property
    def tasks(self) -> Iterator[str]:
        """All tasks that any closed group has named."""
        return iter(self._last)

    def last_step(self, task: str) -> int | None:
        """The step of the task's latest closed group, counted or not."""
        return self._last.get(task)

    def window(self, task: str) -> Window | None:
        """The window of the task's latest group that has a zone; None when there is none."""
        row = self._current.get(task)
        return None if row is None else self._window(row)

    def zone(self, task: str) -> Zone | None:
        """The same window's zone."""
        row = self._current.get(task)
        return None if row is None else self._zone(row, self._entries(row))

    def windows(self, task: str | None = None) -> Iterator[Window]:
        """All windows, in the order in which they were opened; of one task or of all."""
        for row, key in enumerate(self._keys):
            if task is None or key[0] == task:
                yield self._window(row)

    def standing(self, task: str, after: int) -> Standing:
        """What the groups of steps greater than `after` say, as far as the window holds them."""
        row = self._current.get(task)
        if row is None:
            return NOTHING
        entries = [entry for entry in self._entries(row) if entry[0] > after]
        zone = self._zone(row, entries) if self._steps[row] > after else None
        return Standing(len(entries), _mean(entries), _variance(entries), zone) if entries else Standing(0, 0, 0, zone)

    def _apply(self, record: Mapping[str, Any]) -> None:
        task, step = record["task"], record["step"]
        self._last[task] = step
        reward = record["reward"]
        kind: str = reward["kind"]
        valid = cut = 0
        total = squares = 0.0
        scale = 0
        rollouts = record["rollouts"]
        if kind in FORMATS:
            valid, cut, total, squares, scale = _others(rollouts, "format", reward["range"])
        else:
            kind = self.reward
            binary = kind == "binary"
            for rollout in rollouts:
                end = rollout["end"]
                if end == "finished" or end == "step_limit":
                    valid += 1
                    expected = 1 if binary else rollout["expected"]
                    if expected != scale:
                        if scale:
                            valid, cut, total, squares, scale = _uneven(rollouts)
                            break
                        scale = expected
                    value = rollout["binary"] if binary else rollout["resolved"]
                    total += value
                    squares += value * value
                elif end != "infrastructure":
                    cut += 1
        counted = 2 * valid >= len(rollouts)
        truncated = 2 * cut >= len(rollouts)
        if not counted and not truncated:
            return
        row = self._row((task, kind, record["interface"]))
        if kind not in FORMATS:
            self._current[task] = row
        self._truncated[row] = truncated
        self._steps[row] = step
        if counted:
            self._rings[row, self._counted[row] % self.zones.window] = (step, valid, total, squares, scale)
            self._counted[row] += 1

    def _row(self, key: tuple[str, str, str]) -> int:
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = len(self._keys)
            self._keys.append(key)
            self._counted.append(0)
            self._truncated.append(0)
            self._steps.append(0)
            if row == len(self._rings):
                self._rings = np.concatenate([self._rings, np.zeros_like(self._rings)])
        return row

    def _entries(self, row: int) -> list[tuple[int, int, float, float, int]]:
        """The groups of a window, oldest first."""
        count, size = self._counted[row], self.zones.window
        entries = self._rings[row].tolist()
        if count <= size:
            return list(entries[:count])
        start = count % size
        return list(entries[start:] + entries[:start])

    def _zone(self, row: int, entries: list[tuple[int, int, float, float, int]]) -> Zone | None:
        if self._keys[row][1] in FORMATS:
            return None
        if self._truncated[row]:
            return "truncated"
        return self.zone_of(_mean(entries[-1:])) if entries else None

    def zone_of(self, mean: float) -> Zone:
        """The zone of a mean reward that was rounded to 12 decimals. Both bounds belong to the boundary (004 B.1)."""
        if mean < self.zones.boundary_low:
            return "too_hard"
        return "boundary" if mean <= self.zones.boundary_high else "mastered"

    def _window(self, row: int) -> Window:
        task, reward, interface = self._keys[row]
        entries = self._entries(row)
        latest = _mean(entries[-1:])
        return Window(
            task,
            reward,
            interface,
            _mean(entries),
            _variance(entries),
            len(entries),
            self._counted[row],
            self._zone(row, entries),
            self._steps[row],
            round(latest - _mean(entries[:1]), DIGITS),
            latest,
            _variance(entries[-1:]),
        )


NOTHING = Standing(0, 0.0, 0.0, None)


def _mean(entries: list[tuple[int, int, float, float, int]]) -> float:
    """Over all rollouts of `entries`; 0 for none."""
    if not entries:
        return 0.0
    scale = entries[0][4]
    valid = sum(entry[1] for entry in entries)
    if all(entry[4] == scale for entry in entries):
        return round(math.fsum(entry[2] for entry in entries) / (valid * scale), DIGITS)
    return round(math.fsum(entry[2] / entry[4] for entry in entries) / valid, DIGITS)


def _variance(entries: list[tuple[int, int, float, float, int]]) -> float:
    """The population variance inside each group, averaged over groups; 0 for none."""
    if not entries:
        return 0.0
    inside = [(valid * squares - total * total) / (valid * scale) ** 2 for _, valid, total, squares, scale in entries]
    return max(0.0, round(math.fsum(inside) / len(inside), DIGITS))


def _others(rollouts: Any, field: str, bounds: Any) -> tuple[int, int, float, float, int]:
    """Rewards that are no counts, mapped from their range to [0, 1]."""
    low, high = bounds
    values, cut = [], 0
    for rollout in rollouts:
        if rollout["end"] in ("finished", "step_limit"):
            values.append((rollout[field] - low) / (high - low))
        elif rollout["end"] != "infrastructure":
            cut += 1
    return len(values), cut, math.fsum(values), math.fsum(value * value for value in values), 1


def _uneven(rollouts: Any) -> tuple[int, int, float, float, int]:
    """Progress when rollouts of one group expect different numbers of turns (only a foreign trainer writes such)."""
    valid = [rollout for rollout in rollouts if rollout["end"] in ("finished", "step_limit")]
    cut = sum(rollout["end"] not in ("finished", "step_limit", "infrastructure") for rollout in rollouts)
    scale = math.lcm(*(rollout["expected"] for rollout in valid))
    values = [int(Fraction(rollout["resolved"], rollout["expected"]) * scale) for rollout in valid]
    return len(valid), cut, float(sum(values)), float(sum(value * value for value in values)), scale
