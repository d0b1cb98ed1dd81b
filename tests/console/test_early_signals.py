"""A signal ends a process with its documented code and without a traceback, however early it
comes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rods.errors import EXIT_OK, EXIT_REQUEUE
from rods.signals import NUMBERS
from tests.trainer.runs import write_config

DELAYS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
SLOW = {"operation.steps_per_second": 2.0}
CASES = {  # program: (arguments, the code that the README gives a stopped one)
    "daemon": (["RUN"], EXIT_OK),
    "trainer": (["RUN", "--config", "CONFIG"], EXIT_REQUEUE),
    "console": (["up", "RUN", "--config", "CONFIG", "--json"], EXIT_REQUEUE),
}


def start(program: str, arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    """With both signals blocked until the program's first line, so that what comes earlier waits
    for it. They are blocked here, and the mask is inherited: with a `preexec_fn` Python would run
    between fork and exec, as a copy of a process that has threads, where it may crash, and that
    would look like the end of the program."""
    config = write_config(folder.with_suffix(".toml"), SLOW)
    given = [
        {"RUN": str(folder), "CONFIG": str(config)}.get(argument, argument)
        for argument in arguments
    ]
    command = [sys.executable, "-m", f"rods.{program}", *given]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@pytest.mark.slow
@pytest.mark.parametrize("program", CASES)
def test_however_early_a_signal_comes_the_exit_is_clean(tmp_path: Path, program: str) -> None:
    arguments, code = CASES[program]
    for index, delay in enumerate(DELAYS if program != "console" else DELAYS[::2]):
        number = (signal.SIGTERM, signal.SIGINT)[index % 2]
        process = start(program, arguments, tmp_path / f"run{index}")
        time.sleep(delay)
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == code, (delay, number, output, errors)
        assert "Traceback" not in errors and "KeyboardInterrupt" not in errors, (
            delay,
            number,
            errors,
        )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_look_ends_as_the_shell_expects(
    tmp_path: Path, number: signal.Signals
) -> None:
    for delay in DELAYS[:4]:
        process = start("console", ["status", "RUN"], tmp_path / "none")
        time.sleep(delay)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        # 2: it was quicker, and there is no such run
        assert process.returncode in (128 + number, 2), errors
        assert "Traceback" not in errors
    # Nothing was blocked for good: what a plain shell starts can be stopped, too.
    daemon = subprocess.Popen(
        [sys.executable, "-m", "rods.daemon", str(tmp_path / "none")], stderr=subprocess.PIPE
    )
    assert daemon.stderr is not None and daemon.stderr.readline()  # it waits for its run folder
    daemon.send_signal(number)
    assert daemon.wait(timeout=60) == EXIT_OK
