"""Derives a run's live history again: every merge by buffers.merging.rules, from the live steps before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from buffers.folds.drawn import DrawnTasks
from buffers.folds.feedback import FeedbackFold
from buffers.folds.observations import ClosedStep, Observations, digest, windows_json
from buffers.folds.pool import Pool, initial, merges
from buffers.folds.staging import Staging
from buffers.log.records import Record
from buffers.log.tail import read
from buffers.merging.merger import (
    admitted_record,
    approved_in,
    epoch_record,
    feedback_record,
    group_records,
    recorded_slots,
)
from buffers.merging.rules import Admission, Derived, derive
from buffers.run import runfolder
from buffers.run.run import Run, admitted_of
from rods import interfaces
from rods.config import Component
from rods.files import read_regular
from rods.rules.curriculum import stage_rules

ENVELOPE = frozenset(
    {"seq", "id", "kind", "attempt", "step", "index", "crc"}
)  # of a group record: the rest is reported


@dataclass
class Findings:
    """What a check of a run has looked at, and what does not fit."""

    run: str
    counts: dict[str, int] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def problem(self, where: str, what: str) -> None:
        self.problems.append({"where": where, "what": what})

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "ok": self.ok,
            "counts": self.counts,
            "problems": self.problems,
            "notes": self.notes,
        }

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        yield f"{self.run}: " + ", ".join(f"{number} {what}" for what, number in self.counts.items())
        yield from (f"  note: {note}" for note in self.notes)
        yield from (f"  {problem['where']}: {problem['what']}" for problem in self.problems)
        found = len(self.problems)
        yield "everything agrees" if self.ok else f"{found} problem{'s' if found > 1 else ''}"


class Rederivation:
    """One pass over the live history: steps and merges in the order in which they happened."""

    def __init__(self, run: Run, findings: Findings) -> None:
        self.run, self.findings = run, findings
        self.observations = Observations(run, strict=True)
        self.staging = Staging(run.path, strict=True)
        self.staging.poll()
        self.feedback = FeedbackFold(run.path, strict=True)
        self.feedback.poll()
        self.drawn = DrawnTasks(run.path, strict=True)
        self.drawn.poll()
        self.pool = Pool(initial(run))
        self.members: dict[int, frozenset[str]] = {}  # epoch → tasks of its slots
        self.admission = Admission(run, self.pool.injected)
        self.restored: dict[int, Record] = {}  # lost records of pool.jsonl that the rules give, by seq
        self.fixed: dict[int, int] = {}
        self.feedback_fixed: dict[int, Record] = {}
        self.admitted_fixed: dict[int, int] = {}
        self._admitted = max((one["seq"] for one in admitted_of(run.path)), default=0)
        self._previous = 0
        self._shown: frozenset[Component] = frozenset()  # by the labels of the steps before
        self._stored = _stored_tracker(run.path, findings)

    def walk(self) -> None:
        merged = self._live_merges()
        due = self._merges_at(0, merged, 0)
        for step in self.observations.steps():
            if due < len(merged) and merged[due][-1]["step"] < step.step:
                self._problem_merge(merged[due][-1], "its step is not in the log")
                due += 1
            self._check_step(step)
            self._compare_tracker(step.step)
            due = self._merges_at(step.step, merged, due)
        for group in merged[due:]:
            self._problem_merge(group[-1], f"names step {group[-1]['step']}, which no live step record closes")

    def _live_merges(self) -> list[list[Record]]:
        """Closed groups of live epochs, in order; notes what every epoch number fixed first."""
        live: list[list[Record]] = []
        for group in merges(read(self.run.path / runfolder.POOL)):
            closing = group[-1]
            self.fixed.setdefault(closing["epoch"], closing["expanded_seq"])
            self.admitted_fixed.setdefault(closing["epoch"], closing.get("admissions", 0))
            if "feedback" in closing:
                self.feedback_fixed.setdefault(closing["epoch"], closing["feedback"])
            if self.observations.lineage.keeps(closing["attempt"], closing["step"]):
                live.append(group)
            else:
                self.findings.count("merges dropped by a later start")
        return live

    def _merges_at(self, step: int, merged: list[list[Record]], due: int) -> int:
        while due < len(merged) and merged[due][-1]["step"] == step:
            self._check_merge(merged[due])
            self._compare_tracker(step)
            due += 1
        return due

    def _check_merge(self, group: list[Record]) -> None:
        closing = group[-1]
        if closing["epoch"] != len(self.pool.epochs):
            self._problem_merge(closing, f"follows epoch {len(self.pool.epochs) - 1}")
            return
        if closing["expanded_seq"] != self.fixed[closing["epoch"]]:
            self._problem_merge(closing, f"expanded_seq is not {self.fixed[closing['epoch']]}, as first recorded")
        if closing["expanded_seq"] > self.staging.seq:
            self._problem_merge(closing, f"read variants up to {closing['expanded_seq']}, {self.staging.seq} exist")
        admitted = self.admitted_fixed[closing["epoch"]]
        if admitted > self._admitted:
            self._problem_merge(closing, f"read admissions up to {admitted}, {self._admitted} exist")
        self.admission.environments = self.run.named(admitted)
        derived = derive(
            self.run.config,
            self.pool,
            self.observations.tracker,
            self.staging.candidates(closing["expanded_seq"], by_pick=self.run.config.sync == "lockstep"),
            self.admission,
            epoch=closing["epoch"],
            stage=closing["stage"],
            step=closing["step"],
            expanded_seq=closing["expanded_seq"],
        )
        group = self._with_lost(group, derived)
        agreed = self._compare(group, derived)
        for record in group:
            try:
                self._follow(record, agreed)
            except (KeyError, ValueError) as error:
                self._problem_merge(closing, f"{_short(_bare(record))} does not fit what came before ({error!r})")
        if not agreed:  # from here on, what the log says counts
            injected = self.pool.injected
            left = [injected[one] for one in (*self.pool.active, *self.pool.revivable) if one in injected]
            self.admission = Admission(self.run, injected, map(self.staging.task, left))
        self.members[closing["epoch"]] = frozenset(slot.task_id for slot in recorded_slots(self.run, self.pool))

    def _with_lost(self, group: list[Record], derived: Derived) -> list[Record]:
        """A group from which records were lost, made whole: when what is left stands where the rules put it."""
        closing = group[-1]
        if closing["seq"] - closing["first"] == len(group) - 1:
            return group
        expected = group_records(closing["attempt"], derived.decisions)
        left = {record["seq"] - closing["first"]: record for record in group[:-1]}
        if len(expected) != closing["seq"] - closing["first"]:
            return group
        if any(_bare(record) != expected[place] for place, record in left.items()):
            return group
        for place, record in enumerate(expected):
            if place not in left:
                self.restored[closing["first"] + place] = record
        return [{"seq": closing["first"] + place, **record} for place, record in enumerate(expected)] + [closing]

    def _compare(self, group: list[Record], derived: Derived) -> bool:
        closing = group[-1]
        attempt = closing["attempt"]
        expected = [
            *group_records(attempt, derived.decisions),
            epoch_record(attempt, derived.epoch | self._feedback_in(closing) | self._admitted_in(closing)),
        ]
        said = [_bare(record) for record in group]
        if said == expected:
            return True
        for record in said:
            if record not in expected:
                self._problem_merge(closing, f"says {_short(record)}, which the rules do not give")
        for record in expected:
            if record not in said:
                self._problem_merge(closing, f"lacks {_short(record)}, which the rules give")
        if all(record in expected for record in said) and len(said) == len(expected):
            self._problem_merge(closing, "has the right decisions in another order")
        return False

    def _admitted_in(self, closing: Record) -> Record:
        return admitted_record(self.admitted_fixed[closing["epoch"]])

    def _feedback_in(self, closing: Record) -> Record:
        """What the closing record has to say of feedback: the version that the texts up to the seqs of the epoch's
        first record have."""
        if stage_rules(self.run.config.curriculum, closing["stage"]).feedback != "agents":
            return {}
        return feedback_record(self.feedback, self.run, self.feedback_fixed.get(closing["epoch"]))

    def _follow(self, record: Record, derived: bool) -> None:
        """Takes a recorded decision, and holds the invariants against it. `derived`: the rules give the same."""
        kind = record["kind"]
        where = f"{runfolder.POOL}, record {record['seq']}"
        self.findings.count(kind if kind != "epoch" else "epochs")
        if kind == "injected":
            if record["task"] in self.pool.injected:
                self.findings.problem(where, f"task {record['task']} is injected a second time")
            if not derived and self.staging.task(record["expanded"]).id != record["task"]:
                self.findings.problem(where, f"variant {record['expanded']} is another task than {record['task']}")
        if kind == "retired" and not self.pool.active[record["task"]].generated:
            self.findings.problem(where, f"original {record['task']} is retired")
        self.pool.apply(record)
        if "expanded" in record:
            self.staging.decide(record["expanded"])

    def _check_step(self, step: ClosedStep) -> None:
        self.findings.count("steps")
        self.findings.count("groups", len(step.records))
        where = f"step {step.step} of attempt {step.attempt}"
        if step.step != self._previous + 1:
            self.findings.problem(where, f"follows step {self._previous}")
        self._previous = step.step
        if step.record["policy_step"] >= step.step:
            self.findings.problem(where, f"was made by weights of step {step.record['policy_step']}")
        self._check_interface(step, where)
        reported = []
        for index, (record, group) in enumerate(zip(step.records, step.groups, strict=True)):
            if (record["attempt"], record["step"], record["index"]) != (step.attempt, step.step, index):
                self.findings.problem(where, f"record {record['seq']} is not its group {index}")
            drawn = group.role == "drawn"
            if self.run.config.source.drawn and drawn is not (index >= self.run.config.pool_slots):
                self.findings.problem(where, f"group {index} has a task of the wrong source ({group.role})")
            elif drawn:
                self._check_drawn(step.step, index, group.task, where)
            elif group.task not in self.members.get(step.epoch, frozenset()):
                self.findings.problem(where, f"task {group.task} was not in epoch {step.epoch}")
            reported.append({key: value for key, value in record.items() if key not in ENVELOPE})
        if digest(step.epoch, step.record["policy_step"], reported) != step.record["digest"]:
            self.findings.problem(where, "its digest does not fit its groups")

    def _check_drawn(self, step: int, slot: int, task_id: str, where: str) -> None:
        """Whether the task of a slot is the one that was drawn for it, at the difficulty of the steps before."""
        faced = self.observations.difficulty.faced
        assert faced is not None, "its own groups were folded"
        try:
            drawn = self.drawn.at((step, slot, faced.difficulty)).id
        except (KeyError, ValueError):
            drawn = "none"
        if drawn != task_id:
            told = f"at difficulty {faced.difficulty} {drawn} was drawn there"
            self.findings.problem(where, f"group {slot} is of task {task_id}, and {told}")

    def _check_interface(self, step: ClosedStep, where: str) -> None:
        """Whether an evolving interface was shown in the version that the labels before it give, with the texts that
        its epoch names, and its change is on record with the right reason."""
        evolution, config = self.observations.evolution, self.run.config
        rules = stage_rules(config.curriculum, step.stage)
        if rules.evolving or rules.feedback == "agents":
            self.findings.count("interface versions")
            approved = approved_in(self.feedback, self.run, self.pool.latest or {})
            shown = interfaces.load(rules, config.policy.dialect, self._shown, approved)
            for group in step.groups:
                if (group.interface, group.lineage) != (shown.version, shown.lineage):
                    said = f"{group.interface} (lineage {group.lineage or 'none'})"
                    self.findings.problem(where, f"says that {said} was shown, and the labels give {shown.version}")
                    break
        found = evolution.latest.as_json() if evolution.latest else None
        if step.record.get("evolved") != found:
            said = orjson.dumps(step.record.get("evolved")).decode()
            self.findings.problem(
                where, f"says {said} of its interface, and the labels give {orjson.dumps(found).decode()}"
            )
        self._shown = evolution.shown

    def _compare_tracker(self, step: int) -> None:
        stored = self._stored
        if stored is None or (stored["step"], stored["epoch"]) != (step, len(self.pool.epochs) - 1):
            return
        if not self.observations.live(stored["attempt"], step):
            return
        self._stored = None
        if self.run.config.source.drawn and stored.get("difficulty") != self.observations.difficulty.as_json():
            self.findings.problem(runfolder.TRACKER, f"its difficulty is not what the observations up to {step} say")
        known = windows_json(self.observations.tracker)
        for task_id in [one for one in known if self.pool.gone(one)]:
            del known[task_id]
        for task_id, windows in known.items():
            if stored["tasks"].get(task_id, {}).get("windows") != windows:
                self.findings.problem(runfolder.TRACKER, f"task {task_id}: not what the observations up to {step} say")
        if extra := stored["tasks"].keys() - known.keys():
            self.findings.problem(
                runfolder.TRACKER, f"tasks that no step has named, or that left: {', '.join(sorted(extra)[:3])}"
            )

    def _problem_merge(self, closing: Record, what: str) -> None:
        self.findings.problem(f"epoch {closing['epoch']} of attempt {closing['attempt']}", what)


def _stored_tracker(path: Path, findings: Findings) -> Any:
    """What tracker.json holds; None without one, and for one that is none, which is a problem."""
    try:
        found = orjson.loads(read_regular(path / runfolder.TRACKER))
    except FileNotFoundError:
        return None
    except ValueError as error:
        findings.problem(runfolder.TRACKER, f"is not JSON: {error}")
        return None
    kinds = {"step": int, "epoch": int, "attempt": int, "tasks": dict}
    if not isinstance(found, dict) or not all(isinstance(found.get(key), kind) for key, kind in kinds.items()):
        findings.problem(runfolder.TRACKER, "is no tracker: the next step of the trainer writes it anew")
        return None
    if found.get("version") != runfolder.TRACKER_VERSION:
        findings.notes.append(f"{runfolder.TRACKER} is of another version and was not compared; a trainer replaces it")
        return None
    if not all(isinstance(task, dict) for task in found["tasks"].values()):
        findings.problem(runfolder.TRACKER, "has tasks that are no objects")
        return None
    return found


def _bare(record: Record) -> Record:
    """Without what only the log gives it."""
    return {key: value for key, value in record.items() if key not in ("seq", "crc", "first")}


def _short(record: Record) -> str:
    if record["kind"] == "epoch":
        return f"the closing record {orjson.dumps(record).decode()}"
    return f"{record['kind']} {record['task']} ({record.get('rule', 'in order')})"
