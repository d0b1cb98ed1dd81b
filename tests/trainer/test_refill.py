"""Steps that are refilled (`rollouts.refill`): what is rolled out, recorded and trained on, and
what verify says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.log.record_bytes import Record
from rods.buffers.merging.merger import recorded_slots
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS
from rods.buffers.state import RunState, read_state
from rods.config import Config, parse_config
from rods.console.api import open_training
from rods.console.foreign_trainer import merge, observe
from rods.errors import RefusedError, UserError
from rods.observations import Group, Rollout
from rods.trainer import batches, simulated, trl_grpo, trl_start
from rods.trainer.prerequisites import split
from rods.trainer.simulated import SimulatedPolicy
from rods.trainer.training_run import TrainingRun
from rods.worlds import desk
from rods.worlds.sources import load_tasks
from tests.buffers.audit.test_verify import problems, rewrite
from tests.environments import Late
from tests.trainer.runs import live_steps

SIZE = 6
COUNT = 4
TASKS = Late(lambda: desk.generate(3, 24, 4))
BATCH_SCALE = {"advantage_scale": "batch"}


def configured(refill: int, **sections: Any) -> Config:
    values = {
        "policy": {"kind": "simulated"},
        "rollouts": {"rollouts_per_task": COUNT, "refill": refill},
        "training": {"batch_tasks": SIZE, "steps": 12, "checkpoint_steps": 5}
        | sections.pop("training", {}),
        **sections,
    }
    return parse_config(values, where="test")


def trained(folder: Path, refill: int, **sections: Any) -> Run:
    run = create_run(folder, configured(refill, **sections), TASKS)
    with TrainingRun(run) as training:
        simulated.train(training)
    return run


def steps_of(run: Run) -> list[list[Group]]:
    return [step.groups for step in RunState(run).steps()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(
        tmp_path_factory.mktemp("refill") / "run",
        2,
        selection={"order": "advantage"},
        training=BATCH_SCALE,
    )


def test_groups_that_agree_are_replaced_in_the_same_step_by_other_tasks(run: Run) -> None:
    every = steps_of(run)
    filled = more = 0
    for groups in every:
        kept = [group for group in groups if not group.replaced]
        assert (
            len(kept) == SIZE and len({group.task for group in groups[SIZE:]}) == len(groups) - SIZE
        )
        assert not {group.task for group in groups[:SIZE]} & {group.task for group in groups[SIZE:]}
        assert not any(group.disagrees for group in groups if group.replaced)
        lacking = sum(not group.disagrees for group in groups[:SIZE])
        filled += lacking > 0 and all(group.disagrees for group in kept)
        more += len(groups) > SIZE + lacking  # a second round
        assert len(groups) - SIZE <= 2 * lacking and (len(groups) > SIZE) == (lacking > 0)
    assert filled and more
    assert verify(run.path).counts["groups that refill"] == sum(
        len(groups) - SIZE for groups in every
    )
    assert verify(run.path).ok


def test_every_rollout_is_an_observation_and_advantages_are_those_of_what_is_trained_on(
    run: Run,
) -> None:
    every = steps_of(run)
    tracker = read_state(run).tracker
    for group in every[-1]:
        window = tracker.window(group.task)
        assert (
            tracker.last_step(group.task) == len(every)
            and window is not None
            and window.last_step == len(every)
        )
    for groups in every:
        for group in groups:
            told = [rollout.advantage for rollout in group.rollouts]
            assert len(told) == COUNT and (any(told) if group.disagrees else told == [0.0] * COUNT)


def test_the_policy_learns_from_what_was_not_replaced(run: Run) -> None:
    policy = SimulatedPolicy(run.config)
    for groups in steps_of(run):
        before = policy.skill
        policy.practise(groups)
        share = sum(group.disagrees for group in groups) / SIZE
        assert policy.skill == pytest.approx(before + run.config.policy.growth * share)


def test_an_epoch_visits_its_tasks_as_without_refills(run: Run) -> None:
    for epoch in range(3):
        visited = [
            group.task
            for step in RunState(run).steps()
            if step.epoch == epoch
            for group in step.groups[:SIZE]
        ]
        slots = [slot.task_id for slot in recorded_slots(run, read_state(run).pool_at(epoch))]
        assert visited == slots[: len(visited)] and len(visited) == 24


def test_without_the_switch_a_step_is_what_it_was(tmp_path: Path) -> None:
    off = trained(tmp_path / "off", 0)
    by_hand = create_run(tmp_path / "by_hand", configured(0), TASKS)
    with TrainingRun(by_hand) as training:
        policy = SimulatedPolicy(by_hand.config)
        training.begin(policy)
        while training.stopping is None:
            batch = training.next_batch()
            training.record(batch, groups := policy.groups(batch))
            policy.practise(groups)
            training.after_update()
    told = [[step.record["digest"] for step in RunState(one).steps()] for one in (off, by_hand)]
    assert told[0] == told[1] and len(told[0]) == 12
    assert all(len(groups) == SIZE for groups in steps_of(off))
    assert b"replaced" not in (off.path / OBSERVATIONS).read_bytes() and verify(off.path).ok


def test_a_run_that_was_stopped_ends_like_one_that_was_not(tmp_path: Path, run: Run) -> None:
    parted = create_run(tmp_path / "parted", run.config, TASKS)
    for stop in (7, 100):  # the last checkpoint before is of step 5
        with TrainingRun(parted) as training:
            policy = SimulatedPolicy(parted.config)
            training.begin(policy)
            while training.stopping is None and training.step < stop:
                batch, groups = training.roll_out(training.next_batch(), policy.groups)
                training.record(batch, simulated.estimated(groups, parted.config))
                policy.practise(groups)
                training.after_update()
    assert read_state(parted).attempt == 2
    assert live_steps(parted.path) == live_steps(run.path) and verify(parted.path).ok


def test_a_refill_that_the_rules_do_not_give_is_found(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", 2)
    whole = (run.path / OBSERVATIONS).read_bytes()
    others = {task.id for task in TASKS if task.split == "train"}

    def forged(change: Any) -> str:
        (run.path / OBSERVATIONS).write_bytes(whole)
        done: list[Record] = []

        def once(record: Record) -> Record | None:
            if not done and (changed := change(dict(record))) != record:
                done.append(record)
                return changed
            return record

        rewrite(run.path / OBSERVATIONS, once)
        assert done
        return problems(run)

    def other_task(record: Record) -> Record:
        if record.get("index", 0) >= SIZE:
            met = {group.task for group in steps_of(run)[record["step"] - 1]}
            record["task"] = min(others - met)
        return record

    def unmarked(record: Record) -> Record:
        record.pop("replaced", None)
        return record

    def shown_as_replaced(record: Record) -> Record:
        return record | ({"replaced": True} if record["kind"] == "group" else {})

    others_met = forged(other_task)
    assert "is refilled by tasks" in others_met and "and the rules give tasks" in others_met
    for change in (unmarked, shown_as_replaced):
        assert "its groups that are replaced are not those that the rewards give" in forged(change)


def test_a_mark_in_a_run_that_refills_nothing_is_found(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", 0)
    rewrite(
        run.path / OBSERVATIONS,
        lambda record: record | ({"replaced": True} if record.get("index") == 1 else {}),
    )
    assert "its groups that are replaced are not those that the rewards give" in problems(run)


def test_a_cpu_takes_as_many_sequences_at_once_as_a_group_has(tmp_path: Path) -> None:
    config = configured(0)
    tasks, group = config.training.batch_tasks, config.rollouts.rollouts_per_task
    assert tasks > 1 and group % 2 == 0
    assert split(config, 1, gpu=False) == (tasks * group, group)
    assert split(config, 1) == (tasks * group, tasks * group)
    assert split(config, 2 * tasks, gpu=False)[1] == group // 2, "half a group is a process's part"
    asked = configured(0, operation={"micro_batch": 1})
    assert split(asked, 1, gpu=False)[1] == split(asked, 1)[1] == 1


def test_what_cannot_be_refilled_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r'rollouts\.refill .* training\.advantage_baseline to "group"'
    ):
        configured(1, training={"advantage_baseline": "batch"})
    config = configured(1)
    assert split(config, 1)
    with pytest.raises(UserError, match="rolled out by one process, not by 2"):
        split(config, 2)
    run = create_run(tmp_path / "run", config, TASKS)
    for refused in (
        lambda: merge(run.path, epoch=0),
        lambda: list(observe(run.path, [])),
        lambda: open_training(run.path, lambda messages: "done"),
    ):
        with pytest.raises(RefusedError, match="only `rods-train` follows"):
            refused()
    plain = create_run(tmp_path / "plain", configured(0), TASKS)
    task = merge(plain.path, epoch=0).tasks[0][1]
    rollouts = [{"resolved": 0, "expected": task.expected}]
    with pytest.raises(UserError, match="no step of this run is refilled"):
        list(
            observe(
                plain.path,
                [{"task": task.id, "replaced": True, "rollouts": rollouts}, {"end_step": 1}],
            )
        )


@pytest.mark.needs("simulation")
def test_drawn_tasks_and_refills_are_refused_together() -> None:
    with pytest.raises(UserError, match=r"rollouts\.refill .* no tasks be drawn"):
        configured(1, source={"drawn": 0.5})


@pytest.mark.slow
def test_trl_trains_on_the_groups_that_disagree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nano learns nothing here: whether a group disagrees is given, by its place in the step."""
    monkeypatch.setenv("RODS_CACHE", str(tmp_path / "cache"))
    values = {
        "data": {"tasks": "desk-small", "train": 8, "held_out": 4},
        "policy": {"kind": "nano", "warm_start_steps": 1},
        "rollouts": {
            "rollouts_per_task": 2,
            "refill": 3,
            "max_reply_tokens": 6,
            "max_context_tokens": 256,
            "max_steps": 2,
        },
        "training": {
            "batch_tasks": 3,
            "steps": 2,
            "learning_rate": 0.01,
            "kl": 0.0,
            "checkpoint_steps": 1,
        },
        "operation": {"threads": 1, "trace_every": 1},
    }
    config = parse_config(values, where="test")
    run = create_run(tmp_path / "run", config, load_tasks(config.data, tmp_path))
    earned = iter([0.0, 1.0, 0.5, 0.5, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0] + [0.0] * 24)

    def score(trace: Any, *given: Any) -> Any:
        return Rollout(0, trace.expected, 0, 0.0, next(earned), "finished")

    trained_on: list[Any] = []
    made = trl_grpo.RunTrainer._generate_and_score_completions

    def watch(self: Any, inputs: Any) -> Any:
        output = made(self, inputs)
        trained_on.append((self.samples, self.refilled, output))
        return output

    monkeypatch.setattr(batches, "score", score)
    monkeypatch.setattr(trl_grpo.RunTrainer, "_generate_and_score_completions", watch)
    with TrainingRun(run) as training:
        trl_start.train(training)
    one, other = steps_of(run)
    # v u u | u v | v: two rounds; in the second step nothing ever disagrees, and no task is left
    # after five groups
    assert [group.disagrees for group in one] == [True, False, False, False, True, True]
    assert [group.replaced for group in one] == [False, True, True, True, False, False]
    assert [group.replaced for group in other] == [False] * 3 + [True] * 5 and len(
        {g.task for g in other}
    ) == 8
    samples, (every, _), output = trained_on[0]
    assert samples == [*every[:2], *every[8:12]] and len(every) == 12
    for row, sample in enumerate(samples):
        answered = output["completion_mask"][row].bool()
        assert output["completion_ids"][row][answered].tolist() == sample.completion_ids
    signs = np.sign(output["advantages"].cpu().numpy()).tolist()
    assert signs == [-1, 1, -1, 1, 1, -1]
    assert len({tuple(sample.completion_ids) for sample in every}) > 6, (
        "each rollout draws for itself"
    )
    assert verify(run.path, replay=True).ok
