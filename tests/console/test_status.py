"""`rods status` on real processes: running, stuck, dead, stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from rods.console.main import run as rods
from tests.trainer.runs import command, write_config


def wait_for(run: Path, capsys: pytest.CaptureFixture[str], life: str) -> dict[str, Any]:
    deadline = time.monotonic() + 100
    while True:
        if (run / "manifest.json").exists():
            capsys.readouterr()
            assert rods(["status", str(run), "--json"]) == 0
            found: dict[str, Any] = json.loads(capsys.readouterr().out)["processes"]["trainer"]
            if found["life"] == life:
                return found
        assert time.monotonic() < deadline, life
        time.sleep(0.05)


@pytest.mark.slow
def test_a_trainer_is_running_stuck_dead_and_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    config = write_config(
        tmp_path / "c.toml", {"training.steps": 100_000, "operation.steps_per_second": 5.0}
    )
    child = subprocess.Popen(command(run, config), stderr=subprocess.DEVNULL)
    try:
        found = wait_for(run, capsys, "running")
        assert (found["pid"], found["alive"], found["process"]) == (child.pid, True, "trainer")
        monkeypatch.setattr("rods.buffers.run.heartbeat.SILENCE", 3.0)
        child.send_signal(signal.SIGSTOP)  # it holds its lock and does nothing
        assert wait_for(run, capsys, "stuck")["alive"]
        child.send_signal(signal.SIGCONT)
        wait_for(run, capsys, "running")
        child.kill()
        child.wait()
        assert not wait_for(run, capsys, "dead")["alive"]
        assert rods(["status", str(run)]) == 0
        assert "dead: it ended without a word" in capsys.readouterr().out
        child = subprocess.Popen(command(run, config), stderr=subprocess.DEVNULL)
        wait_for(run, capsys, "running")
        child.terminate()
        child.wait()
        wait_for(run, capsys, "stopped")
    finally:
        child.kill()
        child.wait()
