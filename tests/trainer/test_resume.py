"""A run with weights, through TRL, stopped and continued: the same bytes as one that was never
stopped."""

import hashlib
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.buffers.run.heartbeat import heartbeat_path
from rods.console.main import run as rods
from rods.errors import EXIT_OK, EXIT_REQUEUE
from tests.trainer.runs import BRIEF, command, live_steps, train, write_config

pytestmark = pytest.mark.slow

CHANGES: dict[str, Any] = BRIEF | {"training.steps": 5, "training.checkpoint_steps": 2}

FILES = ("model.safetensors", "optimizer.pt")


def weights(run: Path, step: int) -> set[str]:
    """The hashes of the weights and the optimizer's state after `step`."""
    (folder,) = (run / "checkpoints").glob(f"step_{step:08d}.a*")
    return {hashlib.sha256((folder / "policy" / name).read_bytes()).hexdigest() for name in FILES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of five steps that was never stopped, beside its configuration."""
    folder = tmp_path_factory.mktemp("whole")
    assert train(folder / "run", write_config(folder / "c.toml", CHANGES)).returncode == EXIT_OK
    return folder / "run"


@pytest.mark.numeric
def test_a_run_with_weights_continues_bit_for_bit(tmp_path: Path, whole: Path) -> None:
    parted = tmp_path / "parted"
    config = whole.parent / "c.toml"
    limited = write_config(tmp_path / "limited.toml", CHANGES | {"operation.step_limit": 3})
    assert train(parted, limited).returncode == EXIT_REQUEUE
    assert train(parted, config).returncode == EXIT_OK
    assert live_steps(parted) == live_steps(whole)
    assert weights(parted, 5) == weights(whole, 5)
    assert weights(whole, 5) != weights(whole, 4)


@pytest.mark.sweep
@pytest.mark.numeric
def test_when_checkpoints_are_taken_changes_no_byte(tmp_path: Path, whole: Path) -> None:
    config = write_config(tmp_path / "c.toml", CHANGES | {"training.checkpoint_steps": 3})
    assert train(tmp_path / "run", config).returncode == EXIT_OK
    assert weights(tmp_path / "run", 5) == weights(whole, 5)


@pytest.mark.sweep
def test_a_finished_run_with_weights_is_extended_bit_for_bit(tmp_path: Path, whole: Path) -> None:
    extended = tmp_path / "extended"
    config = whole.parent / "c.toml"
    short = write_config(tmp_path / "short.toml", CHANGES | {"training.steps": 2})
    assert train(extended, short).returncode == EXIT_OK
    assert rods(["trainer", "extend", str(extended), "--config", str(config)]) == EXIT_OK
    assert train(extended, config).returncode == EXIT_OK
    assert live_steps(extended) == live_steps(whole)
    assert weights(extended, 5) == weights(whole, 5)


def test_a_warm_start_can_be_stopped_within_seconds(tmp_path: Path) -> None:
    environment = {**os.environ, "RODS_CACHE": str(tmp_path / "cache")}
    run = tmp_path / "run"
    config = write_config(tmp_path / "c.toml", CHANGES | {"policy.warm_start_steps": 100_000})
    process = subprocess.Popen(command(run, config), env=environment, stderr=subprocess.DEVNULL)
    beat = heartbeat_path(run, "trainer")
    deadline = time.monotonic() + 100
    try:
        while not beat.exists() or orjson.loads(beat.read_bytes()).get("state") != "warm start":
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
        process.terminate()
        assert process.wait(timeout=60) == EXIT_REQUEUE
    finally:
        process.kill()
    assert [path.name for path in (tmp_path / "cache" / "nano").iterdir()] == []
