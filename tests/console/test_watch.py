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

from console.dash.example import unpacked
from tests.console.conftest import rods
from tests.trainer.runs import command, write_config

ENTER, LEAVE, SHOWN = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"


class Terminal:
    """`rods watch` on a terminal of its own; `text` is the last frame."""

    def __init__(self, run: Path, size: tuple[int, int], term: str = "xterm-256color") -> None:
        self.master, self.slave = pty.openpty()
        self.resize(*size)
        self.settings = termios.tcgetattr(self.slave)
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "console", "watch", str(run)],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env={**kept, "TERM": term},
            start_new_session=True,
        )
        self.seen = b""

    def resize(self, wide: int, high: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", high, wide, 0, 0))

    def press(self, keys: bytes) -> None:
        self.seen = b""
        os.write(self.master, keys)

    def read(self) -> None:
        while select.select([self.master], [], [], 0.05)[0]:
            self.seen += os.read(self.master, 65_536)

    @property
    def text(self) -> str:
        frame = self.seen.rpartition(b"\x1b[H")[2]
        return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", frame).decode(errors="replace").replace("\r", "")

    def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            self.read()
            assert time.monotonic() < deadline, self.seen[-3000:]

    def ended(self) -> int:
        self.until(lambda: self.process.poll() is not None)
        self.read()
        return self.process.wait()


@contextmanager
def watching(run: Path, wide: int = 80, high: int = 24, term: str = "xterm-256color") -> Iterator[Terminal]:
    terminal = Terminal(run, (wide, high), term)
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


def test_keys_change_the_view_and_the_screen_follows_the_terminal_s_size(run: Path) -> None:
    with watching(run) as terminal:
        terminal.until(lambda: "step 50 of 50" in terminal.text and "12 originals + 36 variants" in terminal.text)
        assert ENTER in terminal.seen and LEAVE not in terminal.seen
        for keys, says in (
            (b"\x1b[C", "48 active tasks after step 50"),
            (b"\t", "152 variants: 34 injected"),
            (b"4", "155 seeds picked"),
            (b"\x1b[D\x1b[D", "48 active tasks after step 50"),
            (b"5", "variant staged"),
        ):
            terminal.press(keys)
            terminal.until(lambda says=says: says in terminal.text)  # type: ignore[misc]
        first = terminal.text.splitlines()[3]
        terminal.press(b"\x1b[B")
        terminal.until(lambda: terminal.text and first not in terminal.text)
        assert {len(line) for line in terminal.text.splitlines()} == {80} and len(terminal.text.splitlines()) == 24
        terminal.seen = b""
        terminal.resize(120, 40)
        terminal.until(lambda: [len(line) for line in terminal.text.splitlines()] == [120] * 40)
        terminal.press(b"q")
        assert terminal.ended() == 0
        assert terminal.seen.rstrip().endswith(SHOWN) and LEAVE in terminal.seen
        assert termios.tcgetattr(terminal.slave) == terminal.settings


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_the_terminal_as_it_was(run: Path, number: int, code: int) -> None:
    with watching(run) as terminal:
        terminal.until(lambda: "step 50 of 50" in terminal.text)
        assert termios.tcgetattr(terminal.slave) != terminal.settings
        terminal.process.send_signal(number)
        assert terminal.ended() == code
        after = terminal.seen.rpartition(LEAVE)[2]
        assert SHOWN in after and b"Traceback" not in after
        assert termios.tcgetattr(terminal.slave) == terminal.settings


def test_damage_is_told_once_the_terminal_is_as_it_was(run: Path) -> None:
    file = run / "observations.jsonl"
    file.write_bytes(b"x" + file.read_bytes()[1:])
    with watching(run) as terminal:
        assert terminal.ended() == 2
        assert b"the checksum does not match the line" in terminal.seen.rpartition(LEAVE)[2]
        assert termios.tcgetattr(terminal.slave) == terminal.settings


def test_hostile_text_does_not_steer_the_terminal(run: Path) -> None:
    odd = {
        "timestamp": "2999",
        "process": "daemon",
        "level": "error",
        "event": "oh\x1b]0;title\x07 \u202e",
        "x": "y" * 10**5,
    }
    with (run / "logs" / "daemon.jsonl").open("a") as log:
        log.write(json.dumps(odd) + "\n")
    with watching(run) as terminal:
        terminal.until(lambda: "oh" in terminal.text and "step 50 of 50" in terminal.text)
        assert b"\x1b]0" not in terminal.seen and "\u202e" not in terminal.text and len(terminal.seen) < 100_000


def test_without_a_terminal_it_says_where_a_finished_run_stands_and_ends(run: Path) -> None:
    for told in (rods("watch", run), rods("watch", run, "--json")):
        assert told.returncode == 0, told.stderr
        assert "\x1b" not in told.stdout
    progress, state = (json.loads(line) for line in told.stdout.splitlines())
    assert (progress["event"], progress["step"], state) == ("progress", 50, {"event": "state", "state": "finished"})
    with watching(run, term="dumb") as terminal:
        assert terminal.ended() == 0
        assert b"the run is finished" in terminal.seen and b"\x1b" not in terminal.seen


def test_lines_come_with_each_step_until_the_run_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "run"
    config = write_config(tmp_path / "c.toml", {"training.steps": 60, "operation.steps_per_second": 5.0})
    trainer = subprocess.Popen(command(path, config), stderr=subprocess.DEVNULL)
    try:
        while not (path / "observations.jsonl").exists():
            assert trainer.poll() is None
            time.sleep(0.05)
        watch = subprocess.Popen(
            [sys.executable, "-m", "console", "watch", str(path)], stdout=subprocess.PIPE, text=True
        )
        assert watch.stdout is not None
        lines = list(watch.stdout)
        assert watch.wait(60) == 0 and trainer.wait(60) == 0
    finally:
        trainer.kill()
        trainer.wait()
    steps = [int(line.split()[1]) for line in lines if re.match(r"step \d+  epoch", line)]
    assert steps == list(range(steps[0], 61)) and len(steps) > 5
    assert any(re.match(r"epoch \d+ of 24 originals", line) for line in lines)
    assert lines[-1] == "the run is finished\n"


def test_the_latest_run_is_watched_where_none_is_named(run: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    run.rename(tmp_path / "runs" / "one")
    assert "step 50/50" in rods("watch", cwd=tmp_path).stdout
    (tmp_path / "empty").mkdir()
    assert rods("watch", cwd=tmp_path / "empty").returncode == 2
