"""Every setting of the algorithm changes the update, and the advantage hook sees what it was
promised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from rods.buffers.run.creation import create_run
from rods.config import parse_config
from rods.observations import Rollout
from rods.trainer import advantages, batches, token_scores, trl_start
from rods.trainer.training_run import TrainingRun
from rods.worlds.sources import load_tasks
from tests.trainer.nano_parts import saved
from tests.trainer.runs import live_steps

TASKS = 3
ROLLOUTS = 4
VALUES: dict[str, Any] = {
    "data": {"tasks": "desk-small", "train": 6, "held_out": 4},
    "rollouts": {
        "rollouts_per_task": ROLLOUTS,
        "max_reply_tokens": 6,
        "max_context_tokens": 256,
        "max_steps": 2,
    },
    "training": {
        "batch_tasks": TASKS,
        "steps": 1,
        "learning_rate": 0.01,
        "optimizer": "muon",
        "kl": 0.0,
        "passes": 2,
    },
    "operation": {"threads": 1},
}


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    rewards = iter([None, 1.0, 0.0, 0.3, 0.2, 0.9, 0.1, 0.9, 0.4, 0.5, 0.6, 1.0] * 100)

    def score(trace: Any, *given: Any) -> Rollout:
        """An untrained policy earns nothing: rewards that differ, in every group in another way."""
        reward = next(rewards)
        return Rollout(
            0, trace.expected, 0, 0.0, reward, "infrastructure" if reward is None else "finished"
        )

    monkeypatch.setattr(batches, "score", score)
    folder = tmp_path_factory.mktemp("updates")
    saved(folder / "policy")
    return folder


def train(folder: Path, **changes: Any) -> tuple[list[float], Path]:
    """Trains; the gradient norm of each step's last pass, and the run's folder. Rollouts and
    rewards are the same whatever is changed in [training]."""
    rollouts = VALUES["rollouts"] | {
        key: changes.pop(key) for key in list(changes) if key in VALUES["rollouts"]
    }
    zones = {"probe": changes.pop("probe", "group")}
    pool = {"retirement": zones["probe"] == "group"}  # a window of single rollouts is no judgement
    selection = {"order": changes.pop("order", "proxy")}
    policy = {"kind": "transformers", "model": str(folder.parent / "policy"), "dialect": "compact"}
    values = {
        **VALUES,
        "policy": policy,
        "rollouts": rollouts,
        "zones": zones,
        "pool": {**VALUES.get("pool", {}), **pool},
        "selection": selection,
        "training": {**VALUES["training"], **changes},
    }
    config = parse_config(values, where="test")
    run = create_run(folder, config, load_tasks(config.data, folder))
    with TrainingRun(run) as training:
        trl_start.train(training)
    last = sorted((run.path / "checkpoints").glob("step_*"))[-1]
    return orjson.loads((last / "manifest.json").read_bytes())["curriculum"]["norms"], folder


def scored_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the number of rollouts of every pass."""
    rows: list[int] = []
    compute = token_scores.score_tokens

    def scored(*args: Any, **options: Any) -> Any:
        rows.append(len(args[2]))
        return compute(*args, **options)

    monkeypatch.setattr(token_scores, "score_tokens", scored)
    return rows


@pytest.mark.numeric
@pytest.mark.slow
def test_each_setting_of_the_algorithm_changes_the_update(home: Path) -> None:
    changes: dict[str, dict[str, Any]] = {
        "kl": {"kl": 0.5},
        "warm_up_steps": {"warm_up_steps": 3},
        "clip_low": {"clip_low": 1e-4},
        "clip_high": {"clip_high": 1e-4},
        "loss": {"loss": "rollout"},
        "passes": {"passes": 1},
        "leave_one_out": {"advantage_baseline": "leave_one_out"},
        "batch": {"advantage_baseline": "batch"},
        "no scale": {"advantage_scale": "none"},
        "batch scale": {"advantage_scale": "batch"},
    }
    (usual,), _ = train(home / "usual")
    (again,), _ = train(home / "again")
    assert usual == again > 0
    found = {
        name: train(home / name.replace(" ", "-"), **change)[0][0]
        for name, change in changes.items()
    }
    assert {
        name: norm for name, norm in found.items() if norm == pytest.approx(usual, rel=1e-4)
    } == {}
    assert len({round(norm, 6) for norm in found.values()}) == len(found)
    clipped = train(home / "both", clip_low=1e-6, clip_high=1e-6)[0][0]
    assert clipped < 0.7 * usual  # what has moved the way of its advantage teaches nothing any more


@pytest.mark.numeric
@pytest.mark.slow
def test_several_passes_are_one_step_of_the_run(home: Path) -> None:
    norms, folder = train(home / "run", steps=2)
    assert len(norms) == 2
    assert [step for step, *_ in live_steps(folder)] == [1, 2]
    assert (folder / "checkpoints" / "step_00000002.a1").exists()


@pytest.mark.numeric
@pytest.mark.slow
def test_one_rollout_a_task_is_trained_against_its_batch(home: Path) -> None:
    one = {
        "rollouts_per_task": 1,
        "advantage_baseline": "batch",
        "advantage_scale": "batch",
        "probe": "window",
    }
    norms, folder = train(home / "run", **one, batch_tasks=6, steps=2)
    assert all(norm > 0 for norm in norms)
    assert [[len(group["rollouts"]) for group in groups] for *_, groups in live_steps(folder)] == [
        [1] * 6
    ] * 2


SEEN: list[advantages.AdvantageEstimate] = []


def remember(estimate: advantages.AdvantageEstimate) -> Any:
    SEEN.append(estimate)
    return estimate.advantages


def test_a_hook_sees_rewards_advantages_spans_and_errors(home: Path) -> None:
    SEEN.clear()
    _, folder = train(home / "run", advantage_hook=f"{__name__}:remember")
    ((_, _, groups),) = live_steps(folder)
    (estimate,) = SEEN
    recorded = np.array(
        [[one["reward"] for one in group["rollouts"]] for group in groups], dtype=np.float64
    )
    assert np.array_equal(estimate.rewards, recorded, equal_nan=True)
    assert np.array_equal(estimate.advantages, advantages.advantages(recorded, "group", "group"))
    assert [seen.task.id for seen in estimate.rollouts] == [
        group["task"] for group in groups for _ in range(ROLLOUTS)
    ]
    for seen in estimate.rollouts:
        assert len(seen.turns) == len(seen.trace.turns)
        ends = [end for _, end in seen.turns]
        assert ends == sorted(ends) and ends[-1] <= seen.tokens


@pytest.mark.slow
@pytest.mark.numeric
def test_an_update_reads_the_rollouts_that_have_an_advantage_and_no_others(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = scored_rows(monkeypatch)
    train(home / "run", passes=1)
    assert sum(rows) == TASKS * ROLLOUTS - 1  # a broken rollout has the advantage 0


@pytest.mark.slow
@pytest.mark.numeric
def test_of_a_group_that_has_no_advantage_one_rollout_is_read_and_teaches_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = scored_rows(monkeypatch)
    monkeypatch.setattr(batches, "score", lambda *given: Rollout(1, 1, 0, 0.0, 1.0, "finished"))
    norms, _ = train(home / "run", passes=1)
    assert rows == [1] * TASKS and norms == [0.0]


@pytest.mark.slow
@pytest.mark.numeric
def test_leaving_out_what_has_no_advantage_changes_no_gradient(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (spared,), _ = train(home / "spared", passes=1)
    monkeypatch.setattr(token_scores.OwnTokenLoss, "_with_advantage", lambda self, output: output)
    (whole,), _ = train(home / "whole", passes=1)
    assert spared == pytest.approx(whole, rel=1e-4)


def as_a_critic_would(estimate: advantages.AdvantageEstimate) -> Any:
    """One value a token, whose mean over rollout i is i + 0.5."""
    return [
        np.arange(seen.tokens) - (seen.tokens - 1) / 2 + i + 0.5
        for i, seen in enumerate(estimate.rollouts)
    ]


@pytest.mark.slow
def test_advantages_as_they_are_trained_on_stand_in_the_log_where_selection_reads_them(
    home: Path,
) -> None:
    _, plain = train(home / "plain", advantage_scale="batch")
    ((_, _, groups),) = live_steps(plain)
    assert not any("advantage" in one for group in groups for one in group["rollouts"])
    _, folder = train(home / "batch", order="advantage", advantage_scale="batch")
    ((_, _, groups),) = live_steps(folder)
    recorded = np.array(
        [[one["reward"] for one in group["rollouts"]] for group in groups], dtype=np.float64
    )
    found = [[one["advantage"] for one in group["rollouts"]] for group in groups]
    assert np.allclose(found, advantages.advantages(recorded, "group", "batch"), atol=1e-11)
    _, folder = train(
        home / "hook", order="advantage", advantage_hook=f"{__name__}:as_a_critic_would"
    )
    ((_, _, groups),) = live_steps(folder)
    assert [one["advantage"] for group in groups for one in group["rollouts"]] == [
        i + 0.5 for i in range(12)
    ]
