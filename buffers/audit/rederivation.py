"""Derives a run's live history again from its logs, and keeps what does not fit: each live merge by
rods.buffers.merging.rules from the live observations before it, each step by those before it,
tracker.json by all."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from rods import interfaces
from rods.buffers.folds.observations import ClosedStep, Observations, digest
from rods.buffers.folds.pool import Pool, Staging, fix, initial, windows_json
from rods.buffers.folds.slot_sources import sources
from rods.buffers.log.record_bytes import STEP_FIELDS, Record
from rods.buffers.log.shapes import fault_of
from rods.buffers.log.tail import Tail
from rods.buffers.merging.merger import epoch_notes, merge_records, opened_by, recorded_slots
from rods.buffers.merging.rules import Admission
from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.canonical import JsonObject, without
from rods.files import BULK, read_regular
from rods.observations import Group
from rods.rules import order
from rods.rules.curriculum import stage_rules
from rods.rules.order import EpochSlot
from rods.rules.step_folds import closing_fields, new_folds

# Of a group record; the rest is reported.
ENVELOPE = frozenset({"seq", "id", "kind", "attempt", "step", "index", "crc"})
Merge = tuple[Record, list[Record]]  # its `epoch` record, and its decisions
TRACKER_FAULT = fault_of(
    {
        "version": "any",
        "step": "count",
        "epoch": "whole",
        "attempt": "count",
        "tasks": {"*": "object"},
    }
)


@dataclass
class Findings:
    """What a check of a run has looked at, and what does not fit."""

    run: str
    counts: dict[str, int] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # problems that a repair left, which was agreed to
    known: list[dict[str, str]] = field(
        default_factory=list
    )  # a field of the JSON of `rods verify`

    @property
    def ok(self) -> bool:
        return not self.problems

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def problem(self, where: str, what: str) -> None:
        self.problems.append({"where": where, "what": what})

    def set_apart(self, losses: Iterable[Record]) -> None:
        """Takes out of the problems those that `known` names by `where` and `what`."""
        pairs = {(record["where"], record["what"]) for record in losses}
        for problem in [
            problem for problem in self.problems if (problem["where"], problem["what"]) in pairs
        ]:
            self.problems.remove(problem)
            self.known.append(problem)

    def as_json(self) -> JsonObject:
        return {**asdict(self), "ok": self.ok}

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        yield f"{self.run}: " + ", ".join(
            f"{number} {what}" for what, number in self.counts.items()
        )
        yield from (f"  note: {note}" for note in self.notes)
        yield from (
            f"  known loss: {problem['where']}: {problem['what']}" for problem in self.known
        )
        yield from (f"  {problem['where']}: {problem['what']}" for problem in self.problems)
        agrees = (
            f"everything agrees but for {len(self.known)} known losses"
            if self.known
            else "everything agrees"
        )
        yield agrees if self.ok else f"{len(self.problems)} problem{'s' * (len(self.problems) > 1)}"


class Rederivation:
    """One pass over the live history: steps and merges in the order in which they happened."""

    def __init__(self, run: Run, findings: Findings) -> None:
        self.run = run
        self.findings = findings
        self.problem = findings.problem
        self.observations = Observations(run, strict=True)
        self.staging = Staging(run.path, strict=True)
        self.staging.poll()
        self.notes = epoch_notes(run, strict=True)
        for note in self.notes.values():
            note.poll()
        self.sources = [*sources(run, strict=True)]
        self.pool = Pool(initial(run))
        self.members: dict[int, frozenset[str]] = {}  # epoch → tasks of its slots
        self.slots: tuple[EpochSlot, ...] = ()  # of the latest epoch
        self.admission = Admission(run, self.pool.injected)
        # lost records of pool.jsonl that the rules give, by seq
        self.restored: dict[int, Record] = {}
        self.fixed: dict[int, Record] = {}
        self._previous = 0
        # of features, as they stood before the step that is looked at
        self._folds = new_folds(run.config)
        self._stored = _stored_tracker(run.path, findings)

    def walk(self) -> None:
        merges = deque(self._live_merges())
        self._merges_at(0, merges)
        for step in self.observations.steps():
            while merges and merges[0][0]["step"] < step.step:
                self._problem_merge(merges.popleft()[0], "its step is not in the log")
            self._check_step(step)
            self._compare_tracker(step.step)
            self._merges_at(step.step, merges)
        for closing, _ in merges:
            self._problem_merge(
                closing, f"names step {closing['step']}, which no live step record closes"
            )

    def _live_merges(self) -> Iterator[Merge]:
        """Those of live epochs, in order; notes what every epoch number fixed first."""
        for closing, decisions in Tail(self.run.path / runfolder.POOL, strict=True).groups():
            fix(self.fixed, closing)
            if self.observations.starts.counts(closing):
                yield closing, decisions
            else:
                self.findings.count("merges dropped by a later start")

    def _merges_at(self, step: int, merges: deque[Merge]) -> None:
        while merges and merges[0][0]["step"] == step:
            self._check_merge(*merges.popleft())
            self._compare_tracker(step)

    def _check_merge(self, closing: Record, decisions: list[Record]) -> None:
        if closing["epoch"] != len(self.pool.epochs):
            self._problem_merge(closing, f"follows epoch {len(self.pool.epochs) - 1}")
            return
        fixed = self.fixed[closing["epoch"]]
        if closing["expanded_seq"] != fixed["expanded_seq"]:
            self._problem_merge(
                closing, f"expanded_seq is not {fixed['expanded_seq']}, as first recorded"
            )
        if closing["expanded_seq"] > self.staging.seq:
            self._problem_merge(
                closing, f"read variants up to {closing['expanded_seq']}, {self.staging.seq} exist"
            )
        at = {name: closing[name] for name in ("attempt", "epoch", "stage", "step", "expanded_seq")}
        tracker = self.observations.tracker
        expected = merge_records(
            self.admission, self.pool, tracker, self.staging, self.notes, fixed, **at
        )
        decisions = self._with_lost(closing, decisions, expected[:-1])
        agrees = self._compare(
            closing, [_bare(record) for record in (*decisions, closing)], expected
        )
        for record in (*decisions, closing):
            try:
                self._follow(record, agrees)
            except (KeyError, ValueError) as error:
                self._problem_merge(
                    closing, f"{_short(_bare(record))} does not fit what came before ({error!r})"
                )
        if not agrees:  # from here on, what the log says counts
            injected = self.pool.injected
            variants = [
                injected[task]
                for task in (*self.pool.active, *self.pool.revivable)
                if task in injected
            ]
            self.admission = Admission(self.run, injected, map(self.staging.task, variants))
        self.slots = recorded_slots(self.run, self.pool)
        self.members[closing["epoch"]] = frozenset(slot.task_id for slot in self.slots)

    def _with_lost(
        self, closing: Record, decisions: list[Record], expected: list[Record]
    ) -> list[Record]:
        """Decisions from which records were lost, made whole: when what is left stands where the
        rules put it."""
        first = closing["first"]
        count = closing["seq"] - closing["first"]
        by_place = {record["seq"] - first: record for record in decisions}
        if len(decisions) == count or len(expected) != count:
            return decisions
        if any(_bare(record) != expected[place] for place, record in by_place.items()):
            return decisions
        self.restored |= {
            first + place: record for place, record in enumerate(expected) if place not in by_place
        }
        return [{"seq": first + place, **record} for place, record in enumerate(expected)]

    def _compare(self, closing: Record, records: list[Record], expected: list[Record]) -> bool:
        if records == expected:
            return True
        extra = [_short(entry) for entry in records if entry not in expected]
        missing = [_short(entry) for entry in expected if entry not in records]
        for what in extra:
            self._problem_merge(closing, f"says {what}, which the rules do not give")
        for what in missing:
            self._problem_merge(closing, f"lacks {what}, which the rules give")
        if not extra and len(records) == len(expected):
            self._problem_merge(closing, "has the right decisions in another order")
        return False

    def _follow(self, record: Record, derived: bool) -> None:
        """Takes a recorded decision, and holds the invariants against it. `derived`: the rules give
        the same."""
        kind = record["kind"]
        where = f"{runfolder.POOL}, record {record['seq']}"
        self.findings.count(kind if kind != "epoch" else "epochs")
        if kind == "injected":
            if record["task"] in self.pool.injected:
                self.problem(where, f"task {record['task']} is injected a second time")
            if not derived and self.staging.task(record["expanded"]).id != record["task"]:
                self.problem(
                    where, f"variant {record['expanded']} is another task than {record['task']}"
                )
        if kind == "retired" and not self.pool.active[record["task"]].generated:
            self.problem(where, f"original {record['task']} is retired")
        self.pool.apply(record)
        if "expanded" in record:
            self.staging.decide(record["expanded"])

    def _check_step(self, step: ClosedStep) -> None:
        self.findings.count("steps")
        self.findings.count("groups", len(step.records))
        where = f"step {step.step} of attempt {step.attempt}"
        if step.step != self._previous + 1:
            self.problem(where, f"follows step {self._previous}")
        self._previous = step.step
        if step.record["policy_step"] >= step.step:
            self.problem(where, f"was made by weights of step {step.record['policy_step']}")
        self._check_interface(step, where)
        contents = []
        groups = step.groups
        self._check_refill(step.step, groups, where)
        for index, (record, group) in enumerate(zip(step.records, groups, strict=True)):
            if (record["attempt"], record["step"], record["index"]) != (
                step.attempt,
                step.step,
                index,
            ):
                self.problem(where, f"record {record['seq']} is not its group {index}")
            source = next((source for slots, source in self.sources if index in slots), None)
            if self.sources and (group.role == "drawn") is (source is None):
                self.problem(where, f"group {index} has a task of the wrong source ({group.role})")
            elif source is not None:
                if issue := source.differs(step.step, index, group.task, self.observations):
                    self.problem(where, f"group {index} is of task {group.task}, and {issue}")
            elif group.task not in self.members.get(step.epoch, frozenset()):
                self.problem(where, f"task {group.task} was not in epoch {step.epoch}")
            contents.append(without(record, *ENVELOPE))
        if digest(step.epoch, step.record["policy_step"], contents) != step.record["digest"]:
            self.problem(where, "its digest does not fit its groups")

    def _check_refill(self, step: int, groups: list[Group], where: str) -> None:
        """Whether the groups behind a step's batch are of the tasks that the rules give, and what
        they replace is marked."""
        seed = self.run.config.random_seeds.order
        rounds = self.run.config.rollouts.refill
        size = self.run.config.training.batch_tasks if rounds else len(groups)
        if groups != order.with_replaced(groups, size):
            self.problem(where, "its groups that are replaced are not those that the rewards give")
        if rounds:
            tasks = [group.task for group in groups[size:]]
            self.findings.count("groups that refill", len(tasks))
            expected = refilled(seed, step, self.slots, groups, size, rounds)
            if tasks != expected:
                self.problem(
                    where, f"is refilled by {_tasks(tasks)}, and the rules give {_tasks(expected)}"
                )

    def _check_interface(self, step: ClosedStep, where: str) -> None:
        """Whether an interface that follows the run's records was shown in the version that those
        before it give, and what the step changes is on record."""
        config = self.run.config
        rules = stage_rules(self.run.config.curriculum, step.stage)
        if interfaces.follows_records(rules):
            self.findings.count("interface versions")
            opened = opened_by(self.notes, self.pool.latest or {})
            inputs = interfaces.next_inputs(self._folds, opened)
            interface = interfaces.load(rules, config.policy.dialect, inputs)
            for group in step.groups:
                if (group.interface, group.lineage) != (interface.version, interface.lineage):
                    version = f"{group.interface} (lineage {group.lineage or 'none'})"
                    self.problem(
                        where,
                        f"says that {version} was shown, and the labels give {interface.version}",
                    )
                    break
        expected = closing_fields(self._folds, step.records)
        for name in chain.from_iterable(STEP_FIELDS):
            if step.record.get(name) != expected.get(name):
                logged, derived = (
                    orjson.dumps(raw).decode()
                    for raw in (step.record.get(name), expected.get(name))
                )
                self.problem(where, f"says {name} {logged}, and the labels give {derived}")
        for fold in self._folds.values():
            fold.apply(step.step, step.records)

    def _compare_tracker(self, step: int) -> None:
        tracker = self._stored
        if tracker is None or (tracker["step"], tracker["epoch"]) != (
            step,
            len(self.pool.epochs) - 1,
        ):
            return
        if not self.observations.live(tracker["attempt"], step):
            return
        self._stored = None
        for name, value in self.observations.figures("status").items():
            if tracker.get(name) != value:
                self.problem(
                    runfolder.TRACKER, f"its {name} is not what the observations up to {step} say"
                )
        by_task = windows_json(self.observations.tracker, self.pool)
        for task_id, windows in by_task.items():
            if tracker["tasks"].get(task_id, {}).get("windows") != windows:
                self.problem(
                    runfolder.TRACKER, f"task {task_id}: not what the observations up to {step} say"
                )
        if extra := tracker["tasks"].keys() - by_task.keys():
            self.problem(
                runfolder.TRACKER,
                f"tasks that no step has named, or that left: {', '.join(sorted(extra)[:3])}",
            )

    def _problem_merge(self, closing: Record, what: str) -> None:
        self.problem(f"epoch {closing['epoch']} of attempt {closing['attempt']}", what)


def _stored_tracker(path: Path, findings: Findings) -> Any:
    """What tracker.json holds; None without one, and for one that is none, which is a problem."""
    try:
        tracker = orjson.loads(read_regular(path / runfolder.TRACKER, BULK))
    except FileNotFoundError:
        return None
    except ValueError as error:
        findings.problem(runfolder.TRACKER, f"is not JSON: {error}")
        return None
    if what := TRACKER_FAULT(tracker):
        findings.problem(runfolder.TRACKER, f"is no tracker ({what}): the next step writes it anew")
        return None
    if tracker["version"] != runfolder.TRACKER_VERSION:
        findings.notes.append(
            f"{runfolder.TRACKER} is of another version and was not compared; a trainer replaces it"
        )
        return None
    return tracker


def refilled(
    random_seed: int,
    step: int,
    slots: Sequence[order.EpochSlot],
    groups: Sequence[Group],
    size: int,
    rounds: int,
) -> list[str]:
    """The tasks that the rules give behind the first `size` of a recorded step's `groups`, in at
    most `rounds`."""
    tasks: list[str] = []
    for _ in range(rounds):
        before = groups[: size + len(tasks)]
        further = order.refilling(random_seed, step, slots, before, size)
        tasks += [slot.task_id for slot in further]
    return tasks


def _tasks(ids: list[str]) -> str:
    return f"tasks {', '.join(ids)}" if ids else "none"


def _bare(record: Record) -> Record:
    """Without what only the log gives it."""
    return without(record, "seq", "crc", "first")


def _short(record: Record) -> str:
    if record["kind"] == "epoch":
        return f"the closing record {orjson.dumps(record).decode()}"
    return f"{record['kind']} {record['task']} ({record.get('rule', 'in order')})"
