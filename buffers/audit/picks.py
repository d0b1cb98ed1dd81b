"""Whether picks, variants and `finished` records name each other, and lineages keep to their rules."""

from __future__ import annotations

from collections.abc import Mapping

from buffers.audit.report import Report
from buffers.folds.pool import initial
from buffers.folds.staging import Staging
from buffers.log.records import Record
from buffers.log.tail import read
from buffers.run.run import Run
from rods.runfolder import EXPANDED, SEEDS


def check_picks(run: Run, staging: Staging, injected: Mapping[str, int], report: Report) -> None:
    """`injected`: variant → its seq in the expanded log, in the order of injection."""
    picked, finished = _read_seeds(run, report)
    written: dict[str, list[str]] = {}
    for candidate in staging.candidates(staging.seq, (), by_pick=False):
        if candidate.pick not in picked:
            report.problem(f"{EXPANDED}, record {candidate.seq}", f"belongs to {candidate.pick}, never picked")
        written.setdefault(candidate.pick, []).append(candidate.content.get("id", ""))
    for pick, record in finished.items():
        if sorted(record["accepted"]) != sorted(written.get(pick, [])):
            report.problem(f"{SEEDS}, record {record['seq']}", f"{pick}: accepted variants are not those expanded")
    report.count("picks", len(picked))
    report.count("variants", staging.seq)
    _check_lineages(run, staging, injected, picked, report)


def _read_seeds(run: Run, report: Report) -> tuple[dict[str, Record], dict[str, Record]]:
    picked: dict[str, Record] = {}
    finished: dict[str, Record] = {}
    considered: set[int] = set()
    for record in read(run.path / SEEDS):
        where = f"{SEEDS}, record {record['seq']}"
        if record["kind"] == "picked":
            if picked.setdefault(record["pick"], record) is not record:
                report.problem(where, f"pick {record['pick']} occurs twice")
        elif record["kind"] == "considered":
            if record["step"] in considered:
                report.problem(where, f"step {record['step']} was considered twice")
            considered.add(record["step"])
        elif record["kind"] == "finished":
            finished[record["pick"]] = record
            if record["pick"] not in picked:
                report.problem(where, f"finishes {record['pick']}, which was never picked")
    return picked, finished


def _check_lineages(
    run: Run, staging: Staging, injected: Mapping[str, int], picked: Mapping[str, Record], report: Report
) -> None:
    """A variant is one generation further than its seed, within the limit."""
    generations = {member.task_id: member.generation for member in initial(run)}
    limit = run.config.selection.max_generation
    for task_id, seq in injected.items():
        generation = staging.task(seq).provenance["generation"]
        pick = picked.get(staging.candidate(seq).pick)
        seed = generations.get(pick["task"]) if pick is not None else None
        if seed is not None and generation != seed + 1:
            report.problem(f"variant {task_id}", f"generation {generation}, but its seed's is {seed}")
        if generation > limit:
            report.problem(f"variant {task_id}", f"generation {generation} exceeds {limit}")
        generations[task_id] = generation
