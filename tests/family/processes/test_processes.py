"""The procedural author in processes beside the daemon: the same variants, and no worker's end
loses one."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.run.heartbeat import read_heartbeat
from rods.daemon.compute import LostWorker
from rods.family.processes.places import Process
from rods.gates.similarity import SimilarityIndex
from tests.daemon.comparing import CHANGES, finish, lockstep_run, written
from tests.daemon.runs import Daemon, Trainer, idle, make_run, seeds, until, variants

KILLED = 16  # steps


def workers(daemon: Daemon) -> Iterator[int]:
    """The worker processes of a daemon that live."""
    for task in Path(f"/proc/{daemon.process.pid}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread, or a worker, that has just ended
            for child in (task / "children").read_text().split():
                if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                    yield int(child)


@pytest.mark.slow
def test_attempts_in_processes_give_what_threads_give(tmp_path: Path) -> None:
    told = []
    for number, where in enumerate(("threads", "processes")):
        run = lockstep_run(tmp_path / str(number), compute=where, compute_places=2)
        with Daemon(run.path) as daemon:
            finish(run, daemon)
            assert len(list(workers(daemon))) == (0, 2)[number]
        told.append(written(run.path))
    assert told[0] == told[1]
    assert told[0]["variants"] and any(one["attempt"] > 1 for one in told[0]["rejected"])


@pytest.mark.slow
def test_gates_of_what_a_model_writes_are_run_in_processes(tmp_path: Path) -> None:
    told = []
    beats = []
    for number, where in enumerate(("threads", "processes")):
        with Stub(Script(answer="bench.fixtures.llm_stub.roles:answer")) as stub:
            operation = {
                "compute": where,
                "compute_places": 2,
                "endpoints": [{"model": "stub", "urls": [stub.url]}],
            }
            run = make_run(
                tmp_path / str(number),
                {**CHANGES, "pipeline": {"author": "llm"}, "operation": operation},
            )
            with Daemon(run.path) as daemon:
                finish(run, daemon)
                beats.append(read_heartbeat(run.path, "daemon") or {})
        told.append(written(run.path))
    assert "compute" not in beats[0] and beats[1]["compute"] == {"places": 2, "ready": 2, "lost": 0}
    assert told[0] == told[1] and told[0]["variants"]
    assert any(record["stage"] == "judge" for record in told[0]["rejected"]), (
        "gates have refused some"
    )


@pytest.mark.slow
def test_workers_that_die_or_hang_lose_no_variant_and_write_none_twice(tmp_path: Path) -> None:
    alone = lockstep_run(tmp_path / "alone")
    with Daemon(alone.path) as daemon:
        finish(alone, daemon, KILLED)
    slow = 10.0  # seconds that no attempt takes where others compute beside it
    run = lockstep_run(
        tmp_path / "run", compute="processes", compute_places=2, compute_seconds=slow
    )
    with Daemon(run.path) as daemon, Trainer(run) as trainer:
        # it waits for the daemon at every merge: an item meets one of these, or two
        for hit in range(KILLED // 2):
            trainer.play(2)
            found = until(lambda: list(workers(daemon)))
            os.kill(found[hit % len(found)], (signal.SIGKILL, signal.SIGSTOP)[hit == 3])
        until(lambda: idle(run.path, KILLED))
        beat = read_heartbeat(run.path, "daemon") or {}
        assert daemon.stop()[0] == 0
    assert beat["compute"]["lost"] > 0
    assert written(run.path) == written(alone.path)


@pytest.mark.slow
def test_workers_end_with_a_daemon_that_is_killed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"operation": {"compute": "processes", "compute_places": 2}})
    with Daemon(run.path) as daemon, Trainer(run) as trainer:
        trainer.play(2)
        until(lambda: variants(run.path))
        left = list(workers(daemon))
        daemon.kill()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))
    assert left
    with Daemon(run.path):
        until(lambda: idle(run.path, 2))
    finished = [record["pick"] for record in seeds(run.path, "finished")]
    assert len(finished) == len(set(finished))


async def test_a_worker_has_the_memory_that_is_named(tmp_path: Path) -> None:
    most = 3 << 30
    run = make_run(
        tmp_path / "run", {"operation": {"compute": "processes", "compute_memory_bytes": most}}
    )
    place = Process(run.path, run.config, SimilarityIndex())
    await place.renew()
    try:
        assert place.process is not None
        assert resource.prlimit(place.process.pid or 0, resource.RLIMIT_AS) == (most, most)
    finally:
        place.end()


async def test_a_worker_that_stands_still_before_a_large_order_stops_nobody_else(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", {})
    place = Process(run.path, run.config, SimilarityIndex())
    await place.renew()
    assert place.process is not None and place.process.pid is not None
    os.kill(place.process.pid, signal.SIGSTOP)
    asked = asyncio.create_task(place.make([b"x" * (8 << 20)]))  # type: ignore[list-item]
    for _ in range(200):
        await asyncio.sleep(0)
    assert not asked.done()
    os.kill(place.process.pid, signal.SIGKILL)
    with pytest.raises(LostWorker, match="ended with code -9"):
        await asked
    place.end()


def test_a_place_that_is_not_installed_is_refused_before_a_run_is_made(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('[operation]\ncompute = "slurm"\n')
    command = [sys.executable, "-m", "rods.console", "up", "runs/one", "--config", "run.toml"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert (
        "operation.compute = 'slurm'" in told.stderr
        and "threads, " in told.stderr
        and "processes" in told.stderr
    )
    assert not (tmp_path / "runs").exists()
