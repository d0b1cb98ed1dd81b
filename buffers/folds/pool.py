"""The folds of pool.jsonl (`Pool`: which tasks are trained on, and what has left) and of the
expanded log (`Staging`: accepted variants that no merge has decided about, the contents of all)."""

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from copy import copy
from dataclasses import field
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from rods.buffers.log.disk import sync_file
from rods.buffers.log.parts import LOOKS, Lookup, first_seq, segments
from rods.buffers.log.record_bytes import EPOCH_FIELDS, Record
from rods.buffers.log.tail import Tail
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED
from rods.canonical import JsonObject, frozen, only
from rods.deadlines import ARRIVAL
from rods.errors import InfrastructureError
from rods.rules.retirement import TOO_HARD
from rods.rules.tracker import Tracker
from rods.tasks import AnyTask, TaskType

LOOK = 0.1  # seconds between looks at what the daemon has written
# Of an `epoch` record: how far the merge has read other logs. The first closed record of an epoch
# number fixes it, also when a later start has dropped that record: the epoch merged again decides
# by the same.
FIXED = ("expanded_seq",)  # and the fields of extensions


class Member(NamedTuple):
    """A task of the pool. `epoch` admitted it; its groups of steps after `since` count for
    retirement; a variant stands at `seq` in the expanded log (0: given)."""

    task_id: str
    type: TaskType
    generation: int  # 0 for originals
    epoch: int = 0
    since: int = 0
    seq: int = 0

    @property
    def generated(self) -> bool:
        return self.generation > 0


@frozen
class Retired:
    """A variant that has left the pool: by which rule, in which epoch, after which step."""

    member: Member
    rule: str
    epoch: int
    step: int


class Opened(NamedTuple):
    """A live epoch in short; a run has many."""

    attempt: int
    step: int  # the last one before its merge
    stage: int


class Pool:
    """State after some `epoch` record."""

    def __init__(self, members: Iterable[Member]) -> None:
        self.active = {member.task_id: member for member in members}
        self.revivable: dict[str, Retired] = {}  # retired as too hard: what re-tests may bring back
        # every variant that ever was → its seq in the expanded log
        self.injected: dict[str, int] = {}
        self.decided: set[int] = set()  # seqs of the variants that were injected or refused
        self.epochs: list[Opened] = []  # by number
        self.latest: Record | None = None  # the last `epoch` record
        self.totals: Counter[str] = Counter()  # of the counts in those records

    def copy(self) -> "Pool":
        other = Pool(())
        vars(other).update((name, copy(value)) for name, value in vars(self).items())
        return other

    def snapshot(self) -> Any:
        """The whole fold as JSON, for `restored`."""
        revivable = [
            [*retired.member, retired.rule, retired.epoch, retired.step]
            for retired in self.revivable.values()
        ]
        return {
            "active": [list(member) for member in self.active.values()],
            "revivable": revivable,
            "injected": self.injected,
            "refused": sorted(self.decided.difference(self.injected.values())),
            "epochs": [list(opened) for opened in self.epochs],
            "latest": self.latest,
            "totals": self.totals,
        }

    @staticmethod
    def restored(state: Any) -> "Pool":
        """The pool whose `snapshot` it was."""
        pool = Pool(Member(*values) for values in state["active"])
        for *values, rule, epoch, step in state["revivable"]:
            pool.revivable[values[0]] = Retired(Member(*values), rule, epoch, step)
        pool.injected = state["injected"]
        pool.decided = {*state["injected"].values(), *state["refused"]}
        pool.epochs = [Opened(*values) for values in state["epochs"]]
        pool.latest = state["latest"]
        pool.totals = Counter(state["totals"])
        return pool

    @property
    def waiting(self) -> int:
        """The lowest seq of the expanded log about which merges may not have decided."""
        if self.latest is None:
            return 1
        deferred = self.latest["deferred"]
        return int(deferred["first"] if deferred["count"] else self.latest["expanded_seq"] + 1)

    @property
    def generated(self) -> list[Member]:
        """Active variants, by id."""
        return sorted(
            (member for member in self.active.values() if member.generated),
            key=lambda entry: entry.task_id,
        )

    @property
    def too_hard(self) -> list[Retired]:
        """What re-tests may bring back, by id."""
        return sorted(self.revivable.values(), key=lambda retired: retired.member.task_id)

    @property
    def retired(self) -> int:
        """How many have left and not come back."""
        return self.totals["retired"] - self.totals["revived"]

    def gone(self, task_id: str) -> bool:
        """Whether a variant has left for good: it will neither be trained on nor tried again."""
        return (
            task_id in self.injected
            and task_id not in self.active
            and task_id not in self.revivable
        )

    def apply(self, record: Record) -> None:
        """The effect of one record of a closed, live group."""
        kind = record["kind"]
        if kind == "injected":
            self.decided.add(record["expanded"])
            self.injected[record["task"]] = record["expanded"]
            values = (
                record[name] for name in ("task", "type", "generation", "epoch", "step", "expanded")
            )
            self.active[record["task"]] = Member(*values)
        elif kind == "refused":
            self.decided.add(record["expanded"])
        elif kind == "retired":
            member = self.active.pop(record["task"])
            if record["rule"] in TOO_HARD:
                self.revivable[member.task_id] = Retired(
                    member, record["rule"], record["epoch"], record["step"]
                )
        elif kind == "revived":
            retired = self.revivable.pop(record["task"])
            self.active[record["task"]] = retired.member._replace(
                epoch=record["epoch"], since=retired.step
            )
        elif kind == "epoch":
            self.epochs.append(Opened(record["attempt"], record["step"], record["stage"]))
            self.latest = record
            self.totals.update(record["counts"])


@frozen
class Candidate:
    """A variant that waits for a decision. Its task stays on the disk: a run may stage more than
    memory should hold."""

    seq: int
    pick: str
    step: int
    rank: int  # of the pick among those of its step
    index: int  # of the variant among those of its pick
    _log: Lookup = field(repr=False, compare=False)

    @property
    def content(self) -> Any:
        """The task as JSON, not yet believed; read from the log. Raises KeyError,
        CorruptLogError."""
        return self._log[self.seq]["task"]

    @property
    def task(self) -> AnyTask | None:
        """The same as a task; None where it is none, and a merge will refuse it."""
        with suppress(ValueError):
            return AnyTask.from_json(self.content)
        return None


class Staging:
    """Follows the expanded log. Its length is the number of variants that wait."""

    def __init__(
        self, folder: Path, *, strict: bool = False, newest: Callable[[], int | None] = lambda: None
    ) -> None:
        """`strict`, `newest`: as for a Tail."""
        self.path = folder / EXPANDED
        self.tail = Tail(self.path, strict=strict, newest=newest)
        self._log = Lookup(self.path)
        self._waiting: dict[int, Candidate] = {}
        self._begun = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def seq(self) -> int:
        """The highest seq below which no seq is missing among those read."""
        return self.tail.seq

    def poll(self, decided: Container[int] = (), waiting: int = 0) -> None:
        """Reads on. `decided`: seqs that do not wait any more, all below `waiting` among them, of
        which none is read by a first look."""
        if waiting and not self._begun:
            with suppress(FileNotFoundError):  # being renamed
                self.tail.begin_before(waiting)
        self._begun = True
        for record in self.tail.records():
            if record["seq"] not in decided:
                where = record["step"], record["rank"], record["index"]
                self._waiting[record["seq"]] = Candidate(
                    record["seq"], record["pick"], *where, self._log
                )

    def read_up_to(self, seq: int, decided: Container[int]) -> None:
        """Reads on until the record `seq`, which an earlier merge has read, is there. Raises
        InfrastructureError where it does not arrive."""
        deadline = time.monotonic() + ARRIVAL
        while self.seq < seq:
            if time.monotonic() > deadline:
                raise InfrastructureError(
                    f"{self.path}: an earlier merge read up to record {seq}, now they end at "
                    f"record {self.seq}"
                )
            time.sleep(LOOK)
            self.poll(decided)

    def sync_behind(self, named: int) -> None:
        """Makes durable what a merge will name: the parts that may hold more than the latest merge
        on record has named, whoever made it, which is all up to the record `named`."""
        for _ in range(LOOKS):
            with suppress(FileNotFoundError):  # the daemon has just closed a part: look again
                for part in reversed(segments(self.path)):
                    sync_file(part)
                    if (first := first_seq(part)) is not None and first <= named + 1:
                        break
                return
        raise InfrastructureError(f"{self.path}: its parts are being renamed all the time")

    def decide(self, seq: int) -> None:
        """A merge has injected or refused the variant at `seq`."""
        self._waiting.pop(seq, None)

    def candidates(self, upto: int, *, by_pick: bool) -> list[Candidate]:
        """What waits up to seq `upto`: in the order of the log, or of the picks."""
        waiting = [candidate for candidate in self._waiting.values() if candidate.seq <= upto]
        return (
            sorted(waiting, key=attrgetter("step", "index", "rank", "seq")) if by_pick else waiting
        )

    def task(self, seq: int) -> AnyTask:
        """The variant at `seq`, decided about or not, from the log. Raises KeyError when it is not
        there or was lost to damage, ValueError when it is no task."""
        return AnyTask.from_json(self._log[seq]["task"])


def initial(run: Run) -> list[Member]:
    """The members before epoch 0."""
    tasks = run.training.tasks
    return [*map(Member, tasks.ids, tasks.types, tasks.numbers("generation"))]


def fix(fixed: dict[int, Record], closing: Record) -> None:
    """Adds to `fixed` (epoch number → its FIXED fields) what the record `closing` says for the
    first time."""
    names = (*FIXED, *(name for names in EPOCH_FIELDS for name in names))
    fields = only(closing, names)
    fixed[closing["epoch"]] = fields | fixed.get(closing["epoch"], {})


def windows_json(tracker: Tracker, pool: Pool) -> dict[str, list[JsonObject]]:
    """The windows of every task that the tracker knows and that has not left for good; none for one
    whose groups never counted."""
    windows: dict[str, list[JsonObject]] = {
        task_id: [] for task_id in tracker.tasks if not pool.gone(task_id)
    }
    for window in tracker.windows():
        if window.task in windows:
            windows[window.task].append(window.as_json())
    return windows
