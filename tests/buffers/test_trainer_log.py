"""Starts, steps and rewinds as the trainer writes them and others read them."""

from __future__ import annotations

import dataclasses
import time
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS, TRACKER, expanded_segment
from rods.buffers.state import RunState
from rods.buffers.trainer_log import TrainerLog
from rods.config import Zones
from rods.daemon.watching import Watch
from rods.errors import RefusedError, UserError
from rods.rules.order import batch
from tests.buffers.world import BATCH, Players, SyncDaemonLog, group, make_run


def start(run: Run, from_step: int | None = None) -> Players:
    log = TrainerLog(run)
    log.start(from_step)
    return Players(run, log, None)


def steps_of(run: Run) -> list[tuple[int, int]]:
    return [(step.attempt, step.step) for step in RunState(run).steps()]


def test_a_step_is_one_group_closed_by_its_record(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    start(run).epoch(0, steps=1)
    records = list(read(run.path / OBSERVATIONS))
    assert [record["kind"] for record in records] == ["start", *["group"] * BATCH, "step"]
    closing = records[-1]
    assert (closing["first"], closing["groups"], closing["policy_step"]) == (2, BATCH, 0)
    assert [record["index"] for record in records[1:-1]] == list(range(BATCH))


def test_groups_of_weights_that_are_too_old_are_logged_and_say_nothing_about_a_zone(
    tmp_path: Path,
) -> None:
    for lag, counts in ((0, True), (2, True), (3, False)):
        run = make_run(tmp_path / str(lag), zones={"max_staleness": 2})
        log = start(run).trainer
        slots = log.merge(0, 1).slots
        for step in (1, 2, 3):
            assert log.write_step(step, 0, [group(log.task(slots[0].task_id), [1, 1, 0, 0])])
        task = log.task(slots[1].task_id)
        assert log.write_step(4, 0, [group(task, [1, 1, 0, 0])], policy_step=3 - lag)
        assert (log.state.tracker.window(task.id) is not None) is counts
        assert log.state.tracker.last_step(task.id) == 4  # it was met all the same
        watch = Watch(run)
        watch.look(0)
        newest = watch.due(0)
        assert newest is not None and newest.step == 4
        assert [signal.task for signal in watch.candidates(newest)] == [task.id] * counts
        log.write_tracker(force=True)
        assert verify(run.path).ok
        log.close()


def test_the_default_bound_of_staleness_is_out_of_reach_of_a_trainer_that_waits(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", zones={"max_staleness": 0})
    players = start(run)
    opened = players.epoch(0, steps=1)
    assert all(
        players.trainer.state.tracker.window(slot.task_id) for slot in batch(opened.slots, BATCH, 0)
    )
    assert run.config.zones.model_copy(update={"max_staleness": 8}) == Zones()


def test_an_identical_step_sent_twice_is_done_and_a_different_one_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    players = start(run)
    opened = players.epoch(0, steps=2)
    log = players.trainer
    tasks = [log.task(slot.task_id) for slot in batch(opened.slots, BATCH, 2)]
    groups = [group(task, [1, 0, 1, 0]) for task in tasks]
    assert log.write_step(3, 0, groups)
    size = (run.path / OBSERVATIONS).stat().st_size
    assert not log.write_step(3, 0, groups)
    assert (run.path / OBSERVATIONS).stat().st_size == size
    with pytest.raises(RefusedError, match="step 3 was recorded with other contents"):
        log.write_step(3, 0, [*groups[:-1], group(tasks[-1], [1, 1, 1, 1])])
    with pytest.raises(RefusedError, match="step 3 was recorded with other contents"):
        log.write_step(3, 1, groups)
    with pytest.raises(RefusedError, match="step 5 does not follow step 3"):
        log.write_step(5, 0, groups)


def test_a_reward_that_json_cannot_say_is_refused(tmp_path: Path) -> None:
    log = start(make_run(tmp_path / "run")).trainer
    opened = log.merge(0, 1)
    good = group(log.task(opened.slots[0].task_id), [1, 0])
    bad = dataclasses.replace(
        good, rollouts=(dataclasses.replace(good.rollouts[0], reward=float("nan")),)
    )
    with pytest.raises(RefusedError, match="epoch 3, but epoch 0 is open"):
        log.write_step(1, 3, [good])
    with pytest.raises(UserError, match="nan"):
        log.write_step(1, 0, [bad])
    with pytest.raises(UserError, match="no groups"):
        log.write_step(1, 0, [])


def test_nothing_is_written_before_an_attempt_starts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with TrainerLog(run) as log:
        with pytest.raises(RefusedError, match="start"):
            log.merge(0, 1)
        assert (run.path / OBSERVATIONS).stat().st_size == 0


def test_a_start_drops_later_steps_of_earlier_attempts_and_deletes_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    players = start(run)
    players.epoch(0)
    players.trainer.close()
    before = (run.path / OBSERVATIONS).read_bytes()
    again = start(run, from_step=1)
    assert again.trainer.state.last_step == 1
    assert (again.trainer.live(1, 1), again.trainer.live(1, 2), again.trainer.live(1, 0)) == (
        True,
        False,
        True,
    )
    assert (run.path / OBSERVATIONS).read_bytes().startswith(before)
    opened = again.trainer.merge(0, 1)
    again.step(opened, 1)
    again.step(opened, 2)
    assert steps_of(run) == [(1, 1), (2, 2), (2, 3)]
    again.trainer.close()
    third = start(run)
    assert (third.trainer.state.attempt, third.trainer.state.last_step) == (3, 3)
    assert third.trainer.live(2, 3)
    assert not third.trainer.live(1, 3)
    third.trainer.close()
    with pytest.raises(RefusedError, match="from step 9"):
        start(run, from_step=9)


def test_a_step_cut_off_by_a_kill_is_made_again(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    players = start(run)
    players.epoch(0, steps=2)
    players.trainer.close()
    path = run.path / OBSERVATIONS
    whole = path.read_bytes()
    last = [record for record in read(path) if record["kind"] == "step"][-1]
    lines = whole.splitlines(keepends=True)
    kept = len(b"".join(lines[: last["first"] - 1]))
    for cut in range(kept, len(whole), 97):
        path.write_bytes(whole[:cut])
        again = start(run)
        assert again.trainer.state.last_step == 1
        opened = again.trainer.merge(0, 1)
        again.step(opened, 1)
        again.trainer.close()
        assert steps_of(run) == [(1, 1), (2, 2)]


def test_readers_follow_rewinds(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    reader = RunState(run)
    players = start(run)
    players.epoch(0, steps=1)
    assert [step.step for step in reader.steps()] == [1]
    players.epoch(0, steps=0)
    opened = players.trainer.merge(0, 1)
    players.step(opened, 1)
    players.step(opened, 2)
    assert [step.step for step in reader.steps()] == [2, 3]
    players.trainer.close()
    for from_step in (2, 1):  # two starts between two looks
        players = start(run, from_step)
        if from_step == 2:
            players.step(players.trainer.merge(0, 1), 2)
        else:
            players.step(players.trainer.merge(0, 1), 1)
        players.trainer.close()
    assert [(step.attempt, step.step) for step in reader.steps()] == [(3, 2)]
    assert reader.rewound
    assert list(reader.steps()) == []
    assert not reader.rewound
    assert list(reader.tracker.windows()) == list(fresh(run).tracker.windows())


def fresh(run: Run) -> RunState:
    found = RunState(run)
    found.poll()
    return found


def test_the_tracker_on_disk_is_the_fold(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    players = start(run)
    players.epoch(0)
    assert not players.trainer.write_tracker()
    assert players.trainer.write_tracker(force=True)
    stored = orjson.loads((run.path / TRACKER).read_bytes())
    assert stored == orjson.loads(orjson.dumps(players.trainer.state.tracker_json()))
    assert (stored["version"], stored["step"]) == (2, 3)
    one = stored["tasks"][next(iter(run.training))]
    assert {"type", "origin", "last_step", "windows"} <= one.keys()
    assert {"mean", "variance", "count", "zone", "last_step", "trend"} <= one["windows"][0].keys()


def test_writing_the_tracker_is_held_to_its_share_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    players = start(run)
    now = [time.monotonic()]
    monkeypatch.setattr("rods.buffers.trainer_log.time.monotonic", lambda: now[0])

    def slow(path: Path, data: bytes) -> None:
        now[0] += 0.2

    monkeypatch.setattr("rods.buffers.run.run.replace", slow)
    written = []
    for _ in range(2000):
        now[0] += 0.1
        if players.trainer.write_tracker():
            written.append(now[0])
    assert len(written) > 3
    assert all(later - earlier >= 0.2 / 0.005 for earlier, later in pairwise(written))


def test_a_second_trainer_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with TrainerLog(run), pytest.raises(RefusedError, match="being written by trainer"):
        TrainerLog(run)
    TrainerLog(run).close()


def test_damage_in_the_middle_stops_the_start_and_leaves_a_copy(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    players = start(run)
    players.epoch(0, steps=2)
    players.trainer.close()
    path = run.path / OBSERVATIONS
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    with pytest.raises(UserError, match="damaged record"):
        TrainerLog(run)
    assert path.read_bytes() == data
    assert list(run.path.glob("observations.jsonl.corrupt.*"))


def test_a_log_that_was_cut_into_parts_is_continued(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    players = start(run)
    players.epoch(0, steps=2)
    players.trainer.close()
    LogWriter(run.path / OBSERVATIONS).rotate()
    again = start(run)
    assert again.trainer.state.last_step == 2
    again.step(again.trainer.merge(0, 1), 2)
    assert steps_of(run) == [(1, 1), (1, 2), (2, 3)]


def test_variants_whose_bytes_have_not_arrived_are_waited_for(tmp_path: Path) -> None:
    """A network file system may show the daemon's new length before the new bytes; only the
    trainer's own logs must be whole."""
    run = make_run(tmp_path / "run")
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        players = Players(run, trainer, daemon)
        players.epoch(0)
        trainer.write_tracker(force=True)
        part = run.path / expanded_segment(0)
        known = trainer.state.staging.seq
        before = part.stat().st_size
        slot = trainer.merge(1, 1).slots[0]
        players.synthesise(trainer.state.last_step + 1, 0, slot)
        arrived = part.read_bytes()
        part.write_bytes(arrived[:before] + bytes(100) + arrived[before + 100 :])
        trainer.write_tracker(force=True)
        assert trainer.state.staging.seq == known
        part.write_bytes(arrived)
        trainer.write_tracker(force=True)
        assert trainer.state.staging.seq == known + 1
