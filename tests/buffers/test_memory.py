"""What folds hold grows with what is alive, not with how long a run has been going on."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.buffers.trainer_log import TrainerLog
from rods.rules.order import EpochSlot, batch
from tests.buffers.merging.test_merger import close, play
from tests.buffers.world import BATCH, by_chance, group, make_run, retired

pytestmark = pytest.mark.slow


def history(path: Path, epochs: int) -> Run:
    """A run of so many epochs of three steps, without a daemon."""
    run = make_run(path)
    with TrainerLog(run) as trainer:
        trainer.start()
        for number in range(epochs):
            opened = trainer.merge(number, 1)
            for index in range(3):
                step = trainer.state.last_step + 1
                slots = batch(opened.slots, BATCH, index)
                tasks = [run.training[slot.task_id] for slot in slots]
                rewards = [
                    by_chance(step, slot, task.expected)
                    for slot, task in zip(slots, tasks, strict=True)
                ]
                groups = [group(task, earned) for task, earned in zip(tasks, rewards, strict=True)]
                trainer.write_step(step, number, groups)
    return run


def folded(run: Run) -> RunState:
    state = RunState(run)
    for _ in state.steps():
        pass
    return state


def held(run: Run) -> int:
    """Bytes that the folds of a run hold. What other threads take meanwhile, such as
    pytest-xdist's, is left out."""
    folded(run)  # what is imported and remembered on the way belongs to nobody
    gc.collect()
    tracemalloc.start(20)
    try:
        kept = folded(run)
        gc.collect()
        assert kept
        ours = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(True, __file__, all_frames=True)]
        )
        return sum(trace.size for trace in ours.traces)
    finally:
        tracemalloc.stop()


def test_a_step_leaves_a_few_bytes_in_the_folds(tmp_path: Path) -> None:
    short = history(tmp_path / "short", 30)
    long = history(tmp_path / "long", 130)
    # an epoch's share included; its records alone take 800
    assert (held(long) - held(short)) / 300 < 160


def mastered(step: int, slot: EpochSlot, expected: int) -> list[int]:
    return [expected] * 4


@pytest.mark.parametrize("rule", ["capacity", "drift_mastered"])
def test_what_has_left_for_good_stays_on_the_disk_alone_and_can_be_read_again(
    tmp_path: Path, rule: str
) -> None:
    if rule == "capacity":
        players = play(
            tmp_path / "run", 6, pool={"burn_in": False, "drift": False, "max_generated": 2}
        )
    else:
        players = play(tmp_path / "run", 6, mastered)
    state = players.trainer.state
    gone = retired(state)
    assert rule in {why for why, _, _ in gone.values()}
    left = gone.keys() - state.pool.revivable.keys()
    assert left and all(map(state.pool.gone, left)) and not any(map(state.pool.gone, state.active))
    assert left <= set(state.tracker.tasks) and not left & state.tracker_json()["tasks"].keys()
    assert {state.task(task_id).id for task_id in gone} == set(gone)
    first = next(iter(state.active.keys() - players.run.training.keys()), None)
    assert first is None or state.task(first) is state.task(first)  # active ones are kept
    assert not any(state.task(task_id) is state.task(task_id) for task_id in left)
    close(players)
    with TrainerLog(players.run) as trainer:
        trainer.start(2)  # back to where none was decided about: all wait again
        assert (
            len(trainer.state.staging)
            == trainer.state.staging.seq
            > len(trainer.state.pool.decided)
            == 0
        )
