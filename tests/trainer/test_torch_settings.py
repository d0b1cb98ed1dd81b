"""The optimizer's own arithmetic."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch

from rods.config import Training
from rods.trainer import torch_settings
from rods.trainer.nano.model import fresh
from rods.trainer.torch_settings import make_optimizer


class Tokenizer:
    eos_token_id = 1
    pad_token_id = 0

    def __len__(self) -> int:
        return 64


def test_muon_in_float32_is_torchs_muon_but_for_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = moved()
    monkeypatch.setattr(
        "torch.optim._muon._zeropower_via_newtonschulz", torch_settings._in_bfloat16
    )
    torchs = moved()
    assert ours.keys() == torchs.keys() and len(ours) == 21
    for name, update in ours.items():
        assert not torch.equal(update, torchs[name]), "neither is the other"
        assert torch.cosine_similarity(update.flatten(), torchs[name].flatten(), 0) > 0.999
        spread = torch.linalg.svdvals(update)
        assert spread[0] < 1.5 * spread.median()


def moved() -> dict[str, torch.Tensor]:
    """What one step of Muon adds to each matrix of a network whose gradients are drawn."""
    model = fresh(Tokenizer(), 3)
    drawn = torch.Generator().manual_seed(5)
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    for each in model.parameters():
        each.grad = torch.randn(each.shape, generator=drawn)
    make_optimizer("muon", model, 0.01).step()
    return {
        name: each.detach() - before[name]
        for name, each in model.named_parameters()
        if each.ndim == 2 and "embed" not in name
    }


class OnGpu(torch.nn.Parameter):
    """Numbers on the CPU that pass for a GPU's."""

    is_cuda = True


class Model(torch.nn.Module):
    """A vector and a matrix to learn."""

    def __init__(self, kind: type[torch.nn.Parameter]) -> None:
        super().__init__()
        self.vector = kind(torch.ones(2))
        self.matrix = kind(torch.ones(2, 2))

    def get_input_embeddings(self) -> None:
        """It has none."""

    get_output_embeddings = get_input_embeddings


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_adamw_is_fused_on_a_gpu_where_it_would_make_a_copy_of_what_it_moves(
    name: Literal["adamw", "muon"],
) -> None:
    for kind, fused in ((OnGpu, True), (torch.nn.Parameter, None)):
        made = make_optimizer(name, Model(kind), 0.01)
        parts = [
            part for part in getattr(made, "parts", [made]) if isinstance(part, torch.optim.AdamW)
        ]
        assert [part.defaults["fused"] for part in parts] == [fused]


def test_the_learning_rate_rises_and_falls_as_the_schedule_says() -> None:
    def shares(**training: Any) -> list[float]:
        settings = Training(steps=10, **training)
        return [settings.rate_share(step) for step in range(1, 11)]

    assert shares() == [1.0] * 10
    assert shares(warm_up_steps=3) == pytest.approx([0.25, 0.5, 0.75, *[1.0] * 7])
    assert shares(schedule="linear") == pytest.approx([1 - done / 10 for done in range(10)])
    cosine = shares(schedule="cosine", warm_up_steps=2)
    assert cosine[:3] == pytest.approx([1 / 3, 2 / 3, 1.0]) and cosine[6] == pytest.approx(0.5)
    assert 0 < cosine[-1] < 0.1 and cosine[2:] == sorted(cosine[2:], reverse=True)
