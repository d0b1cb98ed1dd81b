"""`rods up` with real processes: either one may be killed, a signal stops both, the same command
goes on."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.conftest import CONFIG, rods

SLOW = (
    CONFIG.replace('sync = "lockstep"', "").replace("steps = 14", "steps = 24")
    + "steps_per_second = 8\n"
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(SLOW)
    return path


@contextlib.contextmanager
def started(run: Path, config: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [
        sys.executable,
        "-m",
        "rods.console",
        "up",
        str(run),
        "--config",
        str(config),
        "--json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def pid_of(run: Path, name: str) -> int | None:
    """The living process of that name, by its heartbeat."""
    try:
        found = json.loads((run / f"heartbeat.{name}.json").read_text())
    except (OSError, ValueError):
        return None
    return None if found.get("state") == "stopped" else int(found["pid"])


def wait_for_step(run: Path, step: int) -> None:
    """Until the trainer has closed `step`, with both processes alive."""
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            closed = (run / "observations.jsonl").read_bytes().count(b'"kind":"step"')
            if closed >= step and pid_of(run, "daemon") and pid_of(run, "trainer"):
                return
        time.sleep(0.05)
    raise AssertionError("the run did not get going")


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return (
        not Path(f"/proc/{pid}/stat").exists()
        or Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    )


@pytest.mark.slow
def test_either_process_may_be_killed_and_the_run_still_finishes(
    tmp_path: Path, config: Path
) -> None:
    run = tmp_path / "run"
    with started(run, config) as up:
        wait_for_step(run, 3)
        for name in ("daemon", "trainer"):
            pid = pid_of(run, name)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        out, err = up.communicate(timeout=120)
    assert up.returncode == 0, out + err
    said = [event["text"] for event in events(out) if event["event"] == "said"]
    for name in ("daemon", "trainer"):
        assert any(line.startswith(f"{name} was killed by SIGKILL") for line in said)
        assert any(line.startswith(f"{name} started again") for line in said)
    last = [event for event in events(out) if event["event"] == "progress"][-1]
    assert (last["step"], last["finished"]) == (24, True)
    assert last["attempt"] == 2
    assert rods("verify", run).returncode == 0


@pytest.mark.slow
def test_a_signal_stops_both_in_seconds_and_the_same_command_goes_on(
    tmp_path: Path, config: Path
) -> None:
    run = tmp_path / "run"
    config.write_text(SLOW.replace("steps_per_second = 8", "steps_per_second = 3"))
    with started(run, config) as up:
        wait_for_step(run, 3)
        pids = [pid_of(run, "trainer"), pid_of(run, "daemon")]
        up.send_signal(signal.SIGTERM)
        out, err = up.communicate(timeout=60)
    assert up.returncode == 5, out + err
    assert "was killed" not in out  # STOPPED seconds are more than either needs
    assert not any(pid and alive(pid) for pid in pids)
    before = json.loads(rods("status", run, "--json").stdout)
    assert 3 <= before["step"] < 24
    # operation may change at every start
    config.write_text(SLOW.replace("steps_per_second = 8", ""))
    done = rods("up", run, "--config", config)
    assert done.returncode == 0, done.stdout + done.stderr
    after = json.loads(rods("status", run, "--json").stdout)
    assert after["step"] == 24
    assert rods("verify", run).returncode == 0


@pytest.mark.slow
def test_when_up_itself_is_killed_no_process_is_left_over(tmp_path: Path, config: Path) -> None:
    run = tmp_path / "run"
    config.write_text(SLOW.replace("steps = 24", "steps = 4000"))
    with started(run, config) as up:
        wait_for_step(run, 2)
        pids = [pid for name in ("trainer", "daemon") if (pid := pid_of(run, name))]
        up.kill()
        up.wait()
        deadline = time.monotonic() + 20
        while any(map(alive, pids)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(alive, pids))


@pytest.mark.slow
def test_a_second_up_beside_the_first_is_refused(tmp_path: Path, config: Path) -> None:
    run = tmp_path / "run"
    config.write_text(SLOW.replace("steps = 24", "steps = 4000"))
    with started(run, config) as up:
        wait_for_step(run, 2)
        second = rods("up", run)
        assert second.returncode == 3, second.stdout + second.stderr
        assert "pid" in second.stdout
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=60)


def test_a_finished_run_is_finished_at_once(finished_run: Path) -> None:
    done = rods("up", finished_run)
    assert done.returncode == 0
    *lines, last = done.stdout.splitlines()
    # a line beside it says which picks came too late for the last merge
    (written,) = [line for line in lines if line.startswith("  written: ")]
    assert "staged for the next epoch" in written and last == "  the run is finished"


@pytest.mark.slow
def test_a_finished_run_goes_on_to_more_steps(run_copy: Path) -> None:
    for _ in range(2):  # the same command again finds it finished
        done = rods("up", run_copy, "--steps", "16")
        assert done.returncode == 0, done.stderr
        told = json.loads(rods("status", run_copy, "--json").stdout)
        assert (told["step"], told["steps"]) == (16, 16)
    assert rods("verify", run_copy).returncode == 0
    shorter = rods("up", run_copy, "--steps", "12")
    assert shorter.returncode == 3 and "step 16 is done" in shorter.stderr


def test_more_steps_are_asked_of_a_run_that_is_there(tmp_path: Path, config: Path) -> None:
    for options in (["--steps", "9"], ["--steps", "9", "--config", config]):
        done = rods("up", tmp_path / "none", *options)
        assert done.returncode == 2 and not (tmp_path / "none").exists(), done.stderr
