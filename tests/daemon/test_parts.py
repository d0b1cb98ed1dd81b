"""The service's parts on their own: queue, neighbours, the trainer's signs of life."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from rods.buffers.folds.seeds import Unfinished
from rods.buffers.run.heartbeat import Heartbeat, read_heartbeat
from rods.daemon.watching import SeedQueue, TrainerLife
from rods.gates.similarity import DuplicateIndex
from rods.worlds import desk


def waiting(step: int, task: str, epoch: int = 0) -> Unfinished:
    return Unfinished(f"{step}-{task}", step, epoch, task, 0, {})


def drained(queue: SeedQueue) -> list[str]:
    return [taken.pick for taken in iter(queue.take, None)]


async def test_in_free_mode_the_newest_step_comes_first_and_one_two_steps_old_is_stale() -> None:
    queue = SeedQueue(2)
    queue.add([waiting(1, "a"), waiting(1, "b"), waiting(2, "c"), waiting(2, "d")])
    assert queue.advance(2, 0) == []
    queue.add([waiting(3, "e")])
    assert [stale.pick for stale in queue.advance(3, 0)] == ["1-a", "1-b"]
    assert drained(queue) == ["3-e", "2-c", "2-d"]


async def test_a_rewound_trainer_makes_nothing_fresh_again() -> None:
    queue = SeedQueue(2)
    queue.advance(9, 1)
    queue.add([waiting(7, "a"), waiting(8, "b")])
    assert [stale.pick for stale in queue.advance(3, 0)] == ["7-a"]


async def test_in_lockstep_nothing_is_dropped_and_a_pick_waits_for_the_pool_of_its_epoch() -> None:
    queue = SeedQueue(None)
    queue.add([waiting(5, "c", epoch=1), waiting(1, "a"), waiting(2, "b")])
    assert queue.advance(900, 0) == []
    assert drained(queue) == ["1-a", "2-b"] and len(queue) == 1
    queue.advance(900, 1)
    assert drained(queue) == ["5-c"]


async def test_whoever_waits_wakes_up_when_there_is_something_to_do() -> None:
    queue = SeedQueue(2)
    workers = [asyncio.create_task(queue.changed()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add([waiting(1, "a"), waiting(1, "b")])
    await asyncio.wait_for(asyncio.gather(*workers), 60)
    assert len(drained(queue)) == 2


def test_neighbours_are_originals_and_variants_and_in_free_mode_those_just_admitted() -> None:
    original, active, new, later = (task for task in desk.generate(7, 4, 0))
    again = replace(new, provenance={"another": "record of the same task"}, id="")
    free = DuplicateIndex([original], staging=True).renewed([active], 0)
    assert free.admit(original) and free.admit(active)
    assert free.admit(new) == [] and free.admit(again)
    before = free.on_record
    assert free.renewed([active], before).admit(again)  # not written yet
    free.written(new.id)
    assert free.renewed([active], before).admit(again)  # written after the logs were read
    assert free.on_record == 1
    assert free.renewed([active], 1).admit(again) == []  # written, read, refused by a merge
    assert free.renewed([], 0).admit(active) == []  # retired
    lockstep = DuplicateIndex([original], staging=False).renewed([active], 0)
    assert lockstep.admit(later) == [] and lockstep.admit(later) == []
    assert lockstep.admit(active)


def test_a_near_duplicate_counts_and_not_only_the_same_task() -> None:
    original = next(task for task in desk.generate(7, 8, 0) if task.type == "base")
    shown = tuple(
        name
        for name in original.tools
        if name in {call.name for turn in original.calls for call in turn}
    )
    copy = replace(original, tools=shown, id="")
    assert copy.id != original.id
    assert "equals that of task" in DuplicateIndex([original], staging=False).admit(copy)[0]


async def test_the_trainer_lives_while_its_heartbeat_or_its_steps_move(tmp_path: Path) -> None:
    life = TrainerLife(tmp_path)
    await asyncio.sleep(0.3)
    assert await life.gone_for(1) < 0.25  # a step: a foreign trainer need not beat
    heartbeat = Heartbeat(tmp_path, "trainer", every=0.02).start()
    seen = 0
    for _ in range(3):
        await asyncio.sleep(0.3)
        beat: dict[str, Any] = {}
        while beat.get("counter", 0) <= seen:  # a busy machine may have kept its thread from it
            beat = read_heartbeat(tmp_path, "trainer")
            await asyncio.sleep(0.01)
        seen = beat["counter"]
        assert await life.gone_for(1) < 0.25
    heartbeat.stop()
    await life.gone_for(1)
    await asyncio.sleep(0.3)
    assert await life.gone_for(1) >= 0.3
