"""A FIFO, a device or a folder where a file is expected is refused at once, and never waited
for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rods.buffers.run import runfolder
from rods.errors import EXIT_USER
from tests.console.conftest import CONFIG, rods


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.few(6)
@pytest.mark.parametrize("put", [fifo, device])
@pytest.mark.parametrize(
    "log", [runfolder.OBSERVATIONS, runfolder.POOL, runfolder.SEEDS, runfolder.TASKS]
)
@pytest.mark.parametrize(
    "verb", [("status",), ("verify",), ("dash", "--export", "report"), ("recover",), ("up",)]
)
def test_instead_of_a_log(
    run_copy: Path, log: str, verb: tuple[str, ...], put: Callable[[Path], None]
) -> None:
    (run_copy / log).unlink()
    put(run_copy / log)
    done = rods(*verb, run_copy, cwd=run_copy.parent)  # which would wait for its time-out
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in said, said
    assert log in said and ("is a FIFO" if put is fifo else "is a device") in said, said


@pytest.mark.parametrize("put", [fifo, device, folder])
def test_instead_of_a_task_file_or_a_configuration(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    put(tmp_path / "tasks.jsonl")
    put(tmp_path / "other.toml")
    (tmp_path / "run.toml").write_text(
        CONFIG.replace('"desk"\ntrain = 16\nheld_out = 12', '"tasks.jsonl"')
    )
    for arguments in (
        ("trainer", "new", tmp_path / "run", "--config", tmp_path / "run.toml"),
        ("trainer", "new", tmp_path / "run", "--config", tmp_path / "other.toml"),
        ("data", "check", tmp_path / "tasks.jsonl"),
    ):
        done = rods(*arguments)
        assert (
            done.returncode == EXIT_USER and "Traceback" not in done.stderr and " → " in done.stderr
        ), done


@pytest.mark.few(2)
@pytest.mark.parametrize("put", [fifo, device, folder])
@pytest.mark.parametrize(
    ("program", "name"), [("trainer", "logs/trainer.jsonl"), ("daemon", "logs/daemon.jsonl")]
)
def test_instead_of_a_file_of_events(
    run_copy: Path, program: str, name: str, put: Callable[[Path], None]
) -> None:
    (run_copy / name).unlink()
    put(run_copy / name)
    done = subprocess.run(
        [sys.executable, "-m", f"rods.{program}", str(run_copy)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (
        done.returncode == EXIT_USER and name in done.stderr and "Traceback" not in done.stderr
    ), done


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("put", [fifo, device])
def test_instead_of_what_is_evaluated(tmp_path: Path, put: Callable[[Path], None]) -> None:
    pytest.importorskip("rods.family.benchmarks")
    name = "evaluation.json", "outputs/BFCL_v4_multi_turn_base_result.json", "traces.jsonl"
    (tmp_path / "outputs").mkdir()
    for path in (tmp_path / one for one in name):
        put(path)
    recorded = [
        ("run", tmp_path / "new", "--recorded", tmp_path / one)
        for one in ("outputs", "traces.jsonl")
    ]
    for arguments in (("report", tmp_path), *recorded):
        command = [sys.executable, "-m", "rods.family.benchmarks", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (
            done.returncode == EXIT_USER and "Traceback" not in done.stderr and " → " in done.stderr
        ), done
