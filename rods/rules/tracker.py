"""Windows of each task's last groups: a fold of closed `group` records.

No clock, no disk. Statistics are computed from a window's groups whenever they are asked for, never
updated (rods/rules/zones.py). Work is O(1) a group, memory O(known tasks).

With `zones.probe = "window"` a task's zone and variance are read from all rollouts of its window
instead of its latest group: the probe of training with one or few rollouts a task, whose groups
have no variance to speak of (004 Appendix K).

A window belongs to (task, kind of reward, lineage of the interface); where a group names no
lineage, its interface's version is one (002 §3.3). Groups scored by a format reward have windows
but no zone. All others are read as progress (`resolved` and `expected`; `reward` is never read),
whatever the trainer trained on, but for `rubric` and `value`, which stand in the place of progress,
in windows of their own. With `selection.boundary = "binary"` (004 Appendix R) binary success has a
window, too, which alone has a zone; retirement reads progress all the same. Advantage estimates
that a trainer reports have a window, too (004 Appendix K)."""

import base64
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from operator import itemgetter
from typing import Any, Literal

from rods.canonical import JsonObject, frozen, rounded
from rods.config import Zones
from rods.faults import INVALID_ENDS
from rods.observations import FORMAT_REWARDS, Record
from rods.rules.zones import (
    BoundaryReward,
    Entry,
    Moments,
    TaskSignal,
    Zone,
    count_sums,
    counted_and_truncated,
    mean,
    plain_sums,
    pooled_variance,
    share_sums,
    variance,
    zone_of,
)

ENTRY = struct.Struct("<iiddq")  # step, valid, sum, squares, scale
SIZE = ENTRY.size
END = itemgetter("end")
ADVANTAGE = "advantage"  # the kind of the windows of advantage estimates
# the kinds of windows that stand in the place of progress
IN_PLACE = frozenset({"rubric", "value"})


@frozen
class Window:
    """The statistics of one window. Moments are over valid rollouts, rounded to 12 decimals, and
    but for those of advantages in [0, 1]."""

    task: str  #: the id of its task, by which tracker.json has it
    #: which kind of reward: groups without a format reward are read as `progress`, those of the
    #: kinds `rubric` and `value` as that; where `selection.boundary` is `binary` as that, too; so
    #: are advantages (`advantage`), where they are reported
    reward: str
    lineage: str  #: of the interface that its groups were shown
    mean: float  #: over all valid rollouts of the window's groups
    #: population variance inside a group, averaged over the window's groups: what a gradient sees;
    #: with `zones.probe = "window"` that of all its rollouts
    variance: float
    count: int  #: groups in the window, at most `zones.window`
    groups: int  #: groups ever counted
    #: by the latest group, or with `zones.probe = "window"` by all of the window; null where
    #: another reward finds the boundary
    zone: Zone | None
    last_step: int  #: of the latest group that was counted or truncated
    trend: float  #: mean of the latest group minus mean of the oldest one in the window
    latest_mean: float  #: of the latest counted group
    latest_variance: float  #: of the latest counted group
    #: highest mean of a group before the latest in the window; null where there is none
    best: float | None
    #: of the advantage estimates that the probe reads; absent where none are reported
    advantage_variance: float | None

    def signal(self, probe: Literal["group", "window"] = "group") -> TaskSignal:
        """What selection reads: the moments of the latest group, or those of all of the window's
        rollouts."""
        numbers = (
            (self.mean, self.variance)
            if probe == "window"
            else (self.latest_mean, self.latest_variance)
        )
        moments = Moments(*numbers) if self.count else None
        return TaskSignal(self.task, moments, self.zone == "truncated", self.advantage_variance)

    def as_json(self) -> JsonObject:
        record = {name: getattr(self, name) for name in REPORTED}
        if self.advantage_variance is None:
            del record["advantage_variance"]
        return record


REPORTED = [field.name for field in fields(Window)[1:]]  # all but the task


@frozen
class Standing:
    """What retirement reads of a task: the progress of its groups after a step, `groups` of which
    its window still has. `mean` and `variance` are over these (0 where there are none), `entries`
    has them, the latest last. `pooled`: a single one says nothing (`zones.probe`)."""

    groups: int
    mean: float
    variance: float
    latest: Zone | None  # zone after that step
    cut: int = 0  # the latest groups, in a row, that were truncated
    # whether groups after that step were also shown through an interface of another lineage
    switched: bool = False
    entries: tuple[Entry, ...] = ()
    pooled: bool = False
    forgotten: int = 0  # groups after that step that have left the window

    @property
    def counted(self) -> int:
        """All groups after that step."""
        return self.groups + self.forgotten

    def recent(self, groups: int) -> tuple[int, float]:
        """How many of the last `groups` groups there are, and their mean; of all where they are
        pooled."""
        if self.pooled:
            return self.groups, self.mean
        last = list(self.entries[-groups:])
        return len(last), mean(last)


@dataclass(slots=True, eq=False)
class _Row:
    """A window's ring buffer, and what its latest group was."""

    key: tuple[str, str, str]  # task, kind of reward, lineage of the interface
    ring: bytearray  # of the entries of its last groups
    counted: int = 0  # groups ever counted
    step: int = 0  # of the latest group that was counted or truncated
    cut: int = 0  # how many groups in a row, up to that one, were truncated
    retest: bool = False  # whether that one was a re-test
    before: int = 0  # groups counted before its latest re-tests, that is before it was retired

    def snapshot(self) -> list[Any]:
        ring = base64.b64encode(self.ring).decode()
        latest = (self.counted, self.step, self.cut, self.retest, self.before)
        return [*self.key, ring, *latest]

    @staticmethod
    def restored(values: list[Any]) -> "_Row":
        task, reward, lineage, ring, *latest = values
        return _Row((task, reward, lineage), bytearray(base64.b64decode(ring)), *latest)


class Tracker:
    """A fold of closed `group` records in the order of their steps."""

    def __init__(self, zones: Zones, reward: BoundaryReward = "progress") -> None:
        self.zones = zones
        self.reward = reward
        self._rows: dict[tuple[str, str, str], _Row] = {}
        self._lineages: dict[str, None] = {}  # of the interfaces seen so far
        self._current: dict[str, _Row] = {}  # task → the window of its latest group with a zone
        # task → that of the same group's progress
        self._progress = self._current if reward == "progress" else {}
        self._last: dict[str, int] = {}  # task → step of its latest closed group, counted or not
        self._zones: dict[str, Zone | None] = {}  # task → zone, kept until its next group

    def snapshot(self) -> Any:
        """The whole fold as JSON, for `restore`."""
        places = {key: place for place, key in enumerate(self._rows)}
        return {
            "rows": [row.snapshot() for row in self._rows.values()],
            "current": {task: places[row.key] for task, row in self._current.items()},
            "progress": {task: places[row.key] for task, row in self._progress.items()},
            "last": self._last,
        }

    def restore(self, state: Any) -> None:
        """Replaces the whole state by what `snapshot` returned for a tracker with the same
        rules."""
        rows = [_Row.restored(values) for values in state["rows"]]
        self._rows = {row.key: row for row in rows}
        self._lineages = {row.key[2]: None for row in rows}
        self._current.update((task, rows[place]) for task, place in state["current"].items())
        self._progress.update((task, rows[place]) for task, place in state["progress"].items())
        self._last = dict(state["last"])
        self._zones = {}

    def apply(self, records: Iterable[Record], counts: bool = True) -> None:
        """Folds records; all but those of kind `group` change nothing, nor do drawn tasks. Unless
        it `counts` (the weights were too old), a group says only that its task was met."""
        for record in records:
            if record["kind"] == "group" and record.get("role") != "drawn":
                self._apply(record, counts)

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
        if row is None:
            return None
        if task not in self._zones:
            self._zones[task] = self._zone(row, self._entries(row))
        return self._zones[task]

    def windows(self, task: str | None = None) -> Iterator[Window]:
        """All windows, in the order in which they were opened; of one task or of all."""
        for key, row in self._rows.items():
            if task is None or key[0] == task:
                yield self._window(row)

    def standing(self, task: str, after: int) -> Standing:
        """What the groups of steps greater than `after` say, as far as the window holds them."""
        row = self._current.get(task)
        if row is None:
            return Standing(0, 0.0, 0.0, None)
        entries = [entry for entry in self._entries(row) if entry[0] > after]
        met = row.step > after
        zone = self._zone(row, entries) if met else None
        cut = row.cut if met else 0
        progress = self._progress[task]
        if progress is not row:
            entries = [entry for entry in self._entries(progress) if entry[0] > after]
        whole = len(entries) == self.zones.window
        forgotten = max(0, progress.counted - progress.before - len(entries)) if whole else 0
        task, kind, lineage = row.key
        others = (
            self._rows.get((task, kind, other)) for other in self._lineages if other != lineage
        )
        switched = any(other is not None and other.step > after for other in others)
        if not entries:
            return Standing(0, 0, 0, zone, cut, switched)
        pooled = self.zones.probe == "window"
        return Standing(
            groups=len(entries),
            mean=mean(entries),
            variance=self._variance(entries),
            latest=zone,
            cut=cut,
            switched=switched,
            entries=tuple(entries),
            pooled=pooled,
            forgotten=forgotten,
        )

    def _apply(self, record: Record, counts: bool) -> None:
        """Written for speed: a start folds the whole history."""
        task = record["task"]
        step = record["step"]
        rollouts = record["rollouts"]
        self._last[task] = step
        self._zones.pop(task, None)
        if not counts:
            return
        kind = record["reward"]["kind"]
        retest = record.get("role") == "retest"
        if "advantage" in rollouts[0]:
            self._count_advantages(record)
        plain = plain_sums(rollouts)
        counted, truncated = (
            (True, False) if plain is not None else counted_and_truncated(list(map(END, rollouts)))
        )
        if not counted and not truncated:
            return
        progress = kind if kind in IN_PLACE else "progress"
        kinds = (progress,) if self.reward == "progress" else (self.reward, progress)
        for read_as in (kind,) if kind in FORMAT_REWARDS else kinds:
            key = task, read_as, _lineage(record)
            row = self._rows.get(key) or self._new_row(key)
            if read_as == kinds[0]:
                self._current[task] = row
            elif read_as == progress:
                self._progress[task] = row
            row.cut = row.cut + 1 if truncated else 0
            row.step = step
            if retest and not row.retest:
                row.before = row.counted
            row.retest = retest
            if plain is not None and read_as == progress:
                self._add(row, len(rollouts), plain)
            elif counted:
                self._count(row, record)

    def _count_advantages(self, record: Record) -> None:
        """The group's advantage estimates have a window of their own, which has no zone."""
        played = [rollout for rollout in record["rollouts"] if rollout["end"] not in INVALID_ENDS]
        estimates = [
            rollout["advantage"] for rollout in played if rollout.get("advantage") is not None
        ]
        counted, _ = counted_and_truncated(list(map(END, record["rollouts"])))
        if estimates and counted and record["reward"]["kind"] not in FORMAT_REWARDS:
            key = record["task"], ADVANTAGE, _lineage(record)
            row = self._rows.get(key) or self._new_row(key)
            row.step = record["step"]
            self._add(row, len(estimates), share_sums(estimates, 0, 1))

    def _count(self, row: _Row, record: Record) -> None:
        kind = row.key[1]
        played = [rollout for rollout in record["rollouts"] if rollout["end"] not in INVALID_ENDS]
        sums: tuple[float, float, int]
        if kind == "progress" or kind in IN_PLACE:
            sums = count_sums(
                [rollout["resolved"] for rollout in played],
                [rollout["expected"] for rollout in played],
            )
        elif kind == "binary":
            sums = count_sums([rollout["binary"] for rollout in played], [1] * len(played))
        elif kind in FORMAT_REWARDS:
            sums = share_sums((rollout["format"] for rollout in played), *record["reward"]["range"])
        else:
            raise ValueError(f"no window is kept of the reward {kind!r}")
        self._add(row, len(played), sums)

    def _add(self, row: _Row, valid: int, sums: tuple[float, float, int]) -> None:
        place = row.counted % self.zones.window
        row.counted += 1
        ENTRY.pack_into(row.ring, place * SIZE, row.step, valid, *sums)

    def _new_row(self, key: tuple[str, str, str]) -> _Row:
        row = self._rows[key] = _Row(key, bytearray(self.zones.window * SIZE))
        self._lineages[key[2]] = None
        return row

    def _entries(self, row: _Row) -> list[Entry]:
        """The groups of a window, oldest first."""
        entries: list[Entry] = list(ENTRY.iter_unpack(row.ring))
        start = row.counted % self.zones.window
        return (
            entries[: row.counted]
            if row.counted <= self.zones.window
            else entries[start:] + entries[:start]
        )

    def _zone(self, row: _Row, entries: list[Entry]) -> Zone | None:
        # only windows of the reward that finds the boundary have one
        if row.key[1] != self.reward and (row.key[1] not in IN_PLACE or self.reward != "progress"):
            return None
        if row.cut:
            return "truncated"
        probed = entries if self.zones.probe == "window" else entries[-1:]
        return zone_of(mean(probed), self.zones) if entries else None

    def _variance(self, entries: list[Entry]) -> float:
        return pooled_variance(entries) if self.zones.probe == "window" else variance(entries)

    def _window(self, row: _Row) -> Window:
        task, reward, lineage = row.key
        entries = self._entries(row)
        latest = mean(entries[-1:])
        best = max((mean([entry]) for entry in entries[:-1]), default=None)
        return Window(
            task=task,
            reward=reward,
            lineage=lineage,
            mean=mean(entries),
            variance=self._variance(entries),
            count=len(entries),
            groups=row.counted,
            zone=self._zone(row, entries),
            last_step=row.step,
            trend=rounded(latest - mean(entries[:1])),
            latest_mean=latest,
            latest_variance=variance(entries[-1:]),
            best=best,
            advantage_variance=self._advantage_variance(row),
        )

    def _advantage_variance(self, row: _Row) -> float | None:
        task, _, lineage = row.key
        estimates = self._rows.get((task, ADVANTAGE, lineage))
        if estimates is None or estimates is row or estimates.step != row.step:
            return None
        entries = self._entries(estimates)
        return self._variance(entries if self.zones.probe == "window" else entries[-1:])


def _lineage(record: Record) -> str:
    lineage: str = record.get("lineage") or record["interface"]
    return lineage
