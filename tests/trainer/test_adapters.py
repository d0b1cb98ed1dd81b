"""LoRA: what is trained, what a checkpoint holds, and that a run goes on exactly where it was."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.integrations import deepspeed

from rods.config import PolicySettings
from rods.errors import EXIT_OK, EXIT_REQUEUE, UserError
from rods.trainer.nano import model as network
from rods.trainer.weight_files import (
    ADAPTER,
    adapted,
    load_adapter,
    load_plain,
    save_adapter,
    save_plain,
)
from tests.trainer.mixtures import KINDS, mixture
from tests.trainer.nano_parts import chat
from tests.trainer.runs import live_steps, train, write_config
from tests.trainer.test_ranks import SMALL

LORA = PolicySettings(lora_rank=4)


def test_alpha_and_targets_are_those_of_the_configuration() -> None:
    chosen = PolicySettings(lora_rank=4, lora_alpha=4, lora_targets=["q_proj", "v_proj"])
    model = adapted(network.fresh(chat().tokenizer, 1), chosen, 0)
    layers = {
        name.rpartition(".lora_A")[0] for name, _ in model.named_parameters() if ".lora_A" in name
    }
    assert layers and {name.rpartition(".")[2] for name in layers} == {"q_proj", "v_proj"}
    assert {model.get_submodule(name).scaling["default"] for name in layers} == {1.0}
    usual = adapted(network.fresh(chat().tokenizer, 1), LORA, 0)
    assert {usual.get_submodule(name).scaling["default"] for name in layers} == {2.0}
    wrong = PolicySettings(lora_rank=4, lora_targets=["query"])
    with pytest.raises(UserError, match=r"policy\.lora_targets"):
        adapted(network.fresh(chat().tokenizer, 1), wrong, 0)


@pytest.mark.numeric
def test_the_saved_weights_answer_like_the_adapted_model(tmp_path: Path) -> None:
    model = adapted(network.fresh(chat().tokenizer, 1), LORA, 0)
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad == (".lora_" in name)
        if ".lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    save_plain(model, tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ids = torch.arange(12)[None]
    with torch.no_grad():
        ours = model(ids).logits
        plain = loaded(ids).logits
        with model.disable_adapter():
            before = model(ids).logits
    assert torch.allclose(ours, plain, atol=1e-5) and not torch.allclose(before, plain, atol=1e-2)
    save_adapter(model, tmp_path)
    fresh = adapted(network.fresh(chat().tokenizer, 1), LORA, 1)
    assert load_adapter(fresh, tmp_path)
    with torch.no_grad():
        assert torch.equal(fresh(ids).logits, ours)


@pytest.mark.numeric
@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_around_experts_is_part_of_the_saved_weights(tmp_path: Path, kind: str) -> None:
    """peft adapts what it finds linear, and a mixture's experts are no layers of their own."""
    model = adapted(mixture(kind), LORA, 0)
    learnt = {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }
    assert any(".experts." in name for name in learnt)
    for parameter in learnt.values():
        torch.nn.init.normal_(parameter, std=0.1)
    save_plain(model, tmp_path)
    loaded, found = AutoModelForCausalLM.from_pretrained(
        tmp_path, dtype=torch.float32, output_loading_info=True
    )
    assert not found["missing_keys"] and not found["unexpected_keys"]
    ids = torch.arange(12)[None]
    with torch.no_grad():
        assert torch.allclose(model(ids).logits, loaded(ids).logits, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_rounded_weights_of_a_mixture_are_what_transformers_loads_and_tied_ones_are_written_once(
    tmp_path: Path, kind: str
) -> None:
    model = mixture(kind)
    save_plain(model, tmp_path, torch.bfloat16)
    held = load_file(tmp_path / "model.safetensors")
    assert ("lm_head.weight" in held) != model.config.tie_word_embeddings
    assert any(".experts.3." in name for name in held)  # one by one, as other programs know them
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).state_dict()
    assert all(
        torch.equal(loaded[name], value.bfloat16().float())
        for name, value in model.state_dict().items()
    )


def test_zero_3_does_not_spread_the_copy_that_a_checkpoint_is_restored_from(tmp_path: Path) -> None:
    class Three:
        def is_zero3(self) -> bool:
            return True

    written, model = (network.fresh(chat().tokenizer, random_seed) for random_seed in (1, 2))
    save_plain(written, tmp_path)
    deepspeed.set_hf_deepspeed_config(three := Three())
    try:
        load_plain(model, tmp_path)
        assert deepspeed.is_deepspeed_zero3_enabled()  # for what is loaded later
    finally:
        deepspeed.unset_hf_deepspeed_config()
        del three
    assert all(
        torch.equal(one, other)
        for one, other in zip(written.parameters(), model.parameters(), strict=True)
    )


@pytest.mark.slow
def test_a_run_with_an_adapter_learns_and_continues_exactly(tmp_path: Path) -> None:
    changes = SMALL | {"policy.lora_rank": 4, "training.steps": 3, "training.kl": 0.05}
    config = write_config(tmp_path / "c.toml", changes)
    limited = write_config(tmp_path / "limited.toml", changes | {"operation.step_limit": 2})
    whole = tmp_path / "whole"
    parted = tmp_path / "parted"
    assert train(whole, config).returncode == EXIT_OK
    assert train(parted, limited).returncode == EXIT_REQUEUE
    assert train(parted, config).returncode == EXIT_OK
    assert live_steps(parted) == live_steps(whole)
    adapters = []
    for run in (whole, parted):
        first, last = (
            next((run / "checkpoints").glob(f"step_{step:08d}.a*")) / "policy" for step in (0, 3)
        )
        before, after = (load_file(folder / "model.safetensors") for folder in (first, last))
        assert before.keys() == after.keys() and any(
            not torch.equal(before[name], after[name]) for name in before
        )
        adapters.append(torch.load(last / ADAPTER, weights_only=True))
    assert all(torch.equal(adapters[0][name], adapters[1][name]) for name in adapters[0])
