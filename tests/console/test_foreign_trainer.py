"""Another program plays the trainer through `rods observe` and `rods merge`; the daemon does not notice."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.console.conftest import CONFIG, rods

SCRIPT = Path(__file__).parent / "shell_trainer.sh"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A fresh run that waits for no daemon."""
    return made(tmp_path, CONFIG.replace('sync = "lockstep"', ""))


def made(tmp_path: Path, text: str) -> Path:
    config = tmp_path / "run.toml"
    config.write_text(text)
    assert rods("new", tmp_path / "run", "--config", config).returncode == 0
    return tmp_path / "run"


def tasks(run: Path, epoch: int) -> list[str]:
    done = rods("merge", run, "--epoch", str(epoch))
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["task"]["id"] for line in done.stdout.splitlines()]


def step(number: int, ids: list[str], resolved: int = 1) -> str:
    rollouts = [{"resolved": resolved, "expected": 2}, {"resolved": 0, "expected": 2}]
    return "".join(json.dumps({"task": one, "rollouts": rollouts}) + "\n" for one in ids) + end(number)


def end(number: int, **more: int) -> str:
    return json.dumps({"end_step": number, **more}) + "\n"


def answers(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_shell_script_is_a_trainer(tmp_path: Path) -> None:
    run = made(tmp_path, CONFIG)
    daemon = subprocess.Popen([sys.executable, "-m", "daemon", str(run)], stderr=subprocess.DEVNULL)
    try:
        done = subprocess.run(
            ["sh", str(SCRIPT), str(run), "4"],
            env={**os.environ, "PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert "step 4 of epoch 3 recorded (attempt 4)" in done.stdout
        status = json.loads(rods("status", run, "--json").stdout)
        deadline = time.monotonic() + 30
        while status["considered"] < 4 and time.monotonic() < deadline:
            time.sleep(0.1)
            status = json.loads(rods("status", run, "--json").stdout)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)
    assert status["step"] == 4
    assert status["picked"] > 0
    assert status["injected"] > 0
    assert rods("verify", run).returncode == 0
    tracker = json.loads((run / "tracker.json").read_text())
    assert tracker["step"] == 4


def test_a_committed_epoch_is_printed_again_as_it_was(run: Path) -> None:
    first = json.loads(rods("merge", run, "--epoch", "0", "--json").stdout)
    again = json.loads(rods("merge", run, "--epoch", "0", "--json").stdout)
    assert not first.pop("recorded")
    assert again.pop("recorded")
    assert first == again
    assert len(first["slots"]) == 16
    assert first["reward"] == "progress"
    assert rods("merge", run, "--epoch", "2").returncode == 3
    assert rods("merge", run, "--epoch", "1", "--stage", "2").returncode == 2


def test_an_identical_step_is_done_a_different_one_refused(run: Path) -> None:
    ids = tasks(run, 0)[:3]
    both = answers(rods("observe", run, "--json", stdin=step(1, ids) + step(1, ids)))
    assert [(one["step"], one["recorded"]) for one in both] == [(1, True), (1, False)]
    tasks(run, 1)
    late = answers(rods("observe", run, "--json", stdin=step(1, ids)))  # still of epoch 0, though epoch 1 is open
    assert (late[0]["epoch"], late[0]["recorded"]) == (0, False)
    other = rods("observe", run, stdin=step(1, ids, resolved=2))
    assert other.returncode == 3
    assert "recorded with other contents" in other.stderr


def test_from_step_takes_later_steps_back(run: Path) -> None:
    ids = tasks(run, 0)[:3]
    answers(rods("observe", run, "--json", stdin=step(1, ids) + step(2, ids)))
    redone = answers(rods("observe", run, "--json", "--from-step", "1", stdin=step(2, ids, resolved=2)))
    assert (redone[0]["step"], redone[0]["attempt"], redone[0]["recorded"]) == (2, 2, True)
    assert rods("observe", run, "--from-step", "7").returncode == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense\n", ["line 1", "not JSON"]),
        ("[]\n", ["line 1", "not a JSON object"]),
        (
            '{"task":"unknown","rollouts":[{"resolved":1,"expected":2}]}\n{"end_step":1}\n',
            ["line 1", "not in this run"],
        ),
        ('{"end_step":0}\n', ["line 1", "whole numbers from 1"]),
        ('{"end_step":1,"epoch":5}\n', ["epoch 5 is not open"]),
        ('{"end_step":1}\n', ["no groups"]),
    ],
)
def test_a_bad_line_is_named(run: Path, text: str, words: list[str]) -> None:
    tasks(run, 0)
    done = rods("observe", run, stdin=text)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_groups_that_no_end_step_closes_are_not_recorded(run: Path) -> None:
    ids = tasks(run, 0)[:2]
    done = rods("observe", run, stdin=step(1, ids).replace(end(1), ""))
    assert done.returncode == 2
    assert "2 groups were not closed" in done.stderr
    impossible = step(1, ids).replace('"resolved": 1', '"resolved": 3')
    assert "impossible" in rods("observe", run, stdin=impossible).stderr


def test_no_step_before_the_first_merge(run: Path) -> None:
    done = rods("observe", run, stdin=step(1, ["x"]))
    assert done.returncode == 2
    assert "rods merge RUN --epoch 0" in done.stderr
