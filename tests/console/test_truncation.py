"""A log that was emptied, removed or cut at a record looks sound; others know of what it held, and
nobody goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rods.buffers.log.parts import segments
from rods.buffers.run.runfolder import EXPANDED, OBSERVATIONS, POOL, SEEDS
from rods.errors import EXIT_FAILED, EXIT_OK, EXIT_REFUSED
from tests.console.conftest import rods


def emptied(parts: list[Path]) -> None:
    for part in parts:
        part.write_bytes(b"")


def removed(parts: list[Path]) -> None:
    for part in parts:
        part.unlink()


def cut(parts: list[Path]) -> None:
    """The first third of the records, and whole lines only."""
    lines = [line for part in parts for line in part.read_bytes().splitlines(keepends=True)]
    for part in parts[1:]:
        part.unlink()
    parts[0].write_bytes(b"".join(lines[: len(lines) // 3]))


def start(program: str, run: Path) -> subprocess.CompletedProcess[str]:
    """Starts `program` on the run; a daemon that does not refuse would stay, and ends by the
    time-out."""
    command = [sys.executable, "-m", f"rods.{program}", str(run)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize("harm", [emptied, removed, cut])
@pytest.mark.parametrize(
    ("log", "program"),
    [(OBSERVATIONS, "trainer"), (POOL, "trainer"), (EXPANDED, "daemon"), (SEEDS, "daemon")],
)
def test_its_writer_refuses_to_go_on_and_verify_says_so(
    run_copy: Path, log: str, program: str, harm: Callable[[list[Path]], None]
) -> None:
    harm(segments(run_copy / log))
    kept = {part.name: part.read_bytes() for part in segments(run_copy / log)}
    verified = rods("verify", run_copy)
    assert verified.returncode == EXIT_FAILED and "Traceback" not in verified.stderr
    problem = next(line for line in verified.stdout.splitlines() if log in line and "it " in line)
    assert "knows of" in problem or "has read up to" in problem or "was written for" in problem
    done = start(program, run_copy)
    assert done.returncode == EXIT_REFUSED, done
    assert log in done.stderr and "put it back from a copy" in done.stderr, done.stderr
    left = {part.name: part.read_bytes() for part in segments(run_copy / log)}
    assert {name: content for name, content in left.items() if content} == {
        name: content for name, content in kept.items() if content
    }, "nothing was written"


def test_a_sound_run_is_gone_on_with(run_copy: Path) -> None:
    assert rods("verify", run_copy).returncode == EXIT_OK
    assert start("trainer", run_copy).returncode == EXIT_OK


@pytest.mark.few(3)
@pytest.mark.parametrize("harm", [emptied, removed, cut])
@pytest.mark.parametrize("log", [OBSERVATIONS, POOL, EXPANDED])
def test_a_fork_is_not_made_of_what_is_left(
    run_copy: Path, tmp_path: Path, log: str, harm: Callable[[list[Path]], None]
) -> None:
    harm(segments(run_copy / log))
    done = rods("trainer", "fork", run_copy, tmp_path / "next")
    assert done.returncode == EXIT_REFUSED and "Traceback" not in done.stderr, done
    assert log in done.stderr and "put it back from a copy" in done.stderr, done.stderr
    assert not (tmp_path / "next").exists()


def test_the_furthest_checkpoint_is_named(run_copy: Path) -> None:
    emptied(segments(run_copy / OBSERVATIONS))
    (run_copy / POOL).unlink()
    said = start("trainer", run_copy).stderr
    assert (
        "it ends at step 0 of start 0, but checkpoint step_00000014.a1 knows of step 14 of start 1"
        in said
    )
    assert "it ends at record 0, but checkpoint step_00000014.a1 knows of record" in said
