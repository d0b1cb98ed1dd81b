"""Thirty steps of a policy through the Tinker API, on a CPU: the cookbook's training, SkyRL's
server and the daemon, of which trainer and daemon are killed. `make tinker` runs it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import pytest

from rods.buffers.log.tail import read
from rods.buffers.run.creation import open_or_create
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS
from rods.buffers.state import read_state
from tests.parts import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("adapters"),
    pytest.mark.skipif(
        find_spec("tinker_cookbook") is None, reason="needs the Tinker cookbook: make tinker"
    ),
]
FOLDER = ROOT / "experiments" / "tinker"
MINUTE = 60.0


def reached(run: Path, step: int, *running: subprocess.Popen[bytes]) -> None:
    """Waits until `step` is on record."""
    waiting = threading.Event()
    while (
        max(
            (record["step"] for record in read(run / OBSERVATIONS) if record["kind"] == "step"),
            default=0,
        )
        < step
    ):
        assert all(each.poll() is None for each in running), f"{running} before step {step}"
        waiting.wait(0.2)


def serving(port: int, server: subprocess.Popen[bytes]) -> None:
    waiting = threading.Event()
    while True:
        assert server.poll() is None, "the server has ended"
        with socket.socket() as asked:
            if not asked.connect_ex(("127.0.0.1", port)):
                return
        waiting.wait(0.2)


def ended(process: subprocess.Popen[bytes]) -> None:
    """Kills it, with what it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.timeout(3600)
def test_a_policy_is_trained_through_the_tinker_api_while_trainer_and_daemon_are_killed(
    tmp_path: Path,
) -> None:
    from rods.trainer.nano.warm_start import SHIPPED

    (model,) = SHIPPED.iterdir()
    run = tmp_path / "run"
    open_or_create(run, FOLDER / "run.toml")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "TINKER_BASE_URL": f"http://127.0.0.1:{port}",
        "TINKER_API_KEY": "tml-dummy",
    }
    trains = [
        sys.executable,
        str(FOLDER / "train.py"),
        str(run),
        str(FOLDER / "run.toml"),
        str(model),
        "log",
    ]
    with ExitStack() as stack:
        said: dict[str, IO[bytes]] = {
            name: stack.enter_context((tmp_path / f"{name}.txt").open("ab"))
            for name in ("server", "trainer", "daemon")
        }

        def start(name: str, command: list[str]) -> subprocess.Popen[bytes]:
            out = said[name]
            made = subprocess.Popen(
                command,
                cwd=tmp_path,
                env=environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
            stack.callback(made.wait, MINUTE)
            stack.callback(ended, made)
            return made

        server = start("server", ["sh", str(FOLDER / "serve.sh"), str(model), "state", str(port)])
        serving(port, server)
        daemon = start("daemon", [sys.executable, "-m", "rods.daemon", str(run)])
        trainer = start("trainer", trains)
        reached(run, 7, server, daemon, trainer)
        trainer.kill()
        assert trainer.wait() == -signal.SIGKILL
        trainer = start("trainer", trains)
        reached(run, 12, server, daemon, trainer)
        daemon.kill()
        assert daemon.wait() == -signal.SIGKILL
        daemon = start("daemon", [sys.executable, "-m", "rods.daemon", str(run)])
        assert trainer.wait() == 0, (tmp_path / "trainer.txt").read_text()[-3000:]
        daemon.terminate()
        daemon.wait(MINUTE)
    for command in (["verify", str(run), "--replay"], ["status", str(run)]):
        assert subprocess.run([sys.executable, "-m", "rods.console", *command]).returncode == 0
    state = read_state(Run.open(run))
    assert (state.last_step, state.attempt) == (30, 2) and state.pool.injected
    starts = [
        record["from_step"] for record in state.records(OBSERVATIONS) if record["kind"] == "start"
    ]
    assert starts == [0, 5]  # the cookbook takes a checkpoint every five steps
