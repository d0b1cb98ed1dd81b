"""The sweeps at a size that a quick run can afford; `make faults` tries every point
(docs/durability.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import checkpoint_sweeps, damage, random_kills, small_disk, sweeps
from tests.faults.table import Row
from tests.faults.workloads import Workload


def all_survived(row: Row, least: int) -> None:
    assert row.survived == row.tried >= least, "\n".join([str(row), *row.failures[:5]])
    assert (row.lost, row.twice, row.wrong) == (0, 0, 0)


@pytest.mark.few("kills-", "power_cuts")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "share", "least"),
    [
        ("kills", 18, 5),
        ("kills_of_recoveries", 40, 2),
        ("full_disk", 18, 3),
        ("failing_fsync", 18, 3),
        ("power_cuts", 32, 4),
    ],
)
def test_the_trainer_survives(trainer: Workload, name: str, share: int, least: int) -> None:
    all_survived(getattr(sweeps, name)(trainer, share), least)


@pytest.mark.few("kills")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "share", "least"), [("kills", 24, 2), ("full_disk", 35, 2), ("power_cuts", 32, 2)]
)
def test_a_run_is_made_whole_or_not_at_all(
    new_run: Workload, name: str, share: int, least: int
) -> None:
    all_survived(getattr(sweeps, name)(new_run, share), least)


@pytest.mark.few("kills-", "power_cuts")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "share", "least"),
    [
        ("kills", 50, 2),
        ("kills_of_recoveries", 50, 2),
        ("full_disk", 33, 3),
        ("failing_fsync", 33, 2),
        ("power_cuts", 80, 2),
    ],
)
def test_the_daemon_survives(daemon: Workload, name: str, share: int, least: int) -> None:
    all_survived(getattr(sweeps, name)(daemon, share), least)


@pytest.mark.slow
def test_a_disk_that_is_too_small_is_survived(trainer: Workload, daemon: Workload) -> None:
    if not small_disk.possible():
        pytest.skip("no mount namespaces here")
    all_survived(small_disk.full_tmpfs(trainer, 8), 2)
    all_survived(small_disk.full_tmpfs(daemon, 8), 2)


@pytest.mark.slow
def test_a_log_may_end_anywhere(daemon: Workload) -> None:
    all_survived(damage.truncations(daemon, share=500), 200)


@pytest.mark.slow
def test_no_flipped_bit_is_believed(daemon: Workload) -> None:
    all_survived(damage.flips(daemon, share=61), 2000)


@pytest.mark.sweep
def test_checkpoints_are_what_they_were_or_are_named(trainer: Workload, scratch: Path) -> None:
    all_survived(checkpoint_sweeps.swapped(trainer, share=4), 4)
    all_survived(checkpoint_sweeps.flipped(trainer, share=41), 10)
    if not small_disk.possible():
        pytest.skip("no mount namespaces here")
    all_survived(checkpoint_sweeps.full_disk("torch", scratch, share=6), 3)


@pytest.mark.sweep
def test_random_kills_under_load_take_nothing_back(scratch: Path) -> None:
    all_survived(random_kills.random_kills(scratch, 10), 11)
