"""`rods verify`: derives every decision of a run again from its logs, and compares (DESIGN §4, §5).

Each live merge is derived anew from the live observations before it (buffers.audit.rederive). Besides: checksums, seqs
and ids of all logs, groups that are whole, picks, variants and lineages that fit together (buffers.audit.picks),
tracker.json and snapshots.
"""

from __future__ import annotations

from pathlib import Path

from buffers.audit.picks import check_picks
from buffers.audit.rederive import Rederivation
from buffers.audit.report import Report
from buffers.folds.observations import Observations
from buffers.folds.pool import PoolView
from buffers.log.parts import segments
from buffers.log.records import CLOSED_BY, CLOSING, KEYS, LOST, record_id
from buffers.log.tail import read, read_raw
from buffers.run.run import Run
from rods import runfolder
from rods.errors import CorruptLogError
from rods.gates import replay as ground_truth_faults

__all__ = ["Report", "verify"]
LOGS = (runfolder.OBSERVATIONS, runfolder.POOL, runfolder.SEEDS, runfolder.EXPANDED, runfolder.REJECTED)
SIZES = {"step": "groups", "considered": "picks"}  # closing kinds whose record says how many records it closes


def verify(path: Path, replay: bool = False) -> Report:
    """Checks the run at `path`; with `replay` also executes the ground truth of every injected variant. Raises
    UserError when the folder itself cannot be opened."""
    run = Run.open(path)
    report = Report(str(path))
    report.count("tasks", len(run.tasks))
    try:
        for log in LOGS:
            _check_records(run.path / log, report)
        history = Rederivation(run, report)
        history.walk()
        check_picks(run, history.staging, history.injected, report)
        _check_snapshot(run, report)
        if replay:
            for task_id, seq in history.injected.items():
                task = history.staging.task(seq)
                report.count("variants replayed")
                for fault in ground_truth_faults(run.environments.load(task.environment.name), task):
                    report.problem(f"variant {task_id}", str(fault))
    except CorruptLogError as error:
        report.problem("log", str(error))
    return report


def _check_records(path: Path, report: Report) -> None:
    """Checksums and seqs are checked by reading; here ids, and that groups are whole."""
    raw = lost = 0
    for record in read_raw(path):
        raw += 1
        kind = record["kind"]
        if kind == LOST:
            lost += 1
            report.problem(path.name, f"record {record['seq']} was lost to damage")
        if kind in KEYS and record["id"] != record_id(kind, record):
            report.problem(path.name, f"record {record['seq']} ({kind}) has an id that does not fit its key")
    members = 0
    counted = 0
    for record in read(path):
        counted += 1
        kind = record["kind"]
        if kind in CLOSING:
            if kind in SIZES and record[SIZES[kind]] != members:
                report.problem(path.name, f"record {record['seq']} closes {members} records, not {record[SIZES[kind]]}")
            members = 0
        elif kind in CLOSED_BY:
            members += 1
    report.count("records", raw)
    if void := raw - counted - lost:
        report.notes.append(f"{path.name}: {void} records of groups that were never closed (void)")
    for part in segments(path):
        for aside in sorted(part.parent.glob(f"{part.name}.torn.*")):
            report.notes.append(f"{aside.name}: a line cut short, moved aside")


def _check_snapshot(run: Run, report: Report) -> None:
    """The fold behind the latest snapshot comes to what the fold of everything does."""
    behind = Observations(run, strict=True, history=False)
    if not behind.snapshot:
        return
    report.count("snapshots")
    name = f"{runfolder.SNAPSHOTS}/observations.{behind.snapshot:012d}.json"
    whole = Observations(run, strict=True)
    for observations in (behind, whole):
        observations.catch_up()
        PoolView(run, observations, strict=True).poll()  # tells them what has left
    if behind.state() != whole.state():
        report.problem(name, "not what the closed parts say")
