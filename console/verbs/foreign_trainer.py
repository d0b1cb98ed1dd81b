"""`rods merge` and `rods observe`: any program can take the trainer's part (docs/protocol.md).

`rods merge` opens an epoch and prints the tasks to train on. `rods observe` reads lines of JSON from standard input. A
line is a group, `{"task": …, "rollouts": [{"resolved": 2, "expected": 3}, …]}`, or `{"end_step": s}`, which closes
step s. What a group leaves out is filled in from the open epoch: stage, reward kind, and of a rollout `binary`, `end`
(`finished`) and `reward`. One line answers each closed step, after the step is on the disk.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import Parameter

from console.output import RunFolder, print_json
from rods.commands import Json
from rods.errors import UserError
from rods.observations import Group, turns

if TYPE_CHECKING:
    from buffers.trainer_log import TrainerLog
    from rods.tasks import Task

Number = Annotated[int, Parameter(help="The epoch to open, from 0; an open one is printed again as it was recorded.")]
StageNumber = Annotated[int | None, Parameter(help="Its curriculum stage, from 1. Default: the configuration's.")]
FromStep = Annotated[
    int | None,
    Parameter(name="--from-step", help="Go back to this step: later ones no longer count. Default: the last."),
]


def merge(run: RunFolder, /, *, epoch: Number, stage: StageNumber = None, as_json: Json = False) -> None:
    """Play the trainer: merge staging into the pool and print the epoch's tasks in visiting order.

    Prints one JSON object a line, {"role": "active" or "retest", "task": {…}}; with --json one object with all of them,
    the counts and the order's hash.
    """
    from buffers.merging.merger import Merger
    from buffers.run.run import Run
    from buffers.state import read_state
    from rods.rules.curriculum import scheduled, stage_rules

    opened = Run.open(run)
    number = stage if stage is not None else scheduled(opened.config.curriculum, epoch)
    if number is None or not 1 <= number <= len(opened.config.curriculum.stages):
        raise UserError(
            f"epoch {epoch} has no curriculum stage" if stage is None else f"there is no stage {stage}",
            where=str(run),
            remedy=f"the configuration has stages 1 to {len(opened.config.curriculum.stages)}",
        )
    state = read_state(opened)
    merger = Merger(state, "merge")
    try:
        made = merger.merge(epoch, number, None)
    finally:
        merger.close()
    slots = [{"role": slot.role, "task": state.task(slot.task_id).as_json()} for slot in made.slots]
    if as_json:
        facts = {"epoch": made.number, "stage": made.stage, "step": made.step, "recorded": made.recorded}
        reward = stage_rules(opened.config.curriculum, made.stage).reward
        print_json({**facts, "reward": reward, "counts": made.counts, "order": made.order_hash, "slots": slots})
        return
    for slot in slots:
        print_json(slot)
    counts = ", ".join(f"{count} {name}" for name, count in made.counts.items())
    print(f"epoch {made.number}, stage {made.stage}: {counts}", file=sys.stderr)


def observe(run: RunFolder, /, *, from_step: FromStep = None, as_json: Json = False) -> None:
    """Play the trainer: read groups of rollouts and {"end_step": s} from standard input, one JSON object a line.

    Answers each closed step once it is on the disk. An identical step that was there already is answered too, with
    "recorded" false; a different one is refused with exit code 3.
    """
    from buffers.ends import check_trainers
    from buffers.run.run import Run
    from buffers.trainer_log import TrainerLog

    opened = Run.open(run)
    with TrainerLog(opened, "observe") as log:
        check_trainers(opened, log.state.observations)
        log.start(from_step)
        for answer in record_steps(log, sys.stdin.buffer):
            if as_json:
                print_json(answer)
            else:
                done = "recorded" if answer["recorded"] else "was recorded already"
                print(f"step {answer['step']} of epoch {answer['epoch']} {done} (attempt {answer['attempt']})")
            sys.stdout.flush()
        log.write_tracker(force=True)


def record_steps(log: TrainerLog, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Records the steps that `lines` close; yields one answer each. Raises UserError naming the line at fault."""
    waiting: list[tuple[dict[str, Any], str]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"standard input, line {number}"
        record = _parse(line, where)
        if "end_step" not in record:
            waiting.append((record, where))
            continue
        step = record["end_step"]
        if not isinstance(step, int) or isinstance(step, bool) or step < 1:
            raise UserError(f"end_step is {step!r}", where=where, remedy="steps are whole numbers from 1")
        policy_step = record.get("policy_step")
        if policy_step is not None and (not isinstance(policy_step, int) or isinstance(policy_step, bool)):
            raise UserError(f"policy_step is {policy_step!r}", where=where, remedy="give the weights' last update")
        if policy_step is not None and not 0 <= policy_step < step:
            what = f"policy_step is {policy_step} in step {step}"
            raise UserError(what, where=where, remedy="give the weights' last update, 0 or an earlier step")
        log.state.read_merges()  # `rods merge` may have opened an epoch meanwhile
        epoch = _epoch(record, step, log, where)
        stage = log.state.pool.epochs[epoch].stage
        groups = [_group(given, log, stage, place) for given, place in waiting]
        recorded = log.write_step(step, epoch, groups, policy_step)
        log.write_tracker()
        waiting.clear()
        yield {"step": step, "attempt": log.attempt, "epoch": epoch, "recorded": recorded}
    if waiting:
        raise UserError(
            f"{len(waiting)} groups were not closed, so they were not recorded",
            where="standard input",
            remedy='end every step with {"end_step": s}',
        )


def _epoch(record: dict[str, Any], step: int, log: TrainerLog, where: str) -> int:
    """The epoch of a step: said in the record, known from an earlier report of the same step, or the open one."""
    epoch = record.get("epoch", log.state.epoch_of(step))
    if log.epoch < 0:
        raise UserError("no epoch is open", where=where, remedy="run `rods merge RUN --epoch 0` first")
    if not isinstance(epoch, int) or not 0 <= epoch <= log.epoch:
        raise UserError(
            f"epoch {epoch!r} is not open (the latest is {log.epoch})",
            where=where,
            remedy=f"run `rods merge RUN --epoch {log.epoch + 1}`, or leave the epoch out",
        )
    return epoch


def _parse(line: bytes, where: str) -> dict[str, Any]:
    """The object on a line. Raises UserError."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise UserError(f"not JSON ({error.msg})", where=where, remedy="write one JSON object a line") from error
    if not isinstance(record, dict):
        raise UserError("not a JSON object", where=where, remedy="write one JSON object a line")
    return record


def _group(record: dict[str, Any], log: TrainerLog, stage: int, where: str) -> Group:
    """The group of a line, with what it leaves out filled in. Raises UserError."""
    from rods.episode.rewards import RANGES
    from rods.rules.curriculum import stage_rules

    remedy = "see the group record in docs/protocol.md"
    try:
        task = log.task(str(record.get("task", "")))
    except KeyError as error:
        raise UserError(
            f"task {record.get('task')!r} is not in this run", where=where, remedy="`rods merge` prints the tasks"
        ) from error
    kind = stage_rules(log.run.config.curriculum, stage).reward
    filled = {"stage": stage, "reward": {"kind": kind, "range": list(RANGES[kind])}, **record}
    try:
        if not isinstance(filled.get("rollouts"), list):
            raise ValueError("a group needs 'rollouts', a list")
        filled["rollouts"] = [_rollout(rollout, task, filled.get("head", 0)) for rollout in filled["rollouts"]]
        return Group.from_json(filled)
    except ValueError as error:
        raise UserError(str(error), where=where, remedy=remedy) from error


def _rollout(given: Any, task: Task, head: Any) -> dict[str, Any]:
    """Fills in what follows from the number of resolved turns. Raises ValueError when `task` has no such turns after a
    head start of `head`."""
    resolved, expected = turns(given)
    if type(head) is not int or expected != task.expected_turns - head:
        raise ValueError(
            f"{expected} turns are expected, but the task {task.id} has {task.expected_turns}, and head is {head!r}"
        )
    filled = {"end": "finished", "binary": int(resolved == expected), **given}
    if "reward" not in filled:
        filled["reward"] = None if filled["end"] == "infrastructure" else resolved / expected
    return filled
