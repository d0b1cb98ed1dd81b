"""One owner a file, on this machine and on others."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import orjson
import pytest

from rods.buffers.run.heartbeat import Heartbeat, ProcessLocation, moves, read_heartbeat
from rods.buffers.run.locks import Owner, Ownership, owner
from rods.buffers.run.runfolder import LOCKS
from rods.errors import RefusedError, UserError

HOLD = """
import sys, time
from pathlib import Path
from rods.buffers.run.locks import Ownership
held = Ownership(Path(sys.argv[1]), "pool.jsonl", "trainer")
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_owner_is_told_who_where_and_since_when_and_death_frees(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    with pytest.raises(RefusedError, match=rf"trainer \(pid {child.pid} on .*\) since \d{{4}}-"):
        Ownership(tmp_path, "pool.jsonl", "trainer")
    present = owner(tmp_path, "pool.jsonl")
    assert present is not None
    assert (present.place.pid, present.process) == (child.pid, "trainer")
    assert owner(tmp_path, "seeds.jsonl") is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert owner(tmp_path, "pool.jsonl") is None
    with Ownership(tmp_path, "pool.jsonl", "trainer"):
        assert owner(tmp_path, "pool.jsonl") is not None
    assert owner(tmp_path, "pool.jsonl") is None


def test_looking_at_the_owner_does_not_keep_one_from_starting(tmp_path: Path) -> None:
    Ownership(tmp_path, "pool.jsonl", "trainer").release()
    looker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from rods.buffers.run.locks import owner\n"
            "print('on', flush=True)\nwhile True: owner(Path(sys.argv[1]), 'pool.jsonl')",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
    )
    assert looker.stdout is not None
    looker.stdout.readline()
    try:
        for _ in range(200):
            Ownership(tmp_path, "pool.jsonl", "trainer").release()
    finally:
        looker.kill()
        looker.wait()


def elsewhere(folder: Path, *, host: str = "node9", boot_id: str = "another boot") -> Owner:
    """Records that a trainer on another machine owns pool.jsonl."""
    present = Owner("trainer", ProcessLocation(host, 4711, boot_id, "815"), 1767225600.0)
    (folder / LOCKS).mkdir(exist_ok=True)
    (folder / LOCKS / "pool.jsonl.owner").write_bytes(orjson.dumps(present.as_json()))
    return present


class Beating:
    """The heartbeat of a process of another machine, whose clock is years off."""

    def __init__(self, folder: Path, present: Owner) -> None:
        self.heartbeat = Heartbeat(folder, present.process, every=0.05)
        self.heartbeat._facts |= {**asdict(present.place), "since": 1.0}

    def __enter__(self) -> None:
        self.heartbeat.start()

    def __exit__(self, *_: object) -> None:
        self.heartbeat.stop()


def test_an_owner_on_another_machine_holds_while_its_counter_moves(tmp_path: Path) -> None:
    present = elsewhere(tmp_path)
    with Beating(tmp_path, present):
        assert owner(tmp_path, "pool.jsonl") == present
        with pytest.raises(
            RefusedError, match=r"trainer \(pid 4711 on node9, job 815\) since 202[56]-"
        ):
            Ownership(tmp_path, "pool.jsonl", "trainer")


def test_an_owner_on_another_machine_is_gone_once_its_counter_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the reader's own clock: that the file says "a second ago" does not matter."""
    monkeypatch.setattr(
        "rods.buffers.run.locks.moves",
        lambda folder, process, place, *_: moves(folder, process, place, 0.3),
    )
    present = elsewhere(tmp_path)
    beating = Beating(tmp_path, present)
    beating.heartbeat._write()
    assert owner(tmp_path, "pool.jsonl") is None
    with Ownership(tmp_path, "pool.jsonl", "trainer"):
        assert read_heartbeat(tmp_path, "trainer")["pid"] == os.getpid()


def test_what_was_released_is_free_at_once_whoever_had_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = elsewhere(tmp_path)
    record = {**present.as_json(), "released": True}
    (tmp_path / LOCKS / "pool.jsonl.owner").write_bytes(orjson.dumps(record))
    monkeypatch.setattr(
        "rods.buffers.run.locks.moves", lambda *given: pytest.fail("nobody need be watched")
    )
    with Ownership(tmp_path, "pool.jsonl", "trainer"):
        mine = owner(tmp_path, "pool.jsonl")
        assert mine is not None and mine.place.pid == os.getpid()


def test_without_flock_the_counter_decides_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(descriptor: int, mode: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", none)
    with Ownership(tmp_path, "pool.jsonl", "trainer"):
        assert owner(tmp_path, "pool.jsonl") is not None
        with pytest.raises(RefusedError, match="being written by trainer"):
            Ownership(tmp_path, "pool.jsonl", "other")
    assert owner(tmp_path, "pool.jsonl") is None
    Ownership(tmp_path, "pool.jsonl", "other").release()


def test_a_lock_that_outlived_its_machine_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system may keep a lock for a client that is gone."""
    elsewhere(tmp_path)
    monkeypatch.setattr("rods.buffers.run.locks.moves", lambda *given: False)
    with (tmp_path / LOCKS / "pool.jsonl.owner").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RefusedError, match=r"whose heartbeat has stopped → .*rods recover"):
            Ownership(tmp_path, "pool.jsonl", "trainer")


@pytest.mark.slow
def test_an_owner_that_was_given_up_for_dead_notices_it(tmp_path: Path) -> None:
    """As a machine does that slept while another one took over."""
    with Ownership(tmp_path, "pool.jsonl", "trainer") as held:
        held.check()
        elsewhere(tmp_path)
        with (
            pytest.raises(
                RefusedError, match=r"pool\.jsonl is being written by trainer \(pid 4711 on node9"
            ),
            held.held(),
        ):
            raise AssertionError("it must not work on")


def test_what_fails_because_the_folder_is_gone_says_so(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with Ownership(tmp_path / "run", "pool.jsonl", "trainer") as held:
        with (
            pytest.raises(UserError, match=r"/run: the run folder was moved or removed"),
            held.held(),
        ):
            (tmp_path / "run").rename(tmp_path / "moved")
            (tmp_path / "run" / "tracker.json").write_text("")
        with pytest.raises(UserError, match="moved or removed"):
            held.check()
