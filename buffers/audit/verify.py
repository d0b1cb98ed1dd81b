"""`rods verify`: derives every decision of a run again from its logs, and compares.

Each live merge is derived anew from the live observations before it (buffers.audit.rederive). Besides: checksums, seqs
and ids of all logs, groups that are whole, picks, variants and lineages that fit together, tracker.json and snapshots.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson

from buffers.audit.rederive import Findings, Rederivation
from buffers.ends import short_logs
from buffers.folds.drawn import Place
from buffers.folds.feedback import FeedbackFold
from buffers.folds.observations import ClosedStep, Observations
from buffers.folds.pool import initial
from buffers.log.parts import segments
from buffers.log.records import CLOSED_BY, CLOSING, KEYS, LOST, Record, record_id
from buffers.log.tail import read, read_raw
from buffers.run import runfolder
from buffers.run.run import Run, extensions_of
from buffers.run.world_files import damaged
from rods import dialects
from rods.conversations import Rubric
from rods.episode.diagnosis import diagnose
from rods.episode.drivers import played_again
from rods.episode.engine import Trace
from rods.errors import CorruptLogError
from rods.gates import replay as ground_truth_faults
from rods.gates.drawn import replayed_drawn
from rods.gates.feedback import GroundTruthValues, failing, feedback_faults
from rods.gates.records import Reason
from rods.interfaces.approved import failure_id
from rods.observations import Group
from rods.rules.curriculum import stage_rules
from rods.rules.difficulty import levels
from rods.simulation.generating import Wanted
from rods.simulation.verifying import unjudged
from rods.tasks import AnyTask, OpenTask, Task
from worlds.checking.scenarios import scenario_of
from worlds.checking.variants import replayed_scenario
from worlds.sources import generator

__all__ = ["Findings", "verify"]
LOGS = (
    runfolder.OBSERVATIONS,
    runfolder.POOL,
    runfolder.SEEDS,
    runfolder.EXPANDED,
    runfolder.REJECTED,
    runfolder.FEEDBACK,
    runfolder.DROPPED,
    runfolder.DRAWN,
    runfolder.EXTENSIONS,
    runfolder.ADMITTED,
    runfolder.CONTROL,
)
SIZES = {"step": "groups", "considered": "picks"}  # closing kinds whose record says how many records it closes


def verify(path: Path, replay: bool = False) -> Findings:
    """Checks the run at `path`; with `replay` also executes the ground truth of every injected variant, of the rollouts
    whose traces are kept derives the labels again, or plays those again that were judged as a whole, and holds approved
    texts against the gates. Raises UserError when the folder itself cannot be opened."""
    run = Run.open(path)
    findings = Findings(str(path))
    findings.count("tasks", len(run.tasks))
    try:
        for log in LOGS:
            _check_records(run.path / log, findings)
        for extension in extensions_of(path):
            ends = f"{extension['steps']} steps, {len(extension['stages'])} stages"
            findings.notes.append(f"extended at step {extension['step']} to {ends}")
        for short in short_logs(run):
            findings.problem(short.log, short.what)
        for where, what in damaged(run.named(), run.path):
            findings.problem(where, what)
        _check_feedback(run, findings, replay=replay)
        _check_drawn(run, findings, replay=replay)
        history = Rederivation(run, findings)
        history.walk()
        _check_picks(run, history.pool.injected, findings)
        _check_snapshot(run, findings)
        if replay:
            for task_id, seq in history.pool.injected.items():
                task = history.staging.task(seq)
                for fault in _variant_faults(run, task, findings):
                    findings.problem(f"variant {task_id}", str(fault))
            _check_traces(run, history, findings)
    except CorruptLogError as error:
        findings.problem("log", str(error))
    return findings


def _variant_faults(run: Run, task: AnyTask, findings: Findings) -> Sequence[Reason]:
    """What is wrong with an injected variant when its ground truth, its scenario with all controls, or its witness
    conversation, is run again. A world that somebody outside plays is not asked: it answers otherwise each time."""
    environment = run.environments.load(task.environment.name)
    if isinstance(task, Task):
        findings.count("variants replayed")
        return ground_truth_faults(environment, task)
    assert isinstance(task, OpenTask)
    if scenario_of(task) is not None:
        findings.count("variants replayed")
        return replayed_scenario(environment, task)
    job = run.episode(task)
    if job.waits or not environment.features.deterministic:
        findings.count("variants that are not played again")
        return ()
    findings.count("variants replayed")
    return replayed_drawn(environment, task, job)


def _check_traces(run: Run, history: Rederivation, findings: Findings) -> None:
    """The labels on record are those that the kept traces give; a group without labels claims nothing. An episode that
    was judged as a whole is played again from its replies, and comes to what it did."""
    tasks: dict[str, AnyTask] = {task.id: task for task in run.tasks}
    for step in Observations(run, strict=True).steps():
        file = runfolder.trace_file(run.path, step.step, step.attempt)
        if not file.is_file():
            continue
        try:
            kept = [orjson.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
            traces = [(one["slot"], one["rollout"], Trace.from_json(one)) for one in kept]
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
            findings.notes.append(
                f"{runfolder.TRACES}/{file.name} cannot be read, so its labels are not checked: {error}"
            )
            continue
        groups = step.groups
        for slot, rollout, trace in traces:
            if slot >= len(groups) or rollout >= len(groups[slot].rollouts) or trace.task != groups[slot].task:
                findings.problem(
                    f"{runfolder.TRACES}/{file.name}", f"has a trace that is not rollout {rollout} of group {slot}"
                )
                continue
            if trace.task in history.pool.injected:
                tasks.setdefault(trace.task, history.staging.task(history.pool.injected[trace.task]))
            drawn = groups[slot].role == "drawn"
            task = history.drawn.task(trace.task) if drawn else tasks[trace.task]
            if isinstance(task, OpenTask):
                where = f"step {step.step} of attempt {step.attempt}, group {slot}, rollout {rollout}"
                for problem in _differs(run, task, step, groups[slot], rollout, trace):
                    findings.problem(where, problem)
                findings.count("episodes played again")
                continue
            if not isinstance(task, Task) or not any(one.labels for one in groups[slot].rollouts):
                continue
            derived = diagnose(trace, task, run.environments.load(task.environment.name))
            findings.count("rollouts diagnosed again")
            if derived != groups[slot].rollouts[rollout].labels:
                findings.problem(
                    f"step {step.step} of attempt {step.attempt}, group {slot}, rollout {rollout}",
                    f"its labels are {', '.join(groups[slot].rollouts[rollout].labels) or 'none'}, its trace gives "
                    f"{', '.join(derived) or 'none'}",
                )


def _differs(run: Run, task: OpenTask, step: ClosedStep, group: Group, rollout: int, trace: Trace) -> Iterator[str]:
    """How an episode that is played again from its replies differs from its trace, and this from its record. What an
    interface has shown is not compared; a world that answers otherwise each time is not asked."""
    recorded = group.rollouts[rollout]
    if (recorded.resolved, recorded.expected) != (trace.resolved, trace.expected):
        yield f"it resolved {recorded.resolved} of {recorded.expected}, its trace {trace.resolved} of {trace.expected}"
    environment = run.environments.load(task.environment.name)
    if trace.end == "infrastructure" or not environment.features.deterministic:
        return
    by_rule = isinstance(task.goal, Rubric) and run.config.simulation.verifier == "procedural"
    if by_rule and isinstance(task.goal, Rubric) and unjudged(task.goal):
        return  # a trainer of one's own has judged it
    dialect = dialects.load(run.config.policy.dialect, stage_rules(run.config.curriculum, step.stage).prompt)
    job = run.players.again(task, dialect, trace, max_steps=run.config.rollouts.max_steps)
    before, after = trace.as_json(), played_again(job, trace).as_json()
    for part in ("outcome", "turns", "end", *(["messages"] if group.interface == "identity" else [])):
        if before.get(part) != after.get(part):
            was, now = (str(one.get(part))[:200] for one in (before, after))
            yield f"played again, its {part} comes to {now}, not {was}"
            return


def _check_records(path: Path, findings: Findings) -> None:
    """Checksums and seqs are checked by reading; here ids, and that groups are whole."""
    raw = lost = 0
    for record in read_raw(path):
        raw += 1
        kind = record["kind"]
        if kind == LOST:
            lost += 1
            findings.problem(path.name, f"record {record['seq']} was lost to damage")
        if kind in KEYS and record["id"] != record_id(kind, record):
            findings.problem(path.name, f"record {record['seq']} ({kind}) has an id that does not fit its key")
    members = 0
    counted = 0
    for record in read(path):
        counted += 1
        kind = record["kind"]
        if kind in CLOSING:
            if kind in SIZES and record[SIZES[kind]] != members:
                findings.problem(
                    path.name, f"record {record['seq']} closes {members} records, not {record[SIZES[kind]]}"
                )
            members = 0
        elif kind in CLOSED_BY:
            members += 1
    findings.count("records", raw)
    if void := raw - counted - lost:
        findings.notes.append(f"{path.name}: {void} records of groups that were never closed (void)")
    for part in segments(path):
        for aside in sorted(part.parent.glob(f"{part.name}.torn.*")):
            findings.notes.append(f"{aside.name}: a line cut short, moved aside")


def _check_snapshot(run: Run, findings: Findings) -> None:
    """The fold behind the latest snapshot comes to what the fold of everything does."""
    behind = Observations(run, strict=True, every_step=False)
    if not behind.snapshot:
        return
    findings.count("snapshots")
    name = f"{runfolder.SNAPSHOTS}/observations.{behind.snapshot:012d}.json"
    whole = Observations(run, strict=True)
    for observations in (behind, whole):
        observations.catch_up()
    if behind.state() != whole.state():
        findings.problem(name, "not what the closed parts say")


def _check_feedback(run: Run, findings: Findings, *, replay: bool) -> None:
    """Whether every question about a failure had its turn, every answer follows its question, and every text its
    verdicts; with `replay` also whether the texts keep to the gates, beside the given tasks."""
    fold, answered = FeedbackFold(run.path, strict=True), set[str]()
    truth = GroundTruthValues(run.tasks) if replay else None
    for record in read(run.path / runfolder.FEEDBACK):
        where, kind, failure = f"{runfolder.FEEDBACK}, record {record['seq']}", record["kind"], record["failure"]
        case = fold.cases.get(failure)
        if case is not None and case.state != "open":
            findings.problem(where, f"{kind}, though failure {failure} was closed before ({case.state})")
        if "pattern" in record and failure != failure_id(record["environment"], record["tool"], record["pattern"]):
            findings.problem(where, f"failure {failure} is not that of its tool and pattern")
        if kind == "asked":
            questions, attempts = (case.questions, case.attempts) if case else (0, 0)
            if record["number"] != questions + 1 or attempts >= run.config.feedback.attempts:
                findings.problem(
                    where, f"is question {record['number']} after {questions}, {attempts} of them attempts"
                )
            answered.discard(failure)
        elif "number" in record:
            if case is None or record["number"] != case.questions or failure in answered:
                findings.problem(where, f"{kind} answers question {record['number']}, which was not open")
            answered.add(failure)
        fold.apply(record, record["seq"])
        if kind == "approved" and case is not None:
            findings.count("texts of feedback")
            if against := failing(record["judge"]):
                findings.problem(where, f"was approved against the judge: {', '.join(against)}")
            if truth is not None:
                environment = run.environments.load(case.environment)
                tools = environment.tools()
                other = tools.get(record["remedy"]["tool"])
                faults = feedback_faults(environment, tools[case.tool], other, case.pattern, record["text"], truth)
                for fault in faults:
                    findings.problem(where, f"its text does not pass the gates: {fault}")


def _check_drawn(run: Run, findings: Findings, *, replay: bool) -> None:
    """Whether every task was drawn once for its place, with the levels that its difficulty gives; with `replay` also
    whether the generator without a model draws the same task again. That steps were made of them is checked where
    steps are (buffers.audit.rederive)."""
    config, places = run.config, set[Place]()
    by_rule = config.simulation.generator == "procedural"  # what a model thought up stands in the record alone
    again = generator(config, run.players) if replay and by_rule and config.source.drawn else None
    for record in read(run.path / runfolder.DRAWN):
        where = f"{runfolder.DRAWN}, record {record['seq']}"
        findings.count("drawn tasks")
        step, slot, difficulty = place = record["step"], record["slot"], record["difficulty"]
        if place in places:
            findings.problem(where, f"slot {slot} of step {step} at difficulty {difficulty} was drawn before")
        places.add(place)
        try:
            task = AnyTask.from_json(record["task"])
            wanted = Wanted(*place, levels(config.difficulty, difficulty, config.random_seeds.drawn, step, slot))
        except ValueError as error:
            findings.problem(where, f"is no task that could be drawn: {error}")
            continue
        if task.provenance.get("levels") != wanted.levels.as_json():
            findings.problem(where, f"its levels are not those of difficulty {difficulty}")
        elif again is not None and next(iter(again([wanted]))).id != task.id:
            findings.problem(where, "the generator draws another task there")


def _check_picks(run: Run, injected: Mapping[str, int], findings: Findings) -> None:
    """Whether picks, variants and `finished` records name each other, and lineages keep to their rules. `injected`:
    variant → its seq in the expanded log, in the order of injection."""
    picked, finished = _read_seeds(run, findings)
    written: dict[str, list[str]] = {}
    seeds: dict[int, str] = {}  # by seq of the variant
    generations: dict[int, int] = {}
    count = 0
    for record in read(run.path / runfolder.EXPANDED):
        pick, count = record["pick"], record["seq"]
        task = record["task"] if isinstance(record["task"], dict) else {}
        if pick not in picked:
            findings.problem(f"{runfolder.EXPANDED}, record {record['seq']}", f"belongs to {pick}, never picked")
        else:
            seeds[record["seq"]] = picked[pick]["task"]
        written.setdefault(pick, []).append(task.get("id", ""))
        generations[record["seq"]] = task.get("provenance", {}).get("generation")
    for pick, record in finished.items():
        if sorted(record["accepted"]) != sorted(written.get(pick, [])):
            findings.problem(
                f"{runfolder.SEEDS}, record {record['seq']}", f"{pick}: accepted variants are not those expanded"
            )
    findings.count("picks", len(picked))
    findings.count("variants", count)
    known = {member.task_id: member.generation for member in initial(run)}
    limit = run.config.selection.max_generation
    for task_id, seq in injected.items():
        # A variant is one generation further than its seed, within the limit.
        generation, seed = generations[seq], known.get(seeds.get(seq, ""))
        if seed is not None and generation != seed + 1:
            findings.problem(f"variant {task_id}", f"generation {generation}, but its seed's is {seed}")
        if 0 < limit < generation:
            findings.problem(f"variant {task_id}", f"generation {generation} exceeds {limit}")
        known[task_id] = generation


def _read_seeds(run: Run, findings: Findings) -> tuple[dict[str, Record], dict[str, Record]]:
    picked: dict[str, Record] = {}
    finished: dict[str, Record] = {}
    considered: set[int] = set()
    for record in read(run.path / runfolder.SEEDS):
        where = f"{runfolder.SEEDS}, record {record['seq']}"
        if record["kind"] == "picked":
            if picked.setdefault(record["pick"], record) is not record:
                findings.problem(where, f"pick {record['pick']} occurs twice")
        elif record["kind"] == "considered":
            if record["step"] in considered:
                findings.problem(where, f"step {record['step']} was considered twice")
            considered.add(record["step"])
        elif record["kind"] == "finished":
            finished[record["pick"]] = record
            if record["pick"] not in picked:
                findings.problem(where, f"finishes {record['pick']}, which was never picked")
    return picked, finished
