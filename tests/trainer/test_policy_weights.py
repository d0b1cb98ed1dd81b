"""What a checkpoint restores: weights however transformers cuts them in files, and each process's own generators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from rods.config import parse_config
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.players import Players
from rods.trainer.engines.local import LocalEngine
from rods.trainer.nano import model as network
from rods.trainer.policy_weights import Weights
from rods.trainer.ranks import Ranks
from rods.trainer.sharding import OPTIMIZER, Shards
from tests.trainer.mixtures import KINDS, mixture
from tests.trainer.nano_parts import chat


def weights(model: Any) -> Weights:
    config = parse_config({"policy": {"kind": "nano"}}, where="test")
    engine, ranks = LocalEngine(model, chat(), config.rollouts), Ranks()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return Weights(
        config,
        Players(Environments()),
        engine,
        engine,
        lambda: None,
        Shards("whole", model, lambda: optimizer, lambda: model, True),
        ranks,
    )


def test_a_checkpoint_whose_config_is_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    weights(mixture(next(iter(KINDS)), 1)).save(tmp_path)
    with (tmp_path / "config.json").open("ab") as file:
        file.truncate(8 << 30)
    with pytest.raises(UserError, match=r"config\.json: is a file of more than"):
        weights(mixture(next(iter(KINDS)), 2)).load(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mixture_of_experts_goes_on_exactly_where_it_was(tmp_path: Path, kind: str) -> None:
    trained, fresh = mixture(kind, 1), mixture(kind, 2)
    optimized = list(fresh.parameters())
    weights(trained).save(tmp_path)
    weights(fresh).load(tmp_path)
    wanted, found = trained.state_dict(), fresh.state_dict()
    assert wanted.keys() == found.keys() and all(torch.equal(wanted[name], found[name]) for name in wanted)
    assert all(one is other for one, other in zip(optimized, fresh.parameters(), strict=True))


def without(held: dict[str, torch.Tensor]) -> None:
    del held["model.norm.weight"]


def with_another(held: dict[str, torch.Tensor]) -> None:
    held["model.other.weight"] = torch.ones(3)


def of_another_shape(held: dict[str, torch.Tensor]) -> None:
    held["model.norm.weight"] = torch.ones(3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without, "missing: model.norm.weight"),
        (with_another, "unexpected: model.other.weight"),
        (of_another_shape, "of another shape: model.norm.weight"),
    ],
)
def test_weights_that_do_not_fit_are_refused_though_embeddings_are_tied(
    tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], None], words: str
) -> None:
    model = network.fresh(chat().tokenizer, 1)
    assert model.config.tie_word_embeddings
    weights(model).save(tmp_path)
    held = load_file(tmp_path / "model.safetensors")
    change(held)
    save_file(held, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=words):
        weights(model).load(tmp_path)


def test_a_checkpoint_without_its_optimizer_is_refused(tmp_path: Path) -> None:
    model = network.fresh(chat().tokenizer, 1)
    weights(model).save(tmp_path)
    (tmp_path / OPTIMIZER).unlink()
    with pytest.raises(UserError, match=OPTIMIZER):
        weights(model).load(tmp_path)


class Machine:
    """Stands in for torch.cuda: a process that sees `seen` GPUs and computes on one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seen: int, current: int) -> None:
        self.states = [torch.full((16,), device, dtype=torch.uint8) for device in range(seen)]
        self.current = current
        for name in ("get_rng_state", "set_rng_state", "get_rng_state_all", "set_rng_state_all"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    def get_rng_state(self) -> torch.Tensor:
        return self.states[self.current].clone()

    def set_rng_state(self, state: torch.Tensor) -> None:
        self.states[self.current] = state

    def get_rng_state_all(self) -> list[torch.Tensor]:
        return [state.clone() for state in self.states]

    def set_rng_state_all(self, states: list[torch.Tensor]) -> None:
        for device, state in enumerate(states):
            assert device < len(self.states), "no such GPU"
            self.states[device] = state


def test_a_run_goes_on_with_fewer_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = network.fresh(chat().tokenizer, 1)
    ours = weights(model)  # before there are any GPUs: accelerate would look for them
    Machine(monkeypatch, seen=8, current=5)
    ours.save(tmp_path)
    fewer = Machine(monkeypatch, seen=2, current=1)
    fewer.states[1] = torch.full((16,), 77, dtype=torch.uint8)
    ours.load(tmp_path)
    ours.restore_generators()
    assert [int(state[0]) for state in fewer.states] == [0, 5]  # its own goes on, and no other is touched
