"""The sweeps see what they are there to see: a writer that promises too early is found out, and
ours is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import comparison, sweeps
from tests.faults.forge import Forge


@pytest.fixture(scope="module")
def writers(forge: Forge, scratch: Path) -> dict[str, comparison.BareWriter]:
    return {kind: comparison.BareWriter(kind, forge, scratch / "bare") for kind in ("log", "plain")}


@pytest.mark.few(1, others="slow")
@pytest.mark.parametrize("sweep", sweeps.SWEEPS, ids=lambda sweep: sweep.__name__)
def test_our_log_keeps_its_promises(
    writers: dict[str, comparison.BareWriter], sweep: sweeps.Sweep
) -> None:
    row = sweep(writers["log"], 4)
    assert row.survived == row.tried > 2, row.failures[:5]


def test_append_and_flush_does_not(writers: dict[str, comparison.BareWriter]) -> None:
    torn = sweeps.kills(writers["plain"], 1)
    cut = sweeps.power_cuts(writers["plain"], 1)
    assert torn.lost and torn.wrong, "a torn line swallows the record behind it"
    assert cut.lost > 6, "what was flushed only is gone with the power"


@pytest.mark.sweep
def test_system_calls_of_other_libraries_are_struck_by_strace(scratch: Path) -> None:
    if not comparison.possible():
        pytest.skip("no strace here, or it may not trace")
    for kind in ("log", "sqlite"):
        row = comparison.struck(kind, "kill -9 at every system call", scratch / "strace", 9)
        assert row.survived == row.tried >= 2, row.failures[:5]
