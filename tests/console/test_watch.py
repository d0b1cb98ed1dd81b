"""`rods watch` on a pseudo-terminal, and in lines where there is none."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rods.console.verbs.dash import unpacked
from tests.console.conftest import rods
from tests.trainer.runs import command, write_config

HIDDEN, SHOWN = b"\x1b[?25l", b"\x1b[?25h"  # the cursor


class Terminal:
    """`rods watch` on a terminal of its own; `seen` is what it wrote there."""

    def __init__(self, run: Path, term: str = "xterm-256color") -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.settings = termios.tcgetattr(self.slave)
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rods.console", "watch", str(run)],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env={**kept, "TERM": term},
            start_new_session=True,
        )
        self.seen = b""

    def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            while select.select([self.master], [], [], 0.05)[0]:
                self.seen += os.read(self.master, 65_536)
            assert time.monotonic() < deadline, self.seen[-3000:]

    def ended(self) -> int:
        self.until(lambda: self.process.poll() is not None)
        self.until(lambda: not select.select([self.master], [], [], 0.05)[0])
        return self.process.wait()


@contextmanager
def watching(run: Path, term: str = "xterm-256color") -> Iterator[Terminal]:
    terminal = Terminal(run, term)
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.master)
        os.close(terminal.slave)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return unpacked(tmp_path)


@pytest.fixture
def stopped_run(run: Path) -> Path:
    """The same, as if it were to go on: with more steps."""
    assert rods("extend", run, "--steps", "60").returncode == 0
    return run


def test_on_a_terminal_it_draws_where_a_finished_run_stands_and_ends(run: Path) -> None:
    with watching(run) as terminal:
        assert terminal.ended() == 0
        assert HIDDEN in terminal.seen and terminal.seen.rpartition(HIDDEN)[2].count(SHOWN) == 1
        for line in (b"step 50 of 50", b"12 originals + 36 variants", b"the run is finished"):
            assert line in terminal.seen
        assert termios.tcgetattr(terminal.slave) == terminal.settings


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_the_terminal_as_it_was(stopped_run: Path, number: int, code: int) -> None:
    with watching(stopped_run) as terminal:
        terminal.until(lambda: b"step 50 of 60" in terminal.seen)
        terminal.process.send_signal(number)
        assert terminal.ended() == code
        assert SHOWN in terminal.seen.rpartition(HIDDEN)[2] and b"Traceback" not in terminal.seen
        assert termios.tcgetattr(terminal.slave) == terminal.settings


def test_damage_is_one_line(run: Path) -> None:
    file = run / "observations.jsonl"
    file.write_bytes(b"x" + file.read_bytes()[1:])
    with watching(run) as terminal:
        assert terminal.ended() == 2
        assert b"the checksum does not match the line" in terminal.seen and b"Traceback" not in terminal.seen


def test_grave_events_are_shown_and_hostile_text_does_not_steer_the_terminal(stopped_run: Path) -> None:
    odd = {"timestamp": "2999", "process": "daemon", "level": "error", "event": "oh\x1b]0;title\x07 \u202e[red]"}
    with watching(stopped_run) as terminal:
        terminal.until(lambda: b"step 50 of 60" in terminal.seen)
        with (stopped_run / "logs" / "daemon.jsonl").open("a") as log:
            log.write(json.dumps(odd) + "\n")
        terminal.until(lambda: b"error     oh" in terminal.seen)
        assert b"\x1b]0" not in terminal.seen and "\u202e".encode() not in terminal.seen and b"[red]" in terminal.seen


def test_without_a_terminal_it_says_where_a_finished_run_stands_and_ends(run: Path) -> None:
    for told in (rods("watch", run), rods("watch", run, "--json")):
        assert told.returncode == 0, told.stderr
        assert "\x1b" not in told.stdout
    *_, progress, state = (json.loads(line) for line in told.stdout.splitlines())
    assert (progress["event"], progress["step"], progress["finished"]) == ("progress", 50, True)
    assert state == {"event": "said", "text": "the run is finished"}
    with watching(run, term="dumb") as terminal:
        assert terminal.ended() == 0
        assert b"the run is finished" in terminal.seen and b"\x1b" not in terminal.seen


@pytest.mark.slow
def test_lines_come_until_the_run_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "run"
    config = write_config(tmp_path / "c.toml", {"training.steps": 60, "operation.steps_per_second": 5.0})
    trainer = subprocess.Popen(command(path, config), stderr=subprocess.DEVNULL)
    try:
        while not (path / "observations.jsonl").exists():
            assert trainer.poll() is None
            time.sleep(0.05)
        watch = subprocess.Popen(
            [sys.executable, "-m", "rods.console", "watch", str(path)], stdout=subprocess.PIPE, text=True
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


def test_the_latest_run_is_watched_where_none_is_named(run: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    run.rename(tmp_path / "runs" / "one")
    assert "step 50/50" in rods("watch", cwd=tmp_path).stdout
    (tmp_path / "empty").mkdir()
    assert rods("watch", cwd=tmp_path / "empty").returncode == 2
