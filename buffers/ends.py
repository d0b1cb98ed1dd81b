"""Whether a log still reaches as far as others know of it: one that was emptied, removed or cut at a record looks
sound.

A trainer's checkpoints and merges name steps of the observations, checkpoints a record of pool.jsonl, merges a record
of the expanded log, steps the tasks that were drawn for them, and variants the steps that seeds.jsonl has considered.
What is missing then is for a person to decide about, so every start compares, and `rods verify` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from buffers.checkpoints import Checkpoints
from buffers.folds.drawn import DrawnTasks
from buffers.folds.observations import Observations
from buffers.folds.seeds import Seeds
from buffers.log.parts import last_record, segments
from buffers.log.records import LOST, Record
from buffers.run.run import Run
from buffers.run.runfolder import DRAWN, EXPANDED, EXTENSIONS, OBSERVATIONS, POOL, SEEDS
from rods.errors import RefusedError


class ShortLog(NamedTuple):
    """A log that ends before what `what` says of it."""

    log: str
    what: str


def short_logs(run: Run) -> list[ShortLog]:
    """All logs of `run` that have lost their ends. What is known of a log is read before the log, so that a run may go
    on meanwhile."""
    named = Checkpoints(run.path).named(lambda attempt, step: True)
    pool, variant = _last(run, POOL), _last(run, EXPANDED)
    known = [(item.position.attempt, item.position.step, item.position.pool_seq, item.folder.name) for item in named]
    seeds, observations = Seeds(run.path), Observations(run, every_step=False)
    seeds.poll()
    observations.catch_up()
    return [*_trainers(run, observations, known, pool), *_daemons(run, seeds.last_considered, pool, variant)]


def check_fork(run: Run) -> None:
    """Raises RefusedError when a log that tells who is active has lost its end."""
    _refuse(run, [one for one in short_logs(run) if one.log != SEEDS])


def check_trainers(run: Run, observations: Observations) -> None:
    """Raises RefusedError when a log that the trainer writes has lost its end. For the owner of the observations."""
    named = Checkpoints(run.path).named(lambda attempt, step: True)
    known = [(item.position.attempt, item.position.step, item.position.pool_seq, item.folder.name) for item in named]
    _refuse(run, _trainers(run, observations, known, _last(run, POOL)))


def check_daemons(run: Run, considered: int) -> None:
    """Raises RefusedError when a log that the daemon writes has lost its end. For the owner of seeds.jsonl, of whose
    steps `considered` is the last one considered."""
    _refuse(run, _daemons(run, considered, _last(run, POOL), _last(run, EXPANDED)))


def _refuse(run: Run, found: list[ShortLog]) -> None:
    if found:
        raise RefusedError(
            "; ".join(one.what for one in found),
            where=str(run.path / found[0].log),
            remedy="it was emptied, removed or cut: put it back from a copy, or begin anew with `rods new`",
        )


def _extensions(curriculum: Any) -> int:
    """The extensions that a checkpoint knows of; 0 where its manifest is nonsense, which its reader will say."""
    known = curriculum.get("extensions", 0) if isinstance(curriculum, Mapping) else 0
    return known if isinstance(known, int) else 0


def _trainers(
    run: Run, observations: Observations, known: Sequence[tuple[int, int, int, str]], pool: Record | None
) -> list[ShortLog]:
    found = []
    start, last = observations.lineage.attempt, observations.last_step
    named = Checkpoints(run.path).named(lambda attempt, step: True)
    extended = max((_extensions(one.position.curriculum) for one in named), default=0)
    if extended > run.extensions:
        what = f"it ends at extension {run.extensions}, but a checkpoint knows of {extended}"
        found.append(ShortLog(EXTENSIONS, what))
    end = _last(run, OBSERVATIONS)
    if end is None or end["kind"] != LOST:  # after `rods recover` the end is what was agreed to
        told = [(attempt, step, f"checkpoint {name}") for attempt, step, _, name in known]
        if pool is not None and pool["kind"] != LOST:
            told.append((pool["attempt"], pool["step"], f"record {pool['seq']} of {POOL}"))
        attempt, step, who = max(told, default=(0, 0, ""))
        if (attempt, step) > (start, last):
            what = f"it ends at step {last} of start {start}"
            found.append(ShortLog(OBSERVATIONS, f"{what}, but {who} knows of step {step} of start {attempt}"))
    if (faced := observations.difficulty.faced) is not None:
        drawn = DrawnTasks(run.path)
        drawn.poll()
        end = _last(run, DRAWN)
        whole = end is None or end["seq"] == len(drawn.seqs)  # otherwise damage took some, and `rods recover` said so
        slots = range(run.config.pool_slots, run.config.training.batch_tasks) if whole else ()
        if missing := [slot for slot in slots if (faced.step, slot, faced.difficulty) not in drawn.seqs]:
            found.append(ShortLog(DRAWN, f"it lacks {len(missing)} of the tasks that step {faced.step} was made of"))
    seq = 0 if pool is None else pool["seq"]
    last, name = max(((pool_seq, name) for _, _, pool_seq, name in known), default=(0, ""))
    if last > seq:
        found.append(ShortLog(POOL, f"it ends at record {seq}, but checkpoint {name} knows of record {last}"))
    return found


def _daemons(run: Run, considered: int, pool: Record | None, variant: Record | None) -> list[ShortLog]:
    found = []
    named = 0 if pool is None else pool.get("expanded_seq", 0)
    seq = 0 if variant is None else variant["seq"]
    if named > seq:
        what = f"it ends at record {seq}, but a merge of {POOL} has read up to record {named}"
        found.append(ShortLog(EXPANDED, what))
    end = _last(run, SEEDS)
    agreed = end is not None and end["kind"] == LOST
    if variant is not None and variant["kind"] != LOST and variant["step"] > considered and not agreed:
        what = f"it has considered step {considered}, but variant {seq} was written for step {variant['step']}"
        found.append(ShortLog(SEEDS, what))
    return found


def _last(run: Run, log: str) -> Record | None:
    """The last record of a log; None for a log without any."""
    for part in reversed(segments(run.path / log)):
        found, _ = last_record(part)
        if found is not None:
            return found
    return None
