"""`rods verify`: derives every decision of a run again from its logs, and compares.

Beside the live history (rods.buffers.audit.rederivation): checksums, seqs and ids of all logs,
groups that are whole, and picks, variants and generations that fit together.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import orjson

from rods.buffers.audit.rederivation import Findings, Rederivation
from rods.buffers.checkpoints import truncations
from rods.buffers.folds.observations import Observations
from rods.buffers.folds.pool import initial
from rods.buffers.log.parts import last_of, segments
from rods.buffers.log.record_bytes import (
    KEYS,
    KINDS,
    LOGS as ADDED,
    LOST,
    Record,
    group_of,
    record_id,
)
from rods.buffers.log.tail import Tail, read, read_raw
from rods.buffers.run import runfolder
from rods.buffers.run.creation import damaged
from rods.buffers.run.run import Run, extended_records
from rods.buffers.state import read_state
from rods.episode.diagnosis import diagnose
from rods.episode.engine import Trace
from rods.errors import CorruptLogError, UserError
from rods.extension import Door
from rods.faults import Reason
from rods.files import unpacked_lines
from rods.gates.ground_truth import open_kind, replay as ground_truth_faults
from rods.tasks import AnyTask, OpenTask, Task

# derives again what the feature alone has on record (true: with `replay`), and tells the findings
# what does not fit
AUDITS: Door[Callable[[Run, Findings, bool], None]] = Door("audits")
LOGS = (*runfolder.RECORDED, *(log for logs in ADDED.providers().values() for log in logs))


def logs(folder: Path) -> list[Path]:
    """Every log of the run, by the name of its live part."""
    names = {*LOGS}
    for pattern in (runfolder.usage("*"), runfolder.operation("*")):
        names |= {".".join([*path.name.split(".")[:2], "jsonl"]) for path in folder.glob(pattern)}
    return [folder / name for name in sorted(names) if segments(folder / name)]


def verify(path: Path, replay: bool = False) -> Findings:
    """Checks the run at `path`; with `replay` also executes the ground truth of every injected
    variant, holds rollouts against the traces that are kept of them, derives their labels again,
    and holds approved texts against the gates. Raises UserError when the folder itself cannot be
    opened."""
    run = Run.open(path, anew=True)
    findings = Findings(str(path))
    findings.count("tasks", len(run.tasks))
    try:
        for log in LOGS:
            _check_records(run.path / log, findings)
        for longer in extended_records(path):
            ends = f"{longer['steps']} steps, {len(longer['stages'])} stages"
            findings.notes.append(f"extended at step {longer['step']} to {ends}")
        for where, what in chain(truncations(run), damaged(run.manifest["environments"], run.path)):
            findings.problem(where, what)
        for audit in AUDITS.providers().values():
            audit(run, findings, replay)
        history = Rederivation(run, findings)
        history.walk()
        _check_picks(run, history.pool.injected, findings)
        if replay:
            for task_id, seq in history.pool.injected.items():
                task = history.staging.task(seq)
                for fault in _variant_faults(run, task, findings):
                    findings.problem(f"variant {task_id}", str(fault))
            _check_traces(run, findings)
    except CorruptLogError as error:
        findings.problem("log", str(error))
    return findings


def _variant_faults(run: Run, task: AnyTask, findings: Findings) -> Sequence[Reason]:
    """What is wrong with an injected variant when its ground truth, or what its kind knows of it,
    is run again. A world that somebody outside plays is not asked: it answers otherwise each
    time."""
    faults: Sequence[Reason] | None = None
    if isinstance(task, Task):
        faults = ground_truth_faults(run.environments.load(task.environment.name), task)
    elif (kind := open_kind(task)) is not None:
        faults = kind.replayed(run.environments.load(task.environment.name), task)
    findings.count(
        "variants replayed" if faults is not None else "variants that are not played again"
    )
    return faults or ()


def _check_traces(run: Run, findings: Findings) -> None:
    """The labels on record are those that the kept traces give; a group without labels claims
    nothing. Each rollout has earned what its trace says."""
    state = read_state(run)
    for step in Observations(run, strict=True).steps():
        file = run.trace_file(step.step, step.attempt)
        if not file.is_file():
            continue
        try:
            entries = map(orjson.loads, unpacked_lines(file))
            traces = [
                (entry["slot"], entry["rollout"], Trace.from_json(entry)) for entry in entries
            ]
        except (OSError, UserError, ValueError, KeyError, TypeError) as error:
            what = f"cannot be read, so its labels are not checked: {error}"
            findings.notes.append(f"{runfolder.TRACES}/{file.name} {what}")
            continue
        groups = step.groups
        for slot, rollout, trace in traces:
            if (
                slot >= len(groups)
                or rollout >= len(groups[slot].rollouts)
                or trace.task != groups[slot].task
            ):
                what = f"has a trace that is not rollout {rollout} of group {slot}"
                findings.problem(f"{runfolder.TRACES}/{file.name}", what)
                continue
            where = f"step {step.step} of attempt {step.attempt}, group {slot}, rollout {rollout}"
            task = state.task(trace.task)
            recorded = groups[slot].rollouts[rollout]
            if (recorded.resolved, recorded.expected) != (trace.resolved, trace.expected):
                findings.problem(
                    where,
                    f"it resolved {recorded.resolved} of {recorded.expected}, its trace "
                    f"{trace.resolved} of {trace.expected}",
                )
            if isinstance(task, OpenTask):
                findings.count("judged episodes")
            elif isinstance(task, Task) and any(played.labels for played in groups[slot].rollouts):
                derived = diagnose(trace, task, run.environments.load(task.environment.name))
                findings.count("rollouts diagnosed again")
                if derived != recorded.labels:
                    expected, actual = (
                        ", ".join(some) or "none" for some in (derived, recorded.labels)
                    )
                    what = f"its labels are {actual}, its trace gives {expected}"
                    origin = run.manifest.get("parameters", {}).get(task.environment.name, {})
                    if "goal" in origin:
                        findings.problem(where, what)
                    else:  # a run of before, when every look-up of the ground truth was due
                        findings.notes.append(f"{where}: {what}")


def _check_records(path: Path, findings: Findings) -> None:
    """Checksums, seqs and shapes are checked by reading; here ids, that groups are whole, and what
    rollouts earned."""
    raw = losses = counted = 0
    for record in read_raw(path):
        raw += 1
        kind = record["kind"]
        if kind == LOST:
            losses += 1
            findings.problem(path.name, f"record {record['seq']} was lost to damage")
        if kind in KEYS and record["id"] != record_id(kind, record):
            findings.problem(
                path.name, f"record {record['seq']} ({kind}) has an id that does not fit its key"
            )
    for record, members in Tail(path, strict=True).groups():
        counted += 1 + len(members)
        counts = KINDS.get(record["kind"], {}).get("counts")
        count = record[counts] if counts else len(members)
        if count != len(members):
            findings.problem(
                path.name, f"record {record['seq']} closes {len(members)} records, not {count}"
            )
        for member in members:
            try:
                if member["kind"] == "group":
                    group_of(member)
            except CorruptLogError as error:
                findings.problem(path.name, str(error))
    findings.count("records", raw)
    if void := raw - counted - losses:
        findings.notes.append(
            f"{path.name}: {void} records of groups that were never closed (void)"
        )
    for part in segments(path):
        for aside in sorted(part.parent.glob(f"{part.name}.torn.*")):
            findings.notes.append(f"{aside.name}: a line cut short, moved aside")


def _check_picks(run: Run, injected: Mapping[str, int], findings: Findings) -> None:
    """Whether picks, variants and `finished` records name each other, and generations keep to their
    rules. `injected`: variant → its seq in the expanded log, in the order of injection."""
    picks: dict[str, Record] = {}
    finished: dict[str, Record] = {}
    considered: set[int] = set()
    # A daemon that works beside this writes a pick, then its variants, then that it is finished. So
    # variants are read before picks, and what was finished after both looks began is not held to
    # them.
    begun = (last_of(run.path / runfolder.SEEDS) or {}).get("seq", 0)
    expanded = [
        (
            record["pick"],
            record["seq"],
            record["task"]["id"],
            record["task"].get("provenance", {}).get("generation", 0),
        )
        for record in read(run.path / runfolder.EXPANDED)
    ]
    for record in read(run.path / runfolder.SEEDS):
        where = f"{runfolder.SEEDS}, record {record['seq']}"
        pick = record.get("pick")
        if record["kind"] == "admitted":  # twice where the first was cut before its variant
            picks.setdefault(record["pick"], record)
        elif record["kind"] == "picked":
            if picks.setdefault(record["pick"], record) is not record:
                findings.problem(where, f"pick {pick} occurs twice")
        elif record["kind"] == "considered":
            if record["step"] in considered:
                findings.problem(where, f"step {record['step']} was considered twice")
            considered.add(record["step"])
        elif record["kind"] == "finished":
            if record["seq"] <= begun:
                finished[record["pick"]] = record
            if pick not in picks:
                findings.problem(where, f"finishes {pick}, which was never picked")
    tasks: dict[str, list[str]] = {}
    origins: dict[int, tuple[str, int]] = {}  # seq of the variant → its seed, its generation
    for pick, seq, task_id, generation in expanded:
        if pick not in picks:
            findings.problem(
                f"{runfolder.EXPANDED}, record {seq}", f"belongs to {pick}, never picked"
            )
        tasks.setdefault(pick, []).append(task_id)
        origins[seq] = picks.get(pick, {}).get("task", ""), generation
    for pick, record in finished.items():
        if sorted(record["accepted"]) != sorted(tasks.get(pick, [])):
            where = f"{runfolder.SEEDS}, record {record['seq']}"
            findings.problem(where, f"{pick}: accepted variants are not those expanded")
    findings.count("picks", len(picks))
    findings.count("variants", max(origins, default=0))
    generations = {member.task_id: member.generation for member in initial(run)}
    limit = run.config.selection.max_generation
    for task_id, seq in injected.items():
        # A variant is one generation further than its seed, within the limit.
        parent, generation = origins[seq]
        seed = generations.get(parent)
        if seed is not None and generation != seed + 1:
            findings.problem(
                f"variant {task_id}", f"generation {generation}, but its seed's is {seed}"
            )
        if 0 < limit < generation:
            findings.problem(f"variant {task_id}", f"generation {generation} exceeds {limit}")
        generations[task_id] = generation
