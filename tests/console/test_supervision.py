"""The supervisor, with small real processes in the place of trainer and daemon."""

import sys
import time
from pathlib import Path

import pytest

from rods.console.verbs import up as supervision
from rods.console.verbs.up import SupervisedProcess, Supervisor

FOREVER = "import time; print('at work', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "
    "time.sleep(600)"
)


def child(folder: Path, name: str, code: str) -> SupervisedProcess:
    return SupervisedProcess(name, [sys.executable, "-c", code], folder / f"{name}.out")


def supervise(
    folder: Path, trainer: str, daemon: str, seconds: float = 200.0
) -> tuple[Supervisor, list[str]]:
    """Runs until the supervisor is done or `seconds` are over, then stops."""
    said: list[str] = []
    found = Supervisor(
        child(folder, "trainer", trainer), child(folder, "daemon", daemon), said.append, lambda: 0
    )
    found.start()
    end = time.monotonic() + seconds
    while found.poll() and time.monotonic() < end:
        time.sleep(0.01)
    found.stop()
    return found, said


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "RESTART_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(supervision, "STOPPED", 1.0)


def test_a_trainer_that_is_done_ends_the_daemon_too(tmp_path: Path) -> None:
    found, _ = supervise(tmp_path, "pass", FOREVER)
    assert found.code == 0
    assert found.daemon.ended() is not None


def test_a_daemon_that_dies_is_started_again(tmp_path: Path) -> None:
    log = tmp_path / "starts"
    dies_twice = f"""
import pathlib, time
log = pathlib.Path({str(log)!r})
count = len(log.read_text()) if log.exists() else 0
log.write_text("x" * (count + 1))
if count < 2: raise SystemExit(1)
time.sleep(600)
"""
    trainer = f"""
import pathlib, time
log = pathlib.Path({str(log)!r})
while not log.exists() or len(log.read_text()) < 3: time.sleep(0.01)
"""
    found, said = supervise(tmp_path, trainer, dies_twice)
    assert found.code == 0
    assert log.read_text() == "xxx"
    assert sum("daemon started again" in line for line in said) == 2


def test_a_crashing_trainer_is_tried_a_few_times_and_its_last_line_is_said(tmp_path: Path) -> None:
    found, said = supervise(tmp_path, "raise ValueError('no luck')", FOREVER)
    assert found.code == 1
    assert sum("trainer started again" in line for line in said) == supervision.TRAINER_RETRIES
    assert "no luck" in said[-1]


@pytest.mark.parametrize("code", [2, 3, 4, 5])
def test_an_end_that_another_try_would_not_change_is_not_retried(tmp_path: Path, code: int) -> None:
    found, said = supervise(tmp_path, f"print('because'); raise SystemExit({code})", FOREVER)
    assert found.code == code
    assert len(said) == 1
    assert "because" in said[0]


def test_a_daemon_with_bad_input_ends_the_command(tmp_path: Path) -> None:
    found, said = supervise(tmp_path, FOREVER, "print('no phrase book'); raise SystemExit(2)")
    assert found.code == 2
    assert "no phrase book" in said[-1]
    assert found.trainer.ended() is not None


def test_a_daemon_that_is_refused_leaves_the_other_one_to_it(tmp_path: Path) -> None:
    refused = "import os; print(os.getpid()); print('pid 7 has it'); raise SystemExit(3)"
    until_it_is_seen_to_have_ended = f"""
import pathlib, time
said = pathlib.Path({str(tmp_path / "daemon.out")!r})
while not said.exists() or "has it" not in said.read_text(): time.sleep(0.01)
while pathlib.Path("/proc", said.read_text().split()[0]).exists(): time.sleep(0.01)
"""
    found, said = supervise(tmp_path, until_it_is_seen_to_have_ended, refused)
    assert found.code == 0
    assert "another daemon" in said[0]
    assert "pid 7 has it" in said[0]


def test_what_ignores_the_signal_is_killed_in_time(tmp_path: Path) -> None:
    until_it_ignores = f"""
import pathlib, time
said = pathlib.Path({str(tmp_path / "daemon.out")!r})
while not said.exists() or "up" not in said.read_text(): time.sleep(0.01)
"""
    found, said = supervise(tmp_path, until_it_ignores, STUBBORN)
    assert found.daemon.ended() == -9
    assert "was killed" in said[-1]


def test_of_what_a_process_prints_without_end_the_last_part_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on printing behind what was kept."""
    monkeypatch.setattr(supervision, "MOST_PRINTED", 100_000)
    until_it_is_shortened = """
import os
last = 0
while (size := os.fstat(1).st_size) >= last:
    last = size
    print('x' * 1000, flush=True)
print('I was at', last)
"""
    found, _ = supervise(tmp_path, until_it_is_shortened, FOREVER)
    assert found.code == 0
    printed = (tmp_path / "trainer.out").read_text()
    most = int(printed.partition("I was at ")[2].split()[0])
    assert most > 100_000
    assert 20_000 < printed.count("x") < most  # a quarter, and what came meanwhile
