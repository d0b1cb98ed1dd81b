"""A run that is disturbed while it works: a second trainer and a second daemon, clocks that jump, a
folder that becomes read-only, is moved, or loses its locks. Real processes; each time the run says
clearly what is wrong or goes on unhurt, and in the end it resumes and `rods verify` agrees."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.console.conftest import CONFIG, rods
from tests.console.test_up import pid_of, wait_for_step

pytestmark = pytest.mark.slow

PACED = (
    CONFIG.replace('sync = "lockstep"', "").replace("steps = 14", "steps = 4000")
    + "steps_per_second = 6\n"
)
PATIENCE = 120.0  # seconds that a busy machine may take; what is meant to end does so by itself
PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE = 1
# Runs before the programs do: the wall clock jumps years ahead and back, and stands still, again
# and again.
JUMPING = """
import time
real, begin = time.time, time.monotonic()
JUMPS = (0.0, 3.2e8, -3.2e8, 1e10, None, -1.5e9)
def jumping():
    jump = JUMPS[int((time.monotonic() - begin) / 0.3) % len(JUMPS)]
    return 1.7e9 if jump is None else real() + jump
time.time = jumping
time.time_ns = lambda: int(jumping() * 1e9)
"""


def start(program: str, run: Path, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", f"rods.{program}", str(run)]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options
    )


@contextmanager
def at_work(run: Path, **options: Any) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Trainer and daemon of a new run, some steps on."""
    run.with_name("run.toml").write_text(PACED)
    assert rods("trainer", "new", run, "--config", run.with_name("run.toml")).returncode == 0
    found = {program: start(program, run, **options) for program in ("daemon", "trainer")}
    try:
        wait_for_step(run, 5)
        yield found
    finally:
        for process in found.values():
            process.kill()
            process.wait()


def ended(process: subprocess.Popen[str], code: int) -> str:
    """The last line of a process that ends by itself with `code`."""
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == code and "Traceback" not in said, said
    return said.strip().splitlines()[-1]


def stop(processes: dict[str, subprocess.Popen[str]]) -> None:
    for process in processes.values():
        process.send_signal(signal.SIGTERM)
    ended(processes["trainer"], 5)
    ended(processes["daemon"], 0)


def goes_on(run: Path) -> None:
    """The run goes on from where it was, and every decision in it can be derived again."""
    before = steps(run)
    some = run.with_name("some.toml")
    some.write_text(PACED.replace("steps_per_second = 6", "step_limit = 20"))
    done = rods("up", run, "--config", some)
    assert done.returncode == 5 and "Traceback" not in done.stderr, done.stdout + done.stderr
    assert steps(run) == before + 20
    verified = rods("verify", run, "--replay")
    assert verified.returncode == 0, verified.stdout


def steps(run: Path) -> int:
    return (run / "observations.jsonl").read_bytes().count(b'"kind":"step"')


def test_a_second_trainer_and_a_second_daemon_are_refused_and_the_first_go_on(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    with at_work(run) as first:
        for program in ("trainer", "daemon", "trainer", "daemon"):
            line = ended(start(program, run), 3)
            assert f"is being written by {program} (pid {first[program].pid} on " in line, line
            assert "→ a run has one trainer and one daemon; stop that one first" in line
        assert rods("trainer", "merge", run, "--epoch", "99").returncode == 3
        before = steps(run)
        wait_for_step(run, before + 5)
        assert all(process.poll() is None for process in first.values()), "the first were not hurt"
        assert (
            pid_of(run, "trainer") == first["trainer"].pid
            and pid_of(run, "daemon") == first["daemon"].pid
        )
        stop(first)
    starts = (run / "observations.jsonl").read_bytes().count(b'"kind":"start"')
    assert starts == 1, "who was refused wrote nothing"
    goes_on(run)


@pytest.mark.sweep
def test_clocks_that_jump_years_ahead_and_back_change_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    clock = tmp_path / "clock"
    clock.mkdir()
    (clock / "sitecustomize.py").write_text(JUMPING)
    with at_work(run, env={**os.environ, "PYTHONPATH": str(clock)}) as processes:
        before = steps(run)
        wait_for_step(run, before + 20)
        for _ in range(3):
            looked = rods("status", run)
            assert looked.returncode == 0 and "Traceback" not in looked.stderr, looked.stderr
            assert looked.stdout.count("running (pid") + looked.stdout.count("idle (pid") == 2, (
                looked.stdout
            )
        assert "is being written by trainer" in ended(start("trainer", run), 3)
        stop(processes)
    times = [
        json.loads(line)["time"]
        for line in (run / "seeds.jsonl").read_bytes().splitlines()
        if b'"time"' in line
    ]
    assert times != sorted(times) and max(times) - min(times) > 3e8, "the clock did jump"
    goes_on(run)


@pytest.mark.few("locks removed")
@pytest.mark.parametrize("harm", ["moved", "locks removed"])
def test_a_folder_that_is_moved_or_loses_its_locks_ends_both_with_one_clear_line(
    tmp_path: Path, harm: str
) -> None:
    run = tmp_path / "run"
    moved = tmp_path / "moved"
    with at_work(run) as processes:
        if harm == "moved":
            run.rename(moved)
        else:
            moved = run
            shutil.rmtree(run / "locks")
        line = ended(processes["trainer"], 2)
        assert f"rods-train: {run}: " in line  # what it says depends on what it was about to touch
        lost = (
            "the run folder was moved or removed, or its locks were",
            "with the folder's present name",
        )
        gone = "is not there", "a folder that was moved or removed is to be named where it is now"
        assert any(
            what in line and remedy in line
            for what, remedy in (lost, gone)[: 1 + (harm == "moved")]
        )
        assert (
            str(run) in (line := ended(processes["daemon"], 2)) and "was moved or removed" in line
        )
    assert harm != "moved" or not run.exists(), "nothing was made where the folder had been"
    goes_on(moved)


@pytest.mark.sweep
def test_up_says_that_the_folder_was_moved(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (tmp_path / "run.toml").write_text(PACED)
    command = [
        sys.executable,
        "-m",
        "rods.console",
        "up",
        str(run),
        "--config",
        str(tmp_path / "run.toml"),
    ]
    up = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_for_step(run, 5)
    run.rename(tmp_path / "moved")
    said, _ = up.communicate(timeout=PATIENCE)
    assert up.returncode == 2 and "Traceback" not in said, said
    assert "the run folder was moved or removed" in said or "is not there" in said, said
    assert not run.exists()
    goes_on(tmp_path / "moved")


def without_privilege() -> None:
    """Before a program starts: modes are to hold for root too (a disk mounted read-only:
    test_disks)."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE)


def test_a_folder_that_becomes_read_only_ends_the_trainer_with_the_remedy(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with at_work(run, preexec_fn=without_privilege) as processes:
        modes = [(path, path.stat().st_mode) for path in (run, *run.rglob("*"))]
        for path, mode in modes:
            with suppress(FileNotFoundError):  # a heartbeat's temporary file
                path.chmod(mode & 0o555)
        line = ended(processes["trainer"], 2)
        assert (
            line.startswith(f"rods-train: {run}/")
            and "Permission denied" in line
            and "writable" in line
        ), line
        second = ended(start("trainer", run, preexec_fn=without_privilege), 2)
        assert "Permission denied" in second and "→ make the run folder writable" in second, second
        processes["daemon"].send_signal(signal.SIGTERM)
        _, said = processes["daemon"].communicate(timeout=PATIENCE)
        assert "Traceback" not in said and processes["daemon"].returncode in (0, 2), said
        for path, mode in modes:
            with suppress(FileNotFoundError):
                path.chmod(mode)
    goes_on(run)
