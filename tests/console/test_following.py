"""`rods status --follow`: lines until a run is finished."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rods.family.page.dash import unpacked
from tests.console.conftest import rods
from tests.trainer.runs import command, write_config


@contextmanager
def following(run: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "rods.console", "status", str(run), "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(process: subprocess.Popen[str], told: str) -> str:
    """What it has printed up to a line with `told`."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if told in line:
            return seen
    raise AssertionError(seen)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return unpacked(tmp_path)


@pytest.fixture
def stopped_run(run: Path) -> Path:
    """The same, as if it were to go on: with more steps."""
    assert rods("trainer", "extend", run, "--steps", "60").returncode == 0
    return run


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_in_silence(stopped_run: Path, number: int, code: int) -> None:
    with following(stopped_run) as process:
        until(process, "step 50/60")
        process.send_signal(number)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == code and "Traceback" not in rest


def test_damage_is_one_line(run: Path) -> None:
    file = run / "observations.jsonl"
    file.write_bytes(b"x" + file.read_bytes()[1:])
    told = rods("status", run, "--follow")
    assert told.returncode == 2 and "the checksum does not match the line" in told.stderr
    assert "Traceback" not in told.stderr


def test_grave_events_are_shown_and_hostile_text_does_not_steer_the_terminal(
    stopped_run: Path,
) -> None:
    odd = {
        "timestamp": "2999",
        "process": "daemon",
        "level": "error",
        "event": "oh\x1b]0;title\x07 \u202e[red]",
    }
    with following(stopped_run) as process:
        until(process, "the run is")
        with (stopped_run / "logs" / "daemon.jsonl").open("a") as log:
            log.write(json.dumps(odd) + "\n")
        seen = until(process, "error     oh")
        assert "\x1b" not in seen and "\u202e" not in seen and "[red]" in seen


def test_it_says_where_a_finished_run_stands_and_ends(run: Path) -> None:
    for told in (rods("status", run, "--follow"), rods("status", run, "--follow", "--json")):
        assert told.returncode == 0, told.stderr
        assert "\x1b" not in told.stdout
    *_, progress, state = (json.loads(line) for line in told.stdout.splitlines())
    assert (progress["event"], progress["step"], progress["finished"]) == ("progress", 50, True)
    assert state == {"event": "said", "text": "the run is finished"}


@pytest.mark.slow
def test_lines_come_until_the_run_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "run"
    config = write_config(
        tmp_path / "c.toml", {"training.steps": 60, "operation.steps_per_second": 5.0}
    )
    trainer = subprocess.Popen(command(path, config), stderr=subprocess.DEVNULL)
    try:
        while not (path / "observations.jsonl").exists():
            assert trainer.poll() is None
            time.sleep(0.05)
        watch = subprocess.Popen(
            [sys.executable, "-m", "rods.console", "status", str(path), "--follow"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert watch.stdout is not None
        lines = list(watch.stdout)
        assert watch.wait(60) == 0 and trainer.wait(60) == 0
    finally:
        trainer.kill()
        trainer.wait()
    steps = [int(line[5:].split("/")[0]) for line in lines if re.match(r"step \d+/60  epoch", line)]
    assert len(steps) > 2 and steps == sorted(set(steps)) and steps[-1] == 60
    assert "  the run is being written\n" in lines and lines[-1] == "  the run is finished\n"
