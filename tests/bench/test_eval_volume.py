"""A benchmark against a failing server, killed meanwhile, ends as one that nothing disturbed: a
small one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.eval_volume import play
from rods.worlds.bfcl.world import Bfcl


@pytest.mark.sweep
@pytest.mark.parametrize(
    "benchmark, part",
    [
        ("bfcl", ("--tasks-per-type", 6)),  # of several turns
        # of several conversations
        ("bfcl_memory", ("--types", "memory_rec_sum", "--tasks-per-type", 3)),
    ],
)
def test_nothing_is_lost_doubled_or_blamed_on_the_policy(
    bfcl: Bfcl, tmp_path: Path, benchmark: str, part: tuple[object, ...]
) -> None:
    ended = play(benchmark, tmp_path, 2, *part)
    assert (ended.lost, ended.twice, ended.different, ended.table) == (0, 0, 0, True)
    # a fast machine is done before the second
    assert ended.kills >= 1 and ended.faults > 5 and ended.items > 20
