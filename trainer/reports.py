"""What a trainer that is not ours reports, as records of a run: a group with what it leaves out
filled in, and which interface it had to show."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rods import interfaces
from rods.buffers.merging.merger import epoch_notes, opened_by
from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.buffers.trainer_log import TrainerLog
from rods.canonical import JsonMapping, JsonObject
from rods.episode.rewards import RANGES
from rods.errors import UserError
from rods.observations import MILLIONTHS, Group, Record, millionths, resolved_and_expected
from rods.rules.curriculum import stage_rules
from rods.tasks import AnyTask

# Kinds of reward that follow from what was resolved of what was expected.
FOLLOWING: Mapping[str, Callable[[int, int], float]] = {
    "progress": lambda resolved, expected: resolved / expected,
    "binary": lambda resolved, expected: float(resolved == expected),
    "rubric": lambda resolved, expected: 2 * resolved / expected - 1,
}
ROUNDED = 1e-6  # a reported reward may differ by so much from what its turns come to


def check_by_records(run: Run) -> None:
    """Raises RefusedError for a run in which nobody can take part by reports: tasks are made for
    its steps, or refill them."""
    check_unrefilled(run)
    if run.config.pool_slots < run.config.training.batch_tasks:
        raise run.refused(
            "tasks are drawn for its steps, which `rods trainer observe`, `rods trainer merge` and "
            "a stream cannot",
            "use `rods-train`, or `open_training` in Python; or draw tasks beforehand: `rods data "
            "draw`",
        )


def check_unrefilled(run: Run) -> None:
    """Raises RefusedError for a run whose steps are refilled, where another trainer would take
    part."""
    if run.config.rollouts.refill:
        raise run.refused(
            "groups are replaced in its steps by the run's own rules, which only `rods-train` "
            "follows",
            "use `rods-train`, or a run with rollouts.refill = 0 (`rods trainer fork`)",
        )


def due(state: RunState, stage: int) -> dict[str, str] | None:
    """What the next step has to show if it is of `stage`, as groups name it; None where it does not
    follow the policy."""
    run = state.run
    rules = stage_rules(run.config.curriculum, stage)
    if not interfaces.follows_records(rules):
        return None
    notes = epoch_notes(run)
    for note in notes.values():
        note.poll()
    inputs = state.interface_inputs(opened_by(notes, state.pool.latest or {}))
    interface = interfaces.load(rules, run.config.policy.dialect, inputs)
    return {"interface": interface.version, "lineage": interface.lineage}


def check_policy_step(policy_step: Any, step: int, where: str) -> None:
    """Raises UserError for what is neither None nor the number of an update before `step`."""
    if policy_step is not None and (type(policy_step) is not int or not 0 <= policy_step < step):
        raise UserError(
            f"policy_step is {policy_step!r} in step {step}",
            where=where,
            remedy="give the weights' last update, 0 or an earlier step",
        )


def close_step(
    log: TrainerLog,
    step: int,
    epoch: int,
    reported: Iterable[tuple[Record, str]],
    policy_step: int | None = None,
    places: int | None = None,
) -> bool:
    """Records `step` of `epoch` with the groups that were `reported`, each with the place that an
    error names. False: it was there already. Otherwise as `TrainerLog.write_step`; raises UserError
    for a group that cannot be."""
    stage = log.state.pool.epochs[epoch].stage
    follows = step == log.state.last_step + 1  # an earlier one is on record
    interface = due(log.state, stage) if follows else None
    groups = [group_of(record, log, stage, interface, where) for record, where in reported]
    recorded = log.write_step(step, epoch, groups, policy_step, places)
    log.write_tracker()
    return recorded


def group_of(
    record: Record, log: TrainerLog, stage: int, due: Mapping[str, str] | None, where: str
) -> Group:
    """The group of a line, with what it leaves out filled in. Raises UserError, also where it does
    not say that it has shown what was `due`."""
    if due is not None and due != {name: record.get(name) for name in due}:
        raise UserError(
            f"stage {stage} shows an interface that follows the policy, and this group says "
            f"{record.get('interface')!r} (lineage {record.get('lineage')!r})",
            where=where,
            remedy=f"show {due['interface']!r} and name it, with lineage {due['lineage']!r}; `rods "
            "trainer merge --json` and the answer to each step say what comes next",
        )
    remedy = "see the group record in docs/protocol.md"
    try:
        task = log.task(str(record.get("task", "")))
    except KeyError as error:
        raise UserError(
            f"task {record.get('task')!r} is not in this run",
            where=where,
            remedy="`rods trainer merge` prints the tasks",
        ) from error
    kind = stage_rules(log.run.config.curriculum, stage).reward
    filled = {"stage": stage, "reward": {"kind": kind, "range": list(RANGES[kind])}, **record}
    try:
        if not isinstance(filled.get("rollouts"), list):
            raise ValueError("a group needs 'rollouts', a list")
        filled["rollouts"] = [
            _rollout(rollout, task, filled["reward"]) for rollout in filled["rollouts"]
        ]
        group = Group.from_json(filled)
        if group.role == "drawn":
            raise ValueError("role is 'drawn', and no task of this run is drawn for a step")
        if group.replaced:
            raise ValueError(
                "replaced is true, and no step of this run is refilled: leave out what was not "
                "trained on"
            )
        if group.reward in FOLLOWING:
            for rollout in group.rollouts:
                earned = FOLLOWING[group.reward](rollout.resolved, rollout.expected)
                # would steer the run
                if rollout.reward is not None and abs(rollout.reward - earned) > ROUNDED:
                    raise ValueError(
                        f"the {group.reward} of {rollout.resolved} of {rollout.expected} turns is "
                        f"{earned:g}, not the "
                        f"reward {rollout.reward:g}: one of your own is of kind value, in the "
                        f"group's "
                        '"reward": {"kind": "value", "range": [lowest, highest]}'
                    )
        return group
    except (KeyError, TypeError) as error:
        raise UserError(
            f"a group lacks or misshapes {error}", where=where, remedy=remedy
        ) from error
    except ValueError as error:
        raise UserError(str(error), where=where, remedy=remedy) from error


def _rollout(rollout: Any, task: AnyTask, reward: JsonMapping) -> JsonObject:
    """Fills in what follows from the number of resolved turns, or from a reward of one's own.
    Raises ValueError when `task` has no such turns, and where the `reward` trained on does not
    follow from them."""
    trained = reward["kind"]
    if trained == "value":
        if not isinstance(rollout, dict):
            raise ValueError(f"a rollout is {rollout!r}; it must be an object")
        filled = {"end": "finished", "expected": MILLIONTHS, "reward": None, **rollout}
        counted = 0 if filled["reward"] is None else millionths(filled["reward"], *reward["range"])
        return {"resolved": counted, "binary": int(counted == MILLIONTHS), **filled}
    if isinstance(rollout, dict) and rollout.get("end") == "infrastructure":
        # it counts for nothing, whatever it came to
        rollout = {"resolved": 0, "expected": task.expected, **rollout}
    resolved, expected = resolved_and_expected(rollout)
    if expected != task.expected:
        raise ValueError(
            f"{expected} turns are expected, but the task {task.id} has {task.expected}"
        )
    filled = {"end": "finished", "binary": int(resolved == expected), **rollout}
    if "reward" not in filled:
        if filled["end"] == "infrastructure":
            filled["reward"] = None
        elif trained in FOLLOWING:
            filled["reward"] = FOLLOWING[trained](resolved, expected)
        else:
            raise ValueError(
                f"a rollout says no 'reward', and {trained} does not follow from its turns"
            )
    return filled
