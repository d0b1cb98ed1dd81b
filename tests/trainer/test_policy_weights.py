"""What a checkpoint restores: weights however transformers cuts them in files."""

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
from rods.trainer.ahead import Ahead
from rods.trainer.engines.local import LocalEngine
from rods.trainer.nano import model as network
from rods.trainer.policy_weights import Weights
from rods.trainer.ranks import Ranks
from rods.trainer.sharding import OPTIMIZER, Shards
from tests.trainer.mixtures import KINDS, mixture
from tests.trainer.nano_parts import chat


def weights(model: Any) -> Weights:
    config = parse_config({"policy": {"kind": "nano"}}, where="test")
    engine = LocalEngine(model, chat(), config.rollouts)
    ranks = Ranks()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return Weights(
        config,
        Players(Environments()),
        engine,
        engine,
        lambda: None,
        Shards("whole", model, lambda: optimizer, lambda: model, True),
        ranks,
        Ahead(),
    )


def test_a_checkpoint_whose_config_is_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    weights(mixture(next(iter(KINDS)), 1)).save(tmp_path)
    with (tmp_path / "config.json").open("ab") as file:
        file.truncate(8 << 30)
    with pytest.raises(UserError, match=r"config\.json: is a file of more than"):
        weights(mixture(next(iter(KINDS)), 2)).load(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mixture_of_experts_goes_on_exactly_where_it_was(tmp_path: Path, kind: str) -> None:
    trained = mixture(kind, 1)
    fresh = mixture(kind, 2)
    optimized = list(fresh.parameters())
    weights(trained).save(tmp_path)
    weights(fresh).load(tmp_path)
    wanted = trained.state_dict()
    found = fresh.state_dict()
    assert wanted.keys() == found.keys() and all(
        torch.equal(wanted[name], found[name]) for name in wanted
    )
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
