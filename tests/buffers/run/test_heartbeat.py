"""A pulse that readers can judge: running, idle, stuck, stopped and dead are told apart."""

from __future__ import annotations

import os
import time
from pathlib import Path

import orjson
import pytest

from rods.buffers.run.heartbeat import Heartbeat, heartbeat_path, judge, moves, read_heartbeat


def wait_for_counter(folder: Path, above: int) -> dict:
    while (found := read_heartbeat(folder, "daemon"))["counter"] <= above:
        time.sleep(0.01)
    return found


def test_a_heartbeat_moves_by_itself_and_carries_what_it_was_told(tmp_path: Path) -> None:
    beat = Heartbeat(tmp_path, "daemon", every=0.02).start()
    beat.beat(state="working", step=7)
    first = wait_for_counter(tmp_path, read_heartbeat(tmp_path, "daemon")["counter"] + 1)
    second = wait_for_counter(tmp_path, first["counter"])
    assert (second["state"], second["step"], second["pid"]) == ("working", 7, os.getpid())
    assert moves(tmp_path, "daemon", beat.place, seconds=5)
    beat.stop()
    last = read_heartbeat(tmp_path, "daemon")
    assert last["state"] == "stopped"
    assert not moves(tmp_path, "daemon", beat.place, seconds=5)
    assert read_heartbeat(tmp_path, "daemon") == last
    assert [file.name for file in tmp_path.iterdir()] == ["heartbeat.daemon.json"]


def test_running_idle_stuck_stopped_and_dead_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    beat = Heartbeat(tmp_path, "daemon")

    def life(*, alive: bool = True) -> str:
        beat._write()
        return judge(read_heartbeat(tmp_path, "daemon"), alive)

    beat.beat(progress=1, state="working")
    assert life() == "running"
    clock[0] += 500
    beat.beat(progress=1, state="working")
    assert life() == "running"
    clock[0] += 500
    beat.beat(progress=1, state="working")  # it talks, but nothing gets done
    assert life() == "stuck"
    beat.beat(progress=2, state="working")
    assert life() == "running"
    clock[0] += 2000
    beat.beat(progress=2, state="working")  # it once needed 1,000 s: now 2,000 are nothing unusual
    assert life() == "running"
    beat.beat(progress=2, state="idle")
    clock[0] += 4000
    beat.beat(progress=2, state="idle")
    assert life() == "idle"
    clock[0] += 10_000_000  # the counter moves, its loop says nothing
    assert life() == "stuck"
    assert life(alive=False) == "dead"
    beat.stop()
    assert life(alive=False) == "stopped"
    assert judge({}, False) == "never started"


def test_a_process_of_this_machine_that_was_halted_is_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat = Heartbeat(tmp_path, "trainer")
    beat.beat(state="training")
    beat._write()
    found = read_heartbeat(tmp_path, "trainer")
    assert judge(found, True) == "running"
    now = time.monotonic()
    monkeypatch.setattr("time.monotonic", lambda: now + 100)
    assert judge(found, True) == "stuck"
    assert judge({**found, "host": "elsewhere"}, True) == "running"


def test_a_torn_heartbeat_file_is_nothing(tmp_path: Path) -> None:
    heartbeat_path(tmp_path, "daemon").write_bytes(orjson.dumps({"counter": 1})[:-3])
    assert read_heartbeat(tmp_path, "daemon") == {}
