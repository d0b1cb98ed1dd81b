"""A trainer that is killed at any moment ends as one that nobody killed; and what a run without
kills visits.

`python -m tests.trainer.kills` kills forty times of each policy; this is a sample.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.buffers.merging.merger import recorded_slots
from rods.buffers.run.run import Run
from rods.buffers.state import read_state
from tests.faults.table import Row
from tests.trainer.kills import ANY_SEED, evidence, sweep
from tests.trainer.runs import live_steps

pytestmark = pytest.mark.slow

KILLS = 2


def all_survived(row: Row) -> None:
    assert row.survived == row.tried == KILLS, "\n".join([str(row), *row.failures])


@pytest.fixture(scope="module")
def lockstep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Row]:
    """The simulated policy, once without a kill (its folder) and once with some (the row)."""
    folder = tmp_path_factory.mktemp("lockstep")
    return folder / "whole", sweep(folder, "lockstep", "simulated", KILLS)


@pytest.mark.timeout(900)
def test_in_lockstep_kills_change_nothing(lockstep: tuple[Path, Row]) -> None:
    all_survived(lockstep[1])


@pytest.mark.timeout(900)
def test_in_free_mode_verify_agrees_and_no_committed_epoch_changes(tmp_path: Path) -> None:
    all_survived(sweep(tmp_path, "free", "simulated", KILLS))


@pytest.mark.timeout(900)
def test_in_lockstep_kills_change_no_drawn_task_and_no_difficulty(tmp_path: Path) -> None:
    all_survived(sweep(tmp_path, "lockstep", "drawn", KILLS, changes={"training.steps": 8}))
    drawn = evidence(tmp_path / "whole")["drawn task"]
    assert len(drawn) == 8 * 3 and drawn[-1][2] > 9, (
        "8 steps of 6 slots, half of them drawn, and difficulty has risen"
    )


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_in_lockstep_kills_change_no_step_that_is_refilled(tmp_path: Path) -> None:
    all_survived(
        sweep(
            tmp_path,
            "lockstep",
            "simulated",
            KILLS,
            changes={"rollouts.refill": 2, "training.steps": 12},
        )
    )
    steps = live_steps(tmp_path / "killed0")
    assert any(len(groups) > 6 for _, _, groups in steps) and any(
        group.get("replaced") for *_, groups in steps for group in groups
    )


@pytest.mark.timeout(900)
def test_in_lockstep_kills_change_no_bit_of_the_weights(tmp_path: Path) -> None:
    changes = ANY_SEED | {
        "training.steps": 6,
        "training.advantage_hook": "tests.trainer.runs:alternating",  # it learns whatever it earned
    }
    all_survived(sweep(tmp_path, "lockstep", "nano", KILLS, changes=changes))
    before, after = (evidence(tmp_path / "whole", step)["policy at the end"] for step in (0, 6))
    assert before["model.safetensors"] != after["model.safetensors"]


def test_every_epoch_visits_each_task_once_and_retired_ones_only_as_re_tests(
    lockstep: tuple[Path, Row],
) -> None:
    """Coverage begins anew with every injection; the last batch is filled from the front of the
    same order."""
    run = Run.open(lockstep[0])
    state = read_state(run)
    steps = live_steps(run.path)
    sizes = set()
    retests = 0
    # the last may have been cut by the number of steps
    for epoch in sorted({epoch for _, epoch, _ in steps})[:-1]:
        visited = [
            (group["task"], group["role"])
            for _, at, groups in steps
            if at == epoch
            for group in groups
        ]
        pool = state.pool_at(epoch)
        slots = [tuple(slot) for slot in recorded_slots(run, pool)]
        assert (
            visited == slots + slots[: len(visited) - len(slots)] and len(visited) - len(slots) < 6
        )
        assert sorted(task for task, role in slots if role == "active") == sorted(pool.active)
        again = [task for task, role in slots if role == "retest"]
        assert not pool.active.keys() & again
        sizes.add(len(pool.active))
        retests += len(again)
    assert len(sizes) > 2 and retests
