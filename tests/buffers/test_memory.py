"""What folds hold grows with what is alive, not with how long a run has been going on."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from buffers.folds.observations import Observations
from buffers.folds.pool import PoolView
from buffers.folds.seeds import Seeds
from buffers.folds.staging import Candidate
from buffers.run.run import Run
from buffers.trainer_log import TrainerLog
from rods.rules.order import EpochSlot, batch
from tests.buffers.merging.test_merger import close, play
from tests.buffers.world import BATCH, by_chance, group, make_run, retired


def history(path: Path, epochs: int) -> Run:
    """A run of so many epochs of three steps, without a daemon."""
    run = make_run(path)
    with TrainerLog(run) as trainer:
        trainer.start()
        for number in range(epochs):
            opened = trainer.merge(number, 1)
            for index in range(3):
                step = trainer.last_step + 1
                slots = batch(opened.slots, BATCH, index)
                tasks = [run.training[slot.task_id] for slot in slots]
                rewards = [by_chance(step, slot, task.expected_turns) for slot, task in zip(slots, tasks, strict=True)]
                groups = [group(task, earned) for task, earned in zip(tasks, rewards, strict=True)]
                trainer.write_step(step, number, groups)
    return run


def folded(run: Run) -> tuple[Observations, PoolView]:
    observations = Observations(run)
    for _ in observations.steps():
        pass
    view = PoolView(run, observations)
    view.poll()
    return observations, view


def held(run: Run) -> int:
    """Bytes that the folds of a run hold."""
    folded(run)  # what is imported and remembered on the way belongs to nobody
    gc.collect()
    tracemalloc.start()
    try:
        kept = folded(run)
        gc.collect()
        assert kept
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_a_step_leaves_a_few_bytes_in_the_folds(tmp_path: Path) -> None:
    short, long = history(tmp_path / "short", 30), history(tmp_path / "long", 130)
    assert (held(long) - held(short)) / 300 < 120  # an epoch's share included; its records alone take 800


def candidates() -> int:
    gc.collect()
    return sum(isinstance(one, Candidate) for one in gc.get_objects())


def mastered(step: int, slot: EpochSlot, expected: int) -> list[int]:
    return [expected] * 4


@pytest.mark.parametrize("rule", ["capacity", "drift_mastered"])
def test_variants_that_will_hardly_come_back_are_forgotten_and_can_be_read_again(tmp_path: Path, rule: str) -> None:
    before = candidates()
    if rule == "capacity":
        players = play(tmp_path / "run", 6, pool={"burn_in": False, "drift": False, "max_generated": 2})
    else:
        players = play(tmp_path / "run", 6, mastered)
    view, tracker = players.trainer.view, players.trainer.observations.tracker
    gone = retired(players.run, players.trainer.observations)
    assert rule in {why for why, _, _ in gone.values()}
    left = gone.keys() - view.pool.revivable.keys()
    assert left and not left & set(tracker.tasks)
    assert candidates() - before == view.staging.seq - len(left)
    assert {view.task(task_id).id for task_id in gone} == set(gone)
    close(players)
    with TrainerLog(players.run) as trainer:
        trainer.start(2)  # back to where none was decided about: all wait again
        view = trainer.view
        waiting = view.staging.candidates(view.staging.seq, view.pool.decided, by_pick=False)
        assert len(waiting) == view.staging.seq > len(view.pool.decided) == 0


def test_what_was_picked_is_remembered_for_as_long_as_it_excludes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("buffers.folds.seeds.FEW", 4)
    seeds = Seeds(tmp_path, exclusion_steps=5)
    for step in range(1, 101):
        picked = {"kind": "picked", "pick": f"{step}-t{step}", "step": step, "epoch": 0, "task": f"t{step}", "rank": 0}
        for record in (picked, {"kind": "considered", "step": step}):
            seeds.apply(record)
        seeds.apply({"kind": "finished", "pick": f"{step}-t{step}", "dropped_stale": None})
        assert {f"t{earlier}" for earlier in range(max(1, step - 5), step + 1)} <= seeds.last_picked.keys()
        assert len(seeds.last_picked) <= 20
    assert seeds.watermark == 100
