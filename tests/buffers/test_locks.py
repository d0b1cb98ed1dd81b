"""One owner a file, and a pulse that readers can judge."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from buffers.locks import Heartbeat, Ownership, buffer_lock, heartbeat_path, owner
from rods.errors import RefusedError

HOLD = """
import sys, time
from pathlib import Path
from buffers.locks import Ownership
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
    assert (present.pid, present.process) == (child.pid, "trainer")
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
            "import sys; from pathlib import Path; from buffers.locks import owner\n"
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


def test_the_buffer_lock_excludes_and_says_so(tmp_path: Path) -> None:
    with buffer_lock(tmp_path), pytest.raises(RefusedError, match="merging"), buffer_lock(tmp_path, timeout=0.05):
        pass
    with buffer_lock(tmp_path, timeout=0.05):
        pass


def test_a_heartbeat_moves_by_itself_and_carries_what_it_was_told(tmp_path: Path) -> None:
    beat = Heartbeat(tmp_path, "daemon", every=0.02).start()
    beat.beat(state="working", step=7)
    time.sleep(0.1)
    first = orjson.loads(heartbeat_path(tmp_path, "daemon").read_bytes())
    time.sleep(0.1)
    second = orjson.loads(heartbeat_path(tmp_path, "daemon").read_bytes())
    assert second["counter"] > first["counter"]
    assert (second["state"], second["step"], second["pid"]) == ("working", 7, os.getpid())
    beat.stop()
    last = orjson.loads(heartbeat_path(tmp_path, "daemon").read_bytes())
    time.sleep(0.1)
    assert orjson.loads(heartbeat_path(tmp_path, "daemon").read_bytes()) == last
    assert last["state"] == "stopped"
    assert [file.name for file in tmp_path.iterdir()] == ["heartbeat.daemon.json"]
