"""`rods verify` also looks the checkpoints over, and `rods recover` sets those aside that no longer
fit."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from rods.buffers.run.run import Run
from rods.console.main import run as rods
from rods.console.verbs.verify import checked
from tests.buffers.audit.test_repair import hit
from tests.console.conftest import rods as start


def newest(run: Path) -> Path:
    return sorted((run / "checkpoints").glob("step_*"))[-1]


def test_live_checkpoints_are_compared_with_the_logs(finished_run: Path) -> None:
    report = checked(finished_run)
    assert report.ok and report.counts["checkpoints"] > 1


@pytest.mark.parametrize("harm", ["weights", "order"])
def test_a_checkpoint_that_does_not_fit_is_named(run_copy: Path, harm: str) -> None:
    folder = newest(run_copy)
    if harm == "weights":
        [file] = [path for path in (folder / "policy").rglob("*") if path.is_file()]
        file.write_bytes(file.read_bytes() + b" ")
    else:
        manifest = orjson.loads((folder / "manifest.json").read_bytes())
        (folder / "manifest.json").write_bytes(orjson.dumps({**manifest, "order_hash": "0" * 20}))
    [problem] = checked(run_copy).problems
    assert problem["where"] == f"checkpoint {folder.name}"


@pytest.mark.slow
def test_checkpoints_beyond_a_lost_merge_are_set_aside_and_the_trainer_goes_on(
    run_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record of the third epoch is damaged: the run goes back to what stands before it."""
    beyond = newest(run_copy)
    hit(Run.open(run_copy), "pool.jsonl", "epoch", 2)
    assert rods(["verify", str(run_copy)]) == 1
    rods(["recover", str(run_copy), "--yes"])
    assert f"checkpoint {beyond.name}" in capsys.readouterr().out
    assert not beyond.exists() and (run_copy / "checkpoints" / "incomplete" / beyond.name).exists()
    done = start("up", run_copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert checked(run_copy).ok


@pytest.mark.parametrize(("answer", "done"), [(b"y\n", True), (b"n\n", False)])
def test_on_a_terminal_recovery_asks_and_does_only_what_was_agreed_to(
    run_copy: Path, answer: bytes, done: bool
) -> None:
    hit(Run.open(run_copy), "pool.jsonl", "injected")
    before = (run_copy / "pool.jsonl").read_bytes()
    terminal, keyboard = pty.openpty()
    os.write(terminal, answer)
    ended = subprocess.run(
        [sys.executable, "-m", "rods.console", "recover", str(run_copy)],
        stdin=keyboard,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    os.close(terminal)
    os.close(keyboard)
    assert "damaged from byte" in ended.stdout and "[y/N]" in ended.stdout + ended.stderr
    assert ended.returncode == (0 if done else 1), ended.stdout + ended.stderr
    assert ((run_copy / "pool.jsonl").read_bytes() == before) is not done
    assert (run_copy / "recovered").exists() is done  # nothing is deleted: the old file lies there
