"""A schedule that draws tasks for slots of a run: by its rules, the same again after a kill and
for `rods verify`."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS
from rods.config import parse_config
from rods.errors import UserError
from rods.family.schedule import slots
from rods.family.schedule.slots import Earned
from rods.family.schedule.standings import choose
from rods.trainer.simulated import SimulatedPolicy
from rods.trainer.training_run import TrainingRun
from tests.daemon.runs import make_run

SHARED = {
    "sync": "free",
    "policy": {"kind": "simulated", "growth": 0.03},
    "training": {"batch_tasks": 6, "steps": 24, "checkpoint_steps": 4},
}


def run_with(path: Path, **schedule: object) -> Run:
    return make_run(path, {**SHARED, "schedule": schedule} if schedule else SHARED)


def played(run: Run, steps: int) -> None:
    """Makes `steps` further steps of the run, from its latest checkpoint, and is gone."""
    with TrainingRun(run) as training:
        policy = SimulatedPolicy(run.config)
        training.begin(policy)
        for _ in range(steps):
            batch, groups = training.roll_out(training.next_batch(), policy.groups)
            training.record(batch, groups)
            policy.practise(groups)
            training.after_update()


def drawn(run: Run) -> dict[int, list[str]]:
    """By step what a schedule drew, of the last attempt that made it."""
    tasks: dict[tuple[int, int], list[str]] = {}
    for record in read(run.path / OBSERVATIONS):
        if record["kind"] == "group" and record["role"] == "drawn":
            tasks.setdefault((record["step"], record["attempt"]), []).append(record["task"])
    return {step: names for (step, _), names in sorted(tasks.items())}


def test_slots_of_a_batch_are_drawn_by_the_rules_and_verify_derives_each(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", share=0.5)
    played(run, 12)
    tasks = drawn(run)
    assert [len(names) for names in tasks.values()] == [3] * 12
    assert {name for names in tasks.values() for name in names} <= run.training.keys()
    assert not verify(run.path).problems
    # what earned nothing for `retire_rollouts` is drawn less often than where nothing is retired
    other = run_with(tmp_path / "other", share=0.5, rules={"uniform": True})
    played(other, 12)
    assert drawn(other) != tasks
    assert not verify(other.path).problems


def test_another_draw_than_the_steps_before_give_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_with(tmp_path / "run", share=0.5)
    played(run, 4)
    monkeypatch.setattr(slots, "choose", lambda *given: choose(*given)[::-1])
    problems = [problem["what"] for problem in verify(run.path).problems]
    assert len(problems) == 8  # each but the one in the middle
    assert all("the schedule draws" in what for what in problems)


def test_a_trainer_that_was_killed_draws_the_same_again(tmp_path: Path) -> None:
    whole = run_with(tmp_path / "whole", share=0.5)
    played(whole, 12)
    run = run_with(tmp_path / "run", share=0.5)
    played(run, 7)  # the last checkpoint is of step 4
    played(Run.open(run.path), 5)
    played(Run.open(run.path), 4)
    assert drawn(run) == drawn(whole)
    assert not verify(run.path).problems


def test_a_fold_that_comes_from_a_snapshot_draws_the_same(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run", share=0.5)
    first = Earned(run.config)
    names = first.drawn(1, run.training)
    rollouts = [{"end": end, "resolved": 1, "expected": 2} for end in ("finished", "length")]
    groups = [{"task": name, "role": "drawn", "rollouts": rollouts} for name in names]
    first.apply(1, [*groups, {"task": "another", "role": "active", "rollouts": []}])
    second = Earned(run.config)
    second.load(orjson.loads(orjson.dumps(first.state())))
    assert second.steps == first.steps == {1: {name: [0.5, None] for name in names}}
    assert second.drawn(2, run.training) == first.drawn(2, run.training)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ({"share": 1.0}, "leaves the pool no slot"),
        ({"share": 0.5, "rules": {"targt": 0.5}}, "targt"),
        ({"rules": {"target": 0.5}}, "changes nothing without `share"),
    ],
)
def test_what_cannot_be_is_refused(schedule: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse_config({"schedule": schedule}, where="test")


def test_without_a_share_nothing_is_drawn(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run")
    played(run, 2)
    assert not drawn(run)
