"""What the daemon finds again after it was killed, and what it may write."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from rods.buffers.daemon_log import DaemonLog
from rods.buffers.folds.seeds import Seeds
from rods.buffers.log.parts import segments
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, REJECTED, SEEDS, operation
from rods.errors import RefusedError, UserError
from rods.tasks import Task
from tests.buffers.world import PICKED, SyncDaemonLog, make_run, variants


def pick(run: Run, log: SyncDaemonLog, step: int, *tasks: str) -> list[str]:
    log.picked(step, 0, [{"task": task} | PICKED for task in tasks])
    return [f"{step}-{task}" for task in tasks]


def test_picks_are_one_group_and_a_step_is_considered_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with SyncDaemonLog(run) as log:
        pick(run, log, 1, "a", "b")
        pick(run, log, 2)
        with pytest.raises(RefusedError, match="step 2 was considered"):
            pick(run, log, 2, "c")
        records = list(read(run.path / SEEDS))
        assert [one["kind"] for one in records] == ["picked", "picked", "considered", "considered"]
        assert [one["picks"] for one in records[2:]] == [2, 0]
        assert [one["rank"] for one in records[:2]] == [0, 1]


def test_a_folder_that_is_moved_while_its_logs_are_opened_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    poll = Seeds.poll

    def late(seeds: Seeds) -> object:
        run.path.rename(tmp_path / "moved")
        return poll(seeds)

    monkeypatch.setattr(Seeds, "poll", late)
    with pytest.raises(UserError, match="the run folder was moved or removed"):
        SyncDaemonLog(run)
    assert not run.path.exists()


def test_the_watermark_is_the_last_step_with_nothing_open_up_to_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with SyncDaemonLog(run) as log:
        [one] = pick(run, log, 1, "a")
        pick(run, log, 2)
        assert log.state.watermark == 0
        log.finished(one, [], 1)
        assert log.state.watermark == 2
        [late] = pick(run, log, 3, "b")
        assert log.state.watermark == 2
        log.finished(late, [], 0, dropped_stale="queue")
        assert log.state.watermark == 3
        [open_one] = pick(run, log, 5, "c")
        # damage took step 4's record: it will not be considered again
        assert log.state.watermark == 4
        log.finished(open_one, [], 0)
        assert log.state.watermark == 5
        other = Seeds(run.path)
        other.poll()
        assert other.watermark == 5
        assert other.last_picked == {"a": 1, "c": 5}


def test_after_a_kill_complete_picks_are_finished_and_others_wait(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    log = SyncDaemonLog(run)
    done, started, untouched = pick(run, log, 1, "a", "b", "c")
    one, two, *_ = variants()
    log.expanded(done, 0, one, {"generation": 1})
    log.finished(done, [one.id], 0)
    log.expanded(started, 0, two, {"generation": 1})
    log.close()
    again = SyncDaemonLog(run)
    assert list(again.state.unfinished) == [untouched]
    finished = [found for found in read(run.path / SEEDS) if found["kind"] == "finished"]
    assert [(found["pick"], found["accepted"]) for found in finished] == [
        (done, [one.id]),
        (started, [two.id]),
    ]
    again.close()


def test_a_variant_is_written_once_whoever_asks_again(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", pipeline={"variants_per_seed": 2})
    log = SyncDaemonLog(run)
    [one] = pick(run, log, 1, "a")
    first, second, *_ = variants()
    assert log.expanded(one, 0, first, {"generation": 1})
    log.close()
    log = SyncDaemonLog(run)
    assert log.state.unfinished[one].variants == {0: first.id}
    assert not log.expanded(one, 0, first, {"generation": 1})
    assert log.expanded(one, 1, second, {"generation": 1})
    assert [found["index"] for found in read(run.path / EXPANDED)] == [0, 1]
    with pytest.raises(RefusedError, match="no unfinished pick"):
        log.expanded("7-x", 0, second, {"generation": 1})
    log.close()


def test_parts_are_named_by_the_highest_epoch_read_and_never_go_back(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    fresh = iter(variants())

    def write(log: SyncDaemonLog, step: int) -> None:
        [one] = pick(run, log, step, "a")
        log.expanded(one, 0, next(fresh), {"generation": 1})

    log = SyncDaemonLog(run)
    write(log, 1)
    log.note_epoch(3)
    write(log, 2)
    log.close()
    log = SyncDaemonLog(run)
    log.note_epoch(1)
    write(log, 3)
    log.note_epoch(4)
    write(log, 4)
    log.close()
    parts = segments(run.path / EXPANDED)
    assert [part.name for part in parts] == [
        f"expanded_epoch_{epoch:04d}.jsonl" for epoch in (0, 3, 4)
    ]
    assert [len(part.read_bytes().splitlines()) for part in parts] == [1, 2, 1]
    assert [found["seq"] for found in read(run.path / EXPANDED)] == [1, 2, 3, 4]


def test_provenance_travels_with_the_variant_and_its_id_does_not_change(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with SyncDaemonLog(run) as log:
        [one] = pick(run, log, 1, "a")
        variant = variants()[0]
        log.expanded(one, 0, variant, {"generation": 1, "judge": "fine"})
        [found] = list(read(run.path / EXPANDED))
        assert found["task"]["provenance"] == {"generation": 1, "judge": "fine"}
        assert found["task"]["id"] == variant.id
        log.rejected(one, 1, stage="judge", error="vague", evidence={"turn": 2}, raw="…")
        [failed] = list(read(run.path / REJECTED))
        assert (failed["stage"], failed["error"], failed["evidence"]) == (
            "judge",
            "vague",
            {"turn": 2},
        )


async def test_what_many_workers_write_shares_syncs_and_none_is_made_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    log = DaemonLog(run)
    real = os.fdatasync
    threads = []

    def fdatasync(descriptor: int) -> None:
        threads.append(threading.current_thread())
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", fdatasync)

    async def work(pick: str, variant: Task) -> None:
        await log.rejected(pick, 0, stage="judge", error="vague", evidence={})
        assert await log.expanded(pick, 0, variant)
        assert [found["task"]["id"] for found in read(run.path / EXPANDED)].count(variant.id) == 1
        await log.finished(pick, [variant.id], 0)

    made = variants(20)
    await log.picked(1, 0, [{"task": f"t{number}"} | PICKED for number in range(20)])
    await asyncio.gather(*(work(f"1-t{number}", variant) for number, variant in enumerate(made)))
    log.close()
    assert threading.main_thread() not in threads
    assert len(threads) < 50  # 63 without sharing
    assert log.state.watermark == 1 and len(list(read(run.path / SEEDS))) == 41


def test_every_start_is_logged_with_its_operation(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    run.log_start("daemon", author="procedural")
    run.log_start("daemon", author="procedural")
    records = list(read(run.path / operation("daemon")))
    assert len({found["id"] for found in records}) == 2
    assert records[0]["operation"] == run.config.operation.model_dump(mode="json")
    assert {"host", "pid", "command", "versions", "author", "time"} <= records[0].keys()
