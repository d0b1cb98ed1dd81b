"""The fold of observations.jsonl: attempts, live steps, the tracker.

Each start of the trainer is an *attempt* from some step on. A step is *closed* once its `step`
record is there, and *live* until a start goes back before it: folds leave it out from then on, but
nothing is deleted. `Observations` follows the log and folds anew when a start drops steps that it
has folded."""

import hashlib
import math
from collections.abc import Container, Iterator
from typing import Any

import orjson

from rods.buffers.folds.attempts import AttemptHistory, known_starts, last_of_live
from rods.buffers.folds.snapshots import KeptTail, Snapshots
from rods.buffers.log.record_bytes import Record, believed, group_of, misfit
from rods.buffers.run.run import Run
from rods.canonical import ID_DIGITS, JsonObject
from rods.config import Zones
from rods.observations import Group
from rods.rules.step_folds import Place, new_folds
from rods.rules.tracker import Tracker

DIGEST = ID_DIGITS // 2  # bytes
NO_DIGEST = bytes(DIGEST)  # of a step that is not there


class ClosedStep:
    """A live closed step: its closing record and the records of its groups in order of index."""

    def __init__(self, record: Record, records: list[Record]) -> None:
        self.record = record
        self.records = records
        self.attempt = int(record["attempt"])
        self.step = int(record["step"])
        self.epoch = int(record["epoch"])
        self.stage = int(records[0]["stage"]) if records else 1  # damage took all of its groups

    def counts(self, zones: Zones) -> bool:
        """Whether its weights were new enough for its groups to say something about a zone."""
        return self.step - 1 - int(self.record["policy_step"]) <= zones.max_staleness

    @property
    def groups(self) -> list[Group]:
        return [group_of(record) for record in self.records]


class Observations:
    """Follows a run's observations. What it knows covers the live steps that `steps` or `catch_up`
    have passed."""

    # what the live steps say about each task; another object after a rewind, as the folds are
    tracker: Tracker
    folds: JsonObject  # of extensions, by name (rods.rules.step_folds.StepFold)
    last_step: int  # live and closed; 0 before the first
    # live step → places of its epoch's order that it took, where not `training.batch_tasks`
    places: dict[int, int]
    # the latest live `update` record read: when a step is yielded, that of the step before
    update: Record | None
    rewound: bool  # whether the last look met a start that dropped steps
    starts: AttemptHistory
    tail: KeptTail
    _digests: bytearray  # of the live steps, one behind the other

    def __init__(
        self,
        run: Run,
        *,
        strict: bool = False,
        every_step: bool = True,
        recent: int = 0,
        keep: bool = False,
    ) -> None:
        """`strict`: damage is an error in every form (rods.buffers.log.tail.Tail). `every_step`:
        whether `steps` is to yield them from the first on; without it, a fold begins behind the
        latest snapshot that so many `recent` steps follow. `keep`: write snapshots, for the owner
        of the log."""
        self.run = run
        self._strict = strict
        self._every_step = every_step
        self._keep = keep
        self._recent = recent
        self._log = run.observations_log
        keys = {name: fold.key for name, fold in new_folds(run.config).items()}
        self._snapshots = Snapshots(
            self._log, [run.config.zones.model_dump(), run.config.selection.boundary, keys]
        )
        self._begin()

    def _begin(self) -> None:
        self.starts = AttemptHistory()
        self.rewound = False
        self._fold_anew()

    @property
    def attempt(self) -> int:
        """The latest attempt; 0 before the first start."""
        return self.starts.attempt

    def live(self, attempt: int, step: int) -> bool:
        """Whether `step` is closed, counts, and was made by `attempt`. Step 0 always is: nothing
        was done yet."""
        current = self.starts.limit(attempt - 1) < step and self.starts.keeps(attempt, step)
        return step == 0 or (current and self.digest(step) is not None)

    def digest(self, step: int) -> str | None:
        """What was reported at a live step (`digest` below); None for any other step."""
        mark = self._digests[(step - 1) * DIGEST : step * DIGEST] if step > 0 else NO_DIGEST
        return mark.hex() if mark and mark != NO_DIGEST else None

    def steps(self) -> Iterator[ClosedStep]:
        """Live steps that were closed since the last look, one by one as they are folded. The
        caller must exhaust it. After a rewind (`rewound`) all is folded anew, but steps that the
        caller has seen and that are still live are not yielded again."""
        self.rewound = False
        last_seen = 0.0  # of what is folded anew, the caller has seen the steps up to here
        while True:
            attempt = self.attempt
            for step in self._follow():
                if step is None:
                    self._fold_anew()
                    limit = self.starts.limit(attempt)
                    last_seen = min(last_seen, limit) if self.rewound else limit
                    self.rewound = True
                    break
                if step.step > last_seen:
                    yield step
            else:
                return

    def catch_up(self) -> None:
        """Folds what is new, for who looks at no step; RunState.steps would read merges too."""
        for _ in Observations.steps(self):
            pass

    def _follow(self) -> Iterator[ClosedStep | None]:
        """Folds what is new and yields it, and None when a start drops steps that were folded."""
        for record, groups in self.tail.groups():
            if record["kind"] == "start":
                if self.starts.add(record) and record["from_step"] < self.last_step:
                    yield None
            elif record["kind"] == "update" and self.starts.counts(record):
                self.update = record
            elif record["kind"] == "step" and self.starts.counts(record):
                if record["step"] > record["seq"]:  # each took a record at least
                    raise misfit(self._log.name, record, "its step is beyond what the log can hold")
                closed = ClosedStep(record, groups)
                with believed(groups):
                    self.tracker.apply(groups, closed.counts(self.tracker.zones))
                    for fold in self.folds.values():
                        fold.apply(record["step"], groups)
                self.last_step = record["step"]
                if "drawn" in record:
                    self.places[self.last_step] = record["drawn"]
                # lost to damage
                self._digests += NO_DIGEST * (self.last_step - 1 - len(self._digests) // DIGEST)
                self._digests += bytes.fromhex(record["digest"])
                yield closed

    def _fold_anew(self) -> None:
        self.update = None
        self.tracker = Tracker(self.run.config.zones, self.run.config.selection.boundary)
        self.folds = new_folds(self.run.config)
        self.last_step = 0
        self._digests = bytearray()
        self.places = {}
        self.tail = KeptTail(
            self._snapshots,
            None if self._every_step else self._restore,
            self.snapshot if self._keep else None,
            strict=self._strict,
        )
        if not self.tail.snapshot:
            # a log whose last record is of an attempt before its latest start is folded once more
            latest = last_of_live(self._log).get("attempt", math.inf)
            self.starts = known_starts(self._log, self.starts, latest=latest)

    def figures(self, place: Place) -> JsonObject:
        """What is said there of the features' folds."""
        folds = self.folds.values()
        return {name: value for fold in folds for name, value in fold.figures(place).items()}

    def snapshot(self) -> Any:
        """The whole fold as JSON, for `_restore`."""
        return [
            self.starts.as_json(),
            self.last_step,
            self._digests.hex(),
            self.tracker.snapshot(),
            {name: fold.state() for name, fold in self.folds.items()},
            [*self.places.items()],
        ]

    def _restore(self, kept: Any, parts: Container[str]) -> bool:
        """Takes a snapshot of the fold of these parts; False where a later start has dropped steps
        that it holds, or fewer than `recent` follow it."""
        starts, last_step, digests, tracker, folds, places = kept
        history = AttemptHistory.from_json(starts)
        before = history.attempt
        known_starts(self._log, history, parts)
        if history.limit(before) < last_step:
            return False
        if self._recent:
            last = last_of_live(self._log)
            if last.get("step", last.get("from_step", 0)) - last_step < self._recent:
                return False
        self.starts = history
        self.last_step = last_step
        self._digests = bytearray.fromhex(digests)
        self.places = dict(places)
        self.tracker.restore(tracker)
        for name, fold in self.folds.items():
            fold.load(folds[name])
        return True


def digest(epoch: int, policy_step: int, groups: list[JsonObject]) -> str:
    """What makes two reports of one step the same: 20 hex digits over everything reported."""
    report = orjson.dumps([epoch, policy_step, groups], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(report).hexdigest()[:ID_DIGITS]
