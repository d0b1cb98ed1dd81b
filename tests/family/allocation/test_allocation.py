"""The rollouts of a step go where rewards have differed, as many as ever in all; verify derives
each group's size."""

from __future__ import annotations

import shutil
import statistics
from collections import defaultdict
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.folds.observations import digest
from rods.buffers.log.tail import read
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS
from rods.config import parse_config
from rods.errors import UserError
from rods.extension import new_folds, sizes_of
from rods.family.allocation.extension import Variances, divided
from rods.family.seal.weights import weighted
from rods.faults import Label
from rods.observations import Rollout
from rods.trainer import batches, simulated, trl_grpo
from rods.trainer.advantages import AdvantageEstimate, advantages, estimated
from rods.trainer.training_run import TrainingRun
from rods.worlds import desk
from rods.worlds.sources import load_tasks
from tests.buffers.audit.test_verify import rewrite
from tests.trainer.nano_parts import saved

ROLLOUTS = 8
TASKS = 6
STEPS = 24
VALUES: dict[str, Any] = {
    "policy": {"kind": "simulated", "skill": 0.4, "growth": 0.0},
    "rollouts": {"rollouts_per_task": ROLLOUTS},
    "training": {"batch_tasks": TASKS, "steps": STEPS, "checkpoint_steps": 8},
    "selection": {"seeds_per_step": 0},
    "allocation": {"enabled": True, "least": 2},
}


def made(path: Path, **changes: Any) -> Run:
    values = {section: keys | changes.get(section, {}) for section, keys in VALUES.items()}
    return create_run(path, parse_config(values, where="test"), desk.generate(7, 18, 4))


def steps_of(path: Path) -> dict[int, list[Any]]:
    steps = defaultdict[int, list[Any]](list)
    for record in read(path / OBSERVATIONS):
        if record["kind"] == "group":
            steps[record["step"]].append(record)
    return steps


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = made(tmp_path_factory.mktemp("allocation") / "run")
    # the second start goes on from a checkpoint, with folds from a snapshot and the log
    for limit in (10, 0):
        changed = run.config.model_copy(
            update={"operation": run.config.operation.model_copy(update={"step_limit": limit})}
        )
        run = Run.open(run.path, changed)
        with TrainingRun(run) as training:
            simulated.train(training)
    return run


def test_of_all_divisions_the_one_with_the_smallest_sum_is_found() -> None:
    for variances in product((0.25, 0.04, 0.01, 0.0), repeat=3):
        for total, least in ((12, 2), (11, 3), (9, 3)):
            sizes = divided(variances, total, least)
            every = (
                split for split in product(range(least, total + 1), repeat=3) if sum(split) == total
            )

            def spread(split: Any, variances: Any = variances) -> float:
                return sum(variance / size for variance, size in zip(variances, split, strict=True))

            assert sum(sizes) == total and min(sizes) >= least
            assert spread(sizes) == pytest.approx(min(map(spread, every)))


def test_every_step_has_as_many_rollouts_as_ever_and_they_go_where_rewards_have_differed(
    run: Run,
) -> None:
    steps = steps_of(run.path)
    assert len(steps) == STEPS
    assert {sum(len(group["rollouts"]) for group in groups) for groups in steps.values()} == {
        TASKS * ROLLOUTS
    }
    assert {len(group["rollouts"]) for group in steps[1]} == {ROLLOUTS}, "nothing is known of any"
    before = defaultdict[str, list[bool]](list)
    sizes = defaultdict[bool, list[int]](list)
    for groups in steps.values():
        for group in groups:
            if len(last := before[group["task"]][-2:]) == 2 and len(set(last)) == 1:
                sizes[last[0]].append(len(group["rollouts"]))
            before[group["task"]].append(len({one["reward"] for one in group["rollouts"]}) > 1)
    varied = sizes[True]
    alike = sizes[False]
    assert len(varied) > 20 and len(alike) > 10
    assert statistics.mean(varied) > ROLLOUTS + 1 and statistics.mean(alike) < ROLLOUTS - 2


def test_the_sizes_follow_from_the_steps_before_and_verify_derives_them(
    run: Run, tmp_path: Path
) -> None:
    folds = new_folds(run.config)
    for step, groups in steps_of(run.path).items():
        assert sizes_of(folds, [group["task"] for group in groups], run.config) == tuple(
            len(group["rollouts"]) for group in groups
        )
        folds["allocation"].apply(step, groups)
    again = Variances(run.config.allocation.discount)
    again.load(orjson.loads(orjson.dumps(folds["allocation"].state())))
    assert again.known == folds["allocation"].known and len(again.known) == 18  # type: ignore[attr-defined]
    report = verify(run.path)
    assert report.ok, report.problems
    assert report.counts["groups of derived size"] == STEPS * TASKS

    shutil.copytree(run.path, tmp_path / "run")
    told: list[dict[str, Any]] = []

    def moved(record: dict[str, Any]) -> dict[str, Any]:
        """Of step 9 a rollout of the first group stands in the second one."""
        if record.get("step") != 9 or record["kind"] not in ("group", "step"):
            return record
        if record["kind"] == "group":
            if record["index"] == 0:
                told.append(record["rollouts"][-1])
                record = {**record, "rollouts": record["rollouts"][:-1]}
            elif record["index"] == 1:
                record = {**record, "rollouts": [*record["rollouts"], told.pop()]}
            groups.append(record)
            return record
        envelope = ("seq", "id", "kind", "attempt", "step", "index", "crc")
        reported = [
            {key: value for key, value in group.items() if key not in envelope} for group in groups
        ]
        return {**record, "digest": digest(record["epoch"], record["policy_step"], reported)}

    groups = []
    rewrite(tmp_path / "run" / OBSERVATIONS, moved)
    (tmp_path / "run" / "tracker.json").unlink()
    problems = verify(tmp_path / "run").problems
    assert (
        problems[0]["where"] == "step 9 of attempt 1" and "the rules give" in problems[0]["what"]
    ), problems


def test_a_run_without_it_has_equal_groups(tmp_path: Path) -> None:
    run = made(tmp_path / "run", allocation={"enabled": False}, training={"steps": 4})
    with TrainingRun(run) as training:
        simulated.train(training)
    assert {
        len(group["rollouts"]) for groups in steps_of(run.path).values() for group in groups
    } == {ROLLOUTS}
    assert "groups of derived size" not in verify(run.path).counts


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rollouts": {"refill": 1}}, r"which rollouts\.refill does not have"),
        (
            {"allocation": {"least": 9}},
            r"allocation\.least is more than rollouts\.rollouts_per_task \(8\)",
        ),
        ({"allocation": {"least": 1}}, r"allocation\.least"),
    ],
)
def test_what_cannot_be_divided_is_refused(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(UserError, match=why):
        made(tmp_path / "run", **changes)


def test_all_tasks_weigh_the_same_and_a_hook_sees_which_rollouts_there_are() -> None:
    rows: list[list[float | None]] = [
        [1.0, 0.0, None, 1.0, 0.0, 1.0],
        [0.5, 0.0],
        [1.0, 1.0, 0.0, 0.0],
    ]
    estimate = estimated(rows, "group", "group")
    factors = [4 / len(row) for row in rows]
    for row, factor, found in zip(rows, factors, estimate.advantages, strict=True):
        own = advantages(np.array([row], dtype=np.float64), "group", "group")[0]
        assert found[: len(row)] == pytest.approx(factor * own) and not found[len(row) :].any()
        assert sum(found) == pytest.approx(0, abs=1e-12)
    flat = [reward for row in rows for reward in row]
    assert np.array_equal(
        estimate.rows(estimate.rewards), np.array(flat, dtype=np.float64), equal_nan=True
    )
    labels: list[tuple[Label, ...]] = [("pass",)] * len(flat)
    labels[6] = ("state_mismatch",)  # of the second group's first rollout
    views: Any = [
        SimpleNamespace(rollout=Rollout(0, 1, 0, 0.0, 0.0, "finished", labels=one))
        for one in labels
    ]
    hook = weighted(**{"pass": 1.0, "state_mismatch": 3.0})
    found = hook(
        AdvantageEstimate(estimate.rewards, estimate.advantages, tuple(views), estimate.present)
    )
    expected = estimate.advantages.copy()
    expected[1, 0] *= 2  # 3 is more than a weight may be
    assert np.allclose(found, expected)


def test_the_real_trainer_trains_on_groups_of_unequal_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rewards are given, since an untrained policy earns none; rollouts, TRL's batch and the update
    are real."""
    rewards = iter([0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.2, 0.2, 0.2, 0.3] * 100)
    monkeypatch.setattr(
        batches,
        "score",
        lambda trace, *given: Rollout(0, trace.expected, 0, 0.0, next(rewards), "finished"),
    )
    saved(tmp_path / "policy")
    values: dict[str, Any] = {
        "data": {"tasks": "desk-small", "train": 3, "held_out": 4},
        "policy": {"kind": "transformers", "model": str(tmp_path / "policy"), "dialect": "compact"},
        "rollouts": {
            "rollouts_per_task": 4,
            "max_reply_tokens": 6,
            "max_context_tokens": 256,
            "max_steps": 2,
        },
        "training": {
            "batch_tasks": 3,
            "steps": 3,
            "learning_rate": 0.01,
            "optimizer": "muon",
            "kl": 0.0,
        }
        | {"advantage_scale": "batch"},
        "selection": {"seeds_per_step": 0, "order": "advantage"},
        "operation": {"threads": 1},
        "allocation": {"enabled": True, "least": 2},
    }
    config = parse_config(values, where="test")
    run = create_run(tmp_path / "run", config, load_tasks(config.data, tmp_path))
    with TrainingRun(run) as training:
        trl_grpo.train(training)
    steps = steps_of(run.path)
    sizes = [tuple(len(group["rollouts"]) for group in groups) for groups in steps.values()]
    assert (
        sizes[0] == (4, 4, 4)
        and {sum(each) for each in sizes} == {12}
        and len({*sizes[1], *sizes[2]}) > 1
    )
    for groups in steps.values():
        rows = [[one["reward"] for one in group["rollouts"]] for group in groups]
        estimate = estimated(rows, "group", "batch")
        trained = [one["advantage"] for group in groups for one in group["rollouts"]]
        assert trained == pytest.approx(estimate.rows(estimate.advantages), abs=1e-6)
    updates = [record for record in read(run.path / OBSERVATIONS) if record["kind"] == "update"]
    assert len(updates) == 3 and all(record["gradient_norm"] > 0 for record in updates)
    assert verify(run.path).ok
