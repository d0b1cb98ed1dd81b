"""Rewards that come about in processes of others are on the disk whole, or are none."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rods.errors import CorruptLogError, UserError
from rods.trainer.adapters.rewards_log import forget, put_down, rewards_by_place as by_place
from rods.trainer.adapters.stream import DrawnTask
from tests.buffers.world import make_run, originals

RANGE = (0.0, 1.0)
MANY = """
import sys
from pathlib import Path
from rods.trainer.adapters.rewards_log import put_down
for place in range(20):
    put_down(Path(sys.argv[1]), 3, place, place / 20, (0.0, 1.0))
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run").path


def the_log(run: Path) -> Path:
    (file,) = run.glob("logs/*/*/*.jsonl")
    return file


def test_a_line_cut_anywhere_is_no_reward_and_the_next_one_counts(run: Path) -> None:
    for place in range(3):
        put_down(run, 1, place, 0.5, RANGE)
    log = the_log(run)
    whole = log.read_bytes()
    begin = whole[:-1].rindex(b"\n") + 1
    for cut in range(begin, len(whole)):
        log.write_bytes(whole[:cut])
        before = {0: [0.5], 1: [0.5]}
        if cut < len(whole) - 1:  # a whole line without its newline is damage, not a cut
            assert by_place(run, 1) == before
            put_down(run, 1, 2, 0.25, RANGE)
            assert by_place(run, 1) == before | {2: [0.25]}
    damaged = bytearray(whole)
    damaged[begin // 2] ^= 1
    log.write_bytes(damaged)
    with pytest.raises(CorruptLogError, match=r"damaged record"):
        by_place(run, 1)


def test_a_disk_that_takes_few_bytes_at_a_time_has_them_all(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, bytes(data[:7])))
    put_down(run, 1, 0, 0.125, RANGE)
    monkeypatch.undo()
    assert by_place(run, 1) == {0: [0.125]}


@pytest.mark.parametrize(
    "reward", [float("nan"), float("inf"), -0.01, 1.01, 10**400, None, "x", [1.0], {}]
)
def test_what_no_step_may_have_is_refused_before_it_is_put_down(run: Path, reward: Any) -> None:
    with pytest.raises(UserError, match=r"step 4, place 2: a reward is .* → give a number"):
        put_down(run, 4, 2, reward, RANGE)
    assert not (run / "logs").exists()
    if reward is not None:  # for a group, that is a rollout that broke
        with pytest.raises(UserError, match=r"rewards are .* → give a list of numbers"):
            DrawnTask(originals()[0], "active", 0, 0).group([reward], RANGE)


def test_processes_and_threads_put_down_side_by_side(run: Path) -> None:
    command = [sys.executable, "-c", MANY, str(run)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda place: put_down(run, 3, place, place / 20, RANGE), range(20)))
    assert [process.wait() for process in processes] == [0, 0]
    assert by_place(run, 3) == {place: [place / 20] * 3 for place in range(20)}
    forget(run, 3)
    assert by_place(run, 3) == {}
