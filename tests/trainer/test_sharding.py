"""A policy that its processes share in parts learns what a whole one would, and its checkpoints are
the same."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import torch

from rods.config import parse_config
from rods.errors import EXIT_OK, EXIT_REQUEUE, UserError
from rods.trainer.nano import model as network
from rods.trainer.sharding import OPTIMIZER, PARTITIONS, Shards, checked
from tests.trainer.nano_parts import chat
from tests.trainer.replayed import drift
from tests.trainer.runs import live_steps, replaying, train, train_replayed, write_config
from tests.trainer.test_ranks import SMALL, policy

LIKE = 0.01  # nats: how far apart two processes may find a token that both are given
CONFIGURATIONS = Path(__file__).parents[2] / "experiments" / "training"
ADAMW: dict[str, Any] = SMALL | {
    "training.optimizer": "adamw",
    "training.learning_rate": 0.003,
    "training.kl": 0.05,
}


def launch(run: Path, config: Path, how: str, drawn: Path, given: Path) -> str:
    """Two processes on the CPU under one of the configurations for GPUs, which draw the tokens in
    `given`; what they said."""
    command = [sys.executable, "-m", "accelerate.commands.launch"]
    command += ["--config_file", str(CONFIGURATIONS / f"{how}.yaml"), "--num_processes", "2"]
    command += [
        "--mixed_precision",
        "no",
        "--main_process_port",
        "0",
        "-m",
        "tests.trainer.sharded",
    ]
    done = subprocess.run(
        [*command, str(run), "--config", str(config)],
        env={**replaying(drawn, given), "DS_ACCELERATOR": "cpu"},
        capture_output=True,
        text=True,
        timeout=800,
    )
    return done.stdout + done.stderr


def optimizer(run: Path, step: int) -> dict[str, Any]:
    (folder,) = (run / "checkpoints").glob(f"step_{step:08d}.a*")
    found: dict[str, Any] = torch.load(folder / "policy" / OPTIMIZER, weights_only=True)
    return found


def assert_close(one: Path, other: Path, step: int) -> None:
    """The weights after `step` differ by no more than the order of sums explains: AdamW moves a
    number whose gradients cancel out by its learning rate one way or the other, so that a few of
    them make nearly all of the distance."""
    start = policy(one, 0)
    first = policy(one, step)
    second = policy(other, step)
    moved = sum(float((first[name] - start[name]).square().sum()) for name in first)
    apart = sum(float((first[name] - second[name]).square().sum()) for name in first)
    assert first.keys() == second.keys() and moved > 0 and apart < moved / 1e5


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps in one process, beside the tokens that it drew."""
    folder = tmp_path_factory.mktemp("alone")
    config = write_config(folder / "c.toml", ADAMW)
    assert train_replayed(folder / "run", config, folder / "drawn").returncode == EXIT_OK
    return folder / "run"


@pytest.mark.numeric
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_under_fsdp2_go_on_where_one_stopped(tmp_path: Path, alone: Path) -> None:
    run = tmp_path / "run"
    config = write_config(tmp_path / "c.toml", ADAMW)
    limited = write_config(tmp_path / "limited.toml", ADAMW | {"operation.step_limit": 1})
    assert train(run, limited).returncode == EXIT_REQUEUE
    drawn = tmp_path / "drawn"
    given = alone.parent / "drawn"
    said = launch(run, config, "fsdp2", drawn, given)
    assert live_steps(run) == live_steps(alone), said[-3000:]
    held = [
        float(share) for share in re.findall(r"this process holds (0\.\d\d) of the weights", said)
    ]
    assert len(held) == 2 and max(held) < 0.6
    assert drift(given, drawn) < LIKE
    assert_close(alone, run, 3)
    whole = optimizer(alone, 3)["state"]
    gathered = optimizer(run, 3)["state"]
    for key, state in whole.items():  # another start, in one process, reads it like its own
        assert all(value.shape == gathered[key][name].shape for name, value in state.items())
        assert torch.allclose(state["exp_avg"], gathered[key]["exp_avg"], atol=1e-5)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(find_spec("deepspeed") is None, reason="DeepSpeed is not installed")
@pytest.mark.parametrize("how", ["zero2", "zero3"])
def test_deepspeed_goes_on_where_it_stopped(tmp_path: Path, alone: Path, how: str) -> None:
    run = tmp_path / "run"
    config = write_config(tmp_path / "c.toml", ADAMW)
    limited = write_config(tmp_path / "limited.toml", ADAMW | {"operation.step_limit": 2})
    drawn = tmp_path / "drawn"
    given = alone.parent / "drawn"
    said = [launch(run, one, how, drawn, given) for one in (limited, config)]
    assert live_steps(run) == live_steps(alone), said[-1][-3000:]
    assert drift(given, drawn) < LIKE
    assert_close(alone, run, 3)


def test_what_deepspeed_wrote_is_refused_elsewhere(tmp_path: Path) -> None:
    model = network.fresh(chat().tokenizer, 1)
    shards = Shards(
        "whole", model, lambda: torch.optim.AdamW(model.parameters()), lambda: model, True
    )
    (tmp_path / PARTITIONS).mkdir()
    with pytest.raises(RuntimeError, match="written under DeepSpeed"):
        shards.load_optimizer(tmp_path)


def test_what_deepspeed_is_to_read_is_looked_at_before_it_is_asked(tmp_path: Path) -> None:
    """An archive of a megabyte that unpacks to a gigabyte is refused; one that torch wrote goes to
    DeepSpeed."""
    asked: list[str] = []

    class Wrapped:
        def load_checkpoint(self, folder: str, **how: Any) -> tuple[str, None]:
            asked.append(folder)
            return folder, None

    model = network.fresh(chat().tokenizer, 1)
    shards = Shards(
        "deepspeed", model, lambda: torch.optim.AdamW(model.parameters()), Wrapped, True
    )
    part = tmp_path / PARTITIONS / "rods" / "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"
    part.parent.mkdir(parents=True)
    torch.save({"step": torch.ones(3)}, part)
    shards.load_optimizer(tmp_path)
    assert asked == [str(tmp_path / PARTITIONS)]
    with ZipFile(part, "w", ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(64 << 20))
    assert part.stat().st_size < 1 << 20
    with pytest.raises(RuntimeError, match="would unpack to more"):
        shards.load_optimizer(tmp_path)
    assert len(asked) == 1


def test_muon_and_the_first_fsdp_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    muon, adamw = (
        parse_config({"training": {"optimizer": name}}, where="test") for name in ("muon", "adamw")
    )
    assert checked(muon) == "whole"
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "2")
    assert checked(adamw) == "fsdp"
    with pytest.raises(UserError, match="Muon needs whole matrices"):
        checked(muon)
    monkeypatch.setenv("FSDP_VERSION", "1")
    with pytest.raises(UserError, match="FSDP 1 is not supported"):
        checked(adamw)
