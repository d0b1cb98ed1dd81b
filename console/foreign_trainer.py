"""The trainer's part for any program, by records: open an epoch, write groups of rollouts (docs/protocol.md).

`rods trainer merge` and `observe` are these functions, and so are those of the Python API. A record is a group,
`{"task": …, "rollouts": [{"resolved": 2, "expected": 3}, …]}`, or `{"end_step": s}`, which closes step s, or
`{"update": s, "entropy": …}`, what the update after it has shown. What a group leaves out is filled in from the open
epoch: stage, reward kind, and of a rollout `binary`, `end` (`finished`) and `reward`. A closed step is answered once it
is on the disk. Where the interface's versions follow the policy, groups must name the version that was due.

A reward of one's own has the kind `value` and its range: {"task": …, "reward": {"kind": "value", "range": [0, 1]},
"rollouts": [{"reward": 0.37}, …]}. It steers the run in place of turns.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from rods import interfaces
from rods.buffers.checkpoints import check_trainers
from rods.buffers.merging.merger import Epoch, Merger, opened_now
from rods.buffers.run.run import Run
from rods.buffers.state import RunState, read_state
from rods.buffers.trainer_log import TrainerLog
from rods.episode.rewards import RANGES
from rods.errors import RefusedError, UserError
from rods.extension import extensions
from rods.observations import MILLIONTHS, EpisodeReward, Group, Role, Update, millionths, turns
from rods.rules.curriculum import scheduled, stage_rules
from rods.tasks import AnyTask

Record = Mapping[str, Any]
# Kinds of reward that follow from what was resolved of what was expected.
FOLLOWING: Mapping[str, Callable[[int, int], float]] = {
    "progress": lambda resolved, expected: resolved / expected,
    "binary": lambda resolved, expected: float(resolved == expected),
    "rubric": lambda resolved, expected: 2 * resolved / expected - 1,
}
ROUNDED = 1e-6  # a reported reward may differ by so much from what its turns come to


@dataclass(frozen=True, slots=True)
class OpenEpoch:
    """What a merge made: its record, the kind of reward of its stage, the tasks in visiting order, and, where it
    follows the policy, what the next step has to show, as groups name it (`interface`, `lineage`)."""

    made: Epoch
    reward: EpisodeReward
    tasks: tuple[tuple[Role, AnyTask], ...]
    interface: Mapping[str, str] | None = None


def merge(folder: Path | str, *, epoch: int, stage: int | None = None) -> OpenEpoch:
    """Merges what is staged into the pool of the run in `folder` and opens `epoch` (from 0) in `stage` (from 1; the
    configuration's by default). An epoch that is open already comes back as it was recorded. Raises UserError where
    there is no such stage."""
    run = _opened(folder)
    number = stage if stage is not None else scheduled(run.config.curriculum, epoch)
    if number is None or not 1 <= number <= len(run.config.curriculum.stages):
        what = f"epoch {epoch} has no curriculum stage" if stage is None else f"there is no stage {stage}"
        remedy = f"the configuration has stages 1 to {len(run.config.curriculum.stages)}"
        raise UserError(what, where=str(folder), remedy=remedy)
    state = read_state(run)
    with closing(Merger(state, "merge")) as merger:
        made = merger.merge(epoch, number, None)
    tasks = tuple((slot.role, state.task(slot.task_id)) for slot in made.slots)
    due = _due(run, state, made.stage)
    return OpenEpoch(made, stage_rules(run.config.curriculum, made.stage).reward, tasks, due)


def _opened(folder: Path | str) -> Run:
    """The run in `folder`. Raises RefusedError where tasks are drawn for its steps, or refill them: nothing here draws
    them."""
    run = Run.open(Path(folder))
    check_unrefilled(run)
    if run.config.pool_slots < run.config.training.batch_tasks:
        what = "tasks are drawn for its steps, which `rods trainer observe` and `rods trainer merge` cannot"
        remedy = "use `rods-train`, or `open_training` in Python; or draw tasks beforehand: `rods data draw`"
        raise RefusedError(what, where=str(folder), remedy=remedy)
    return run


def check_unrefilled(run: Run) -> None:
    """Raises RefusedError for a run whose steps are refilled, where another trainer would take part."""
    if run.config.rollouts.refill:
        what = "groups are replaced in its steps by the run's own rules, which only `rods-train` follows"
        remedy = "use `rods-train`, or a run with rollouts.refill = 0 (`rods trainer fork`)"
        raise RefusedError(what, where=str(run.path), remedy=remedy)


def observe(
    folder: Path | str,
    records: Iterable[bytes | str | Record],
    *,
    from_step: int | None = None,
    source: str = "records",
) -> Iterator[dict[str, Any]]:
    """Writes the groups and ends of steps of `records` (objects, or lines of JSON); answers each closed step once it is
    on the disk: {"step", "attempt", "epoch", "recorded"}, the last false for an identical step that was there;
    where that follows the policy, the `interface` (with its `lineage`) that the next step has to show.

    `from_step` goes back: later steps no longer count. Raises UserError naming the record of `source` at fault, and
    RefusedError for a step that is there otherwise, or where another trainer owns the run.
    """
    run = _opened(folder)
    with TrainerLog(run, "observe") as log:
        check_trainers(run, log.state)
        log.start(from_step)
        yield from record_steps(log, records, source)
        log.flush()
        log.write_tracker(force=True)


def record_steps(log: TrainerLog, records: Iterable[bytes | str | Record], source: str) -> Iterator[dict[str, Any]]:
    """Records the steps that `records` close; yields one answer each. Raises UserError naming the record at fault."""
    waiting: list[tuple[Record, str]] = []
    for number, given in enumerate(records, start=1):
        if isinstance(given, bytes | str) and not given.strip():
            continue
        where = f"{source}, line {number}"
        record = _parse(given, where)
        if "update" in record:
            _update(record, log, where)
            continue
        if "end_step" not in record:
            waiting.append((record, where))
            continue
        step, policy_step = record["end_step"], record.get("policy_step")
        if type(step) is not int or step < 1:
            raise UserError(f"end_step is {step!r}", where=where, remedy="steps are whole numbers from 1")
        if policy_step is not None and (type(policy_step) is not int or not 0 <= policy_step < step):
            what = f"policy_step is {policy_step!r} in step {step}"
            raise UserError(what, where=where, remedy="give the weights' last update, 0 or an earlier step")
        log.state.read_merges()  # `rods trainer merge` may have opened an epoch meanwhile
        epoch = _epoch(record, step, log, where)
        stage = log.state.pool.epochs[epoch].stage
        follows = step == log.state.last_step + 1  # an earlier one is on record
        due = _due(log.run, log.state, stage) if follows else None
        groups = [_group(given, log, stage, due, place) for given, place in waiting]
        recorded = log.write_step(step, epoch, groups, policy_step)
        log.write_tracker()
        waiting.clear()
        answer = {"step": step, "attempt": log.state.attempt, "epoch": epoch, "recorded": recorded}
        following = _due(log.run, log.state, stage)
        yield answer if following is None else {**answer, "interface": following}
    if waiting:
        what = f"{len(waiting)} groups were not closed, so they were not recorded"
        raise UserError(what, where=source, remedy='end every step with {"end_step": s}')


def _epoch(record: Record, step: int, log: TrainerLog, where: str) -> int:
    """The epoch of a step: said in the record, known from an earlier report of the same step, or the open one."""
    epoch = record.get("epoch", log.state.epoch_of(step))
    if log.state.epoch < 0:
        raise UserError("no epoch is open", where=where, remedy="run `rods trainer merge RUN --epoch 0` first")
    if not isinstance(epoch, int) or not 0 <= epoch <= log.state.epoch:
        remedy = f"run `rods trainer merge RUN --epoch {log.state.epoch + 1}`, or leave the epoch out"
        raise UserError(f"epoch {epoch!r} is not open (the latest is {log.state.epoch})", where=where, remedy=remedy)
    return epoch


def _due(run: Run, state: RunState, stage: int) -> dict[str, str] | None:
    """What the next step has to show if it is of `stage`, as groups name it; None where it does not follow the
    policy."""
    rules = stage_rules(run.config.curriculum, stage)
    if not any(extension.follows(rules) for extension in extensions()):
        return None
    told = state.shown(opened_now(run, state.pool.latest or {}))
    shown = interfaces.load(rules, run.config.policy.dialect, told)
    return {"interface": shown.version, "lineage": shown.lineage}


def _update(record: Record, log: TrainerLog, where: str) -> None:
    """Records what the update after the last step has shown. Raises UserError."""
    step = record["update"]
    if type(step) is not int or not step or step != log.state.last_step:
        remedy = "say it behind the step, before the next one is closed"
        raise UserError(f"update of step {step!r}; the last step is {log.state.last_step}", where=where, remedy=remedy)
    try:
        log.write_update(Update.from_json(record))
    except ValueError as error:
        raise UserError(str(error), where=where, remedy="leave out what is not known") from error


def _parse(given: Any, where: str) -> Record:
    """The object on a line, or the one that was given. Raises UserError."""
    if isinstance(given, Mapping):
        return given
    if not isinstance(given, bytes | str):
        remedy = "give objects (mappings), or lines of JSON"
        raise UserError(f"a record is a {type(given).__name__}: {given!r}", where=where, remedy=remedy)
    try:
        record = orjson.loads(given)
    except orjson.JSONDecodeError as error:
        raise UserError(f"not JSON ({error.msg})", where=where, remedy="write one JSON object a line") from error
    if not isinstance(record, dict):
        raise UserError("not a JSON object", where=where, remedy="write one JSON object a line")
    return record


def _group(record: Record, log: TrainerLog, stage: int, due: Mapping[str, str] | None, where: str) -> Group:
    """The group of a line, with what it leaves out filled in. Raises UserError, also where it does not say that it has
    shown what was `due`."""
    if due is not None and due != {name: record.get(name) for name in due}:
        said = f"{record.get('interface')!r} (lineage {record.get('lineage')!r})"
        what = f"stage {stage} shows an interface that follows the policy, and this group says {said}"
        remedy = f"show {due['interface']!r} and name it, with lineage {due['lineage']!r}; `rods trainer merge "
        raise UserError(what, where=where, remedy=remedy + "--json` and the answer to each step say what comes next")
    remedy = "see the group record in docs/protocol.md"
    try:
        task = log.task(str(record.get("task", "")))
    except KeyError as error:
        what = f"task {record.get('task')!r} is not in this run"
        raise UserError(what, where=where, remedy="`rods trainer merge` prints the tasks") from error
    kind = stage_rules(log.run.config.curriculum, stage).reward
    filled = {"stage": stage, "reward": {"kind": kind, "range": list(RANGES[kind])}, **record}
    try:
        if not isinstance(filled.get("rollouts"), list):
            raise ValueError("a group needs 'rollouts', a list")
        filled["rollouts"] = [_rollout(rollout, task, filled["reward"]) for rollout in filled["rollouts"]]
        group = Group.from_json(filled)
        if group.role == "drawn":
            raise ValueError("role is 'drawn', and no task of this run is drawn for a step")
        if group.replaced:
            raise ValueError("replaced is true, and no step of this run is refilled: leave out what was not trained on")
        if group.reward in FOLLOWING:
            for rollout in group.rollouts:
                earned = FOLLOWING[group.reward](rollout.resolved, rollout.expected)
                if rollout.reward is not None and abs(rollout.reward - earned) > ROUNDED:  # would steer the run
                    raise ValueError(
                        f"the {group.reward} of {rollout.resolved} of {rollout.expected} turns is {earned:g}, not the "
                        f"reward {rollout.reward:g}: one of your own is of kind value, in the group's "
                        '"reward": {"kind": "value", "range": [lowest, highest]}'
                    )
        return group
    except (KeyError, TypeError) as error:
        raise UserError(f"a group lacks or misshapes {error}", where=where, remedy=remedy) from error
    except ValueError as error:
        raise UserError(str(error), where=where, remedy=remedy) from error


def _rollout(given: Any, task: AnyTask, reward: Mapping[str, Any]) -> dict[str, Any]:
    """Fills in what follows from the number of resolved turns, or from a reward of one's own. Raises ValueError when
    `task` has no such turns, and where the `reward` trained on does not follow from them."""
    trained = reward["kind"]
    if trained == "value":
        if not isinstance(given, dict):
            raise ValueError(f"a rollout is {given!r}; it must be an object")
        filled = {"end": "finished", "expected": MILLIONTHS, "reward": None, **given}
        counted = 0 if filled["reward"] is None else millionths(filled["reward"], *reward["range"])
        return {"resolved": counted, "binary": int(counted == MILLIONTHS), **filled}
    resolved, expected = turns(given)
    if expected != task.expected:
        raise ValueError(f"{expected} turns are expected, but the task {task.id} has {task.expected}")
    filled = {"end": "finished", "binary": int(resolved == expected), **given}
    if "reward" not in filled:
        if filled["end"] == "infrastructure":
            filled["reward"] = None
        elif trained in FOLLOWING:
            filled["reward"] = FOLLOWING[trained](resolved, expected)
        else:
            raise ValueError(f"a rollout says no 'reward', and {trained} does not follow from its turns")
    return filled
