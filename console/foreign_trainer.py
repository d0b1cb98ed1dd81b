"""The trainer's part for any program, by records: open an epoch, write groups of rollouts
(docs/protocol.md).

`rods trainer merge` and `observe` are these functions, and so are those of the Python API. A record
is a group, `{"task": …, "rollouts": [{"resolved": 2, "expected": 3}, …]}`, or `{"end_step": s}`,
which closes step s, or `{"update": s, "entropy": …}`, what the update after it has shown, or
`{"held_out": s}`, which makes the groups before it held-out scores of the policy after step s. What
a group leaves out is filled in from the open epoch: stage, reward kind, and of a rollout `binary`,
`end` (`finished`) and `reward`. A closed step is answered once it is on the disk. Where the
interface's versions follow the policy, groups must name the version that was due.

A reward of one's own has the kind `value` and its range: {"task": …, "reward": {"kind": "value",
"range": [0, 1]}, "rollouts": [{"reward": 0.37}, …]}. It steers the run in place of turns.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from rods.buffers.merging.merger import Epoch, Merger
from rods.buffers.run.run import Run
from rods.buffers.state import read_state
from rods.buffers.trainer_log import TrainerLog
from rods.canonical import JsonObject, frozen
from rods.errors import UserError
from rods.evaluation.heldout import Scored, keep
from rods.model_json import exact
from rods.observations import EpisodeReward, Record, Role, Update
from rods.rules.curriculum import scheduled, stage_rules
from rods.tasks import AnyTask
from rods.trainer.reports import check_by_records, check_policy_step, close_step, due, group_of


@frozen
class OpenEpoch:
    """What a merge made: its record, the kind of reward of its stage, the tasks in visiting order,
    and, where it follows the policy, what the next step has to show, as groups name it
    (`interface`, `lineage`)."""

    made: Epoch
    reward: EpisodeReward
    tasks: tuple[tuple[Role, AnyTask], ...]
    interface: Mapping[str, str] | None = None


def merge(folder: Path | str, *, epoch: int, stage: int | None = None) -> OpenEpoch:
    """Merges what is staged into the pool of the run in `folder` and opens `epoch` (from 0) in
    `stage` (from 1; the configuration's by default). An epoch that is open already comes back as it
    was recorded. Raises UserError where there is no such stage."""
    run = Run.open(Path(folder))
    check_by_records(run)
    number = stage if stage is not None else scheduled(run.config.curriculum, epoch)
    if number is None or not 1 <= number <= len(run.config.curriculum.stages):
        what = (
            f"epoch {epoch} has no curriculum stage"
            if stage is None
            else f"there is no stage {stage}"
        )
        raise UserError(
            what,
            where=folder,
            remedy=f"the configuration has stages 1 to {len(run.config.curriculum.stages)}",
        )
    state = read_state(run)
    with closing(Merger(state, "merge")) as merger:
        record = merger.merge(epoch, number, None)
    tasks = tuple((slot.role, state.task(slot.task_id)) for slot in record.slots)
    interface = due(state, record.stage)
    return OpenEpoch(
        record, stage_rules(run.config.curriculum, record.stage).reward, tasks, interface
    )


def observe(
    folder: Path | str,
    records: Iterable[bytes | str | Record],
    *,
    from_step: int | None = None,
    source: str = "records",
) -> Iterator[JsonObject]:
    """Writes the groups and ends of steps of `records` (objects, or lines of JSON); answers each
    closed step once it is on the disk: {"step", "attempt", "epoch", "recorded"}, the last false for
    an identical step that was there; where that follows the policy, the `interface` (with its
    `lineage`) that the next step has to show. Held-out scores are answered too: {"step", "attempt",
    "held_out": mean progress}.

    `from_step` goes back: later steps no longer count. Raises UserError naming the record of
    `source` at fault, and RefusedError for a step that is there otherwise, or where another trainer
    owns the run.
    """
    run = Run.open(Path(folder))
    check_by_records(run)
    with TrainerLog(run, "observe") as log:
        log.start(from_step)
        yield from record_steps(log, records, source)
        log.flush()
        log.write_tracker(force=True)


def record_steps(
    log: TrainerLog, records: Iterable[bytes | str | Record], source: str
) -> Iterator[JsonObject]:
    """Records the steps that `records` close; yields one answer each. Raises UserError naming the
    record at fault."""
    waiting: list[tuple[Record, str]] = []
    for number, line in enumerate(records, start=1):
        if isinstance(line, bytes | str) and not line.strip():
            continue
        where = f"{source}, line {number}"
        record = _parse(line, where)
        if "update" in record:
            _update(record, log, where)
            continue
        if "held_out" in record:
            yield _held_out(record["held_out"], waiting, log, where)
            waiting.clear()
            continue
        if "end_step" not in record:
            waiting.append((record, where))
            continue
        step = record["end_step"]
        policy_step = record.get("policy_step")
        if type(step) is not int or step < 1:
            raise UserError(
                f"end_step is {step!r}", where=where, remedy="steps are whole numbers from 1"
            )
        check_policy_step(policy_step, step, where)
        log.state.read_merges()  # `rods trainer merge` may have opened an epoch meanwhile
        epoch = _epoch(record, step, log, where)
        recorded = close_step(log, step, epoch, waiting, policy_step)
        waiting.clear()
        answer = {"step": step, "attempt": log.state.attempt, "epoch": epoch, "recorded": recorded}
        following = due(log.state, log.state.pool.epochs[epoch].stage)
        yield answer if following is None else {**answer, "interface": following}
    if waiting:
        raise UserError(
            f"{len(waiting)} groups were not closed, so they were not recorded",
            where=source,
            remedy='end every step with {"end_step": s}',
        )


def _epoch(record: Record, step: int, log: TrainerLog, where: str) -> int:
    """The epoch of a step: said in the record, known from an earlier report of the same step, or
    the open one."""
    epoch = record.get("epoch", log.state.epoch_of(step))
    if log.state.epoch < 0:
        raise UserError(
            "no epoch is open", where=where, remedy="run `rods trainer merge RUN --epoch 0` first"
        )
    if type(epoch) is not int or not 0 <= epoch <= log.state.epoch:
        raise UserError(
            f"epoch {epoch!r} is not open (the latest is {log.state.epoch})",
            where=where,
            remedy=f"run `rods trainer merge RUN --epoch {log.state.epoch + 1}`, or name no epoch",
        )
    return epoch


def _held_out(
    step: Any, waiting: Iterable[tuple[Record, str]], log: TrainerLog, where: str
) -> JsonObject:
    """Keeps the groups `waiting` as held-out scores of the policy after `step`. Raises
    UserError."""
    if type(step) is not int or not 0 <= step <= log.state.last_step:
        raise UserError(
            f"held_out is {step!r}; the last step is {log.state.last_step}",
            where=where,
            remedy="name a step that is closed; 0 is the policy before the first",
        )
    stage = len(log.run.config.curriculum.stages)
    groups = [
        group_of(
            {"reward": {"kind": "progress", "range": [0, 1]}, **record}, log, stage, None, place
        )
        for record, place in waiting
    ]
    played = [(log.task(group.task), [*map(Scored, group.rollouts)]) for group in groups]
    attempt = log.state.attempt
    progress = keep(log.run, step, attempt, played)["progress"]
    return {"step": step, "attempt": attempt, "held_out": progress["mean"]}


def _update(record: Record, log: TrainerLog, where: str) -> None:
    """Records what the update after the last step has shown. Raises UserError."""
    step = record["update"]
    if type(step) is not int or not step or step != log.state.last_step:
        raise UserError(
            f"update of step {step!r}; the last step is {log.state.last_step}",
            where=where,
            remedy="say it behind the step, before the next one is closed",
        )
    try:
        log.write_update(Update.from_json(record))
    except ValueError as error:
        raise UserError(str(error), where=where, remedy="leave out what is not known") from error


def _parse(line: Any, where: str) -> Record:
    """The object on a line, or the one that was given. Raises UserError."""
    remedy = "give objects (mappings), or lines with a JSON object each"
    try:
        text = line.decode() if isinstance(line, bytes) else line
        record = exact(text) if isinstance(text, str) else text
    except ValueError as error:
        raise UserError(f"not JSON ({error})", where=where, remedy=remedy) from error
    if not isinstance(record, Mapping):
        raise UserError(
            f"a record is a {type(record).__name__}, not an object: {record!r}",
            where=where,
            remedy=remedy,
        )
    return record
