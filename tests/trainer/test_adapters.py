"""LoRA: what is trained, what a checkpoint holds, and that a run goes on exactly where it was."""

import os
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from rods.errors import EXIT_OK, EXIT_REQUEUE
from tests.trainer.nano_parts import chat
from tests.trainer.runs import live_steps, train, write_config
from tests.trainer.test_ranks import SMALL
from trainer.adapters import ADAPTER, adapted, load_adapter, save_adapter, save_plain
from trainer.nano import model as network


def test_the_saved_weights_answer_like_the_adapted_model(tmp_path: Path) -> None:
    model = adapted(network.fresh(chat().tokenizer, 1), 4, 0)
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad == (".lora_" in name)
        if ".lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    save_plain(model, tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ids = torch.arange(12)[None]
    with torch.no_grad():
        ours, plain = model(ids).logits, loaded(ids).logits
        with model.disable_adapter():
            before = model(ids).logits
    assert torch.allclose(ours, plain, atol=1e-5) and not torch.allclose(before, plain, atol=1e-2)
    save_adapter(model, tmp_path)
    fresh = adapted(network.fresh(chat().tokenizer, 1), 4, 1)
    assert load_adapter(fresh, tmp_path)
    with torch.no_grad():
        assert torch.equal(fresh(ids).logits, ours)


def test_a_run_with_an_adapter_learns_and_continues_exactly(tmp_path: Path) -> None:
    changes = SMALL | {"policy.lora_rank": 4, "training.steps": 3, "training.kl": 0.05}
    config = write_config(tmp_path / "c.toml", changes)
    limited = write_config(tmp_path / "limited.toml", changes | {"operation.step_limit": 2})
    environment = {**os.environ, "RODS_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    assert train(whole, config, env=environment).returncode == EXIT_OK
    assert train(parted, limited, env=environment).returncode == EXIT_REQUEUE
    assert train(parted, config, env=environment).returncode == EXIT_OK
    assert live_steps(parted) == live_steps(whole)
    adapters = []
    for run in (whole, parted):
        first, last = (next((run / "checkpoints").glob(f"step_{step:08d}.a*")) / "policy" for step in (0, 3))
        before, after = (load_file(folder / "model.safetensors") for folder in (first, last))
        assert before.keys() == after.keys() and any(not torch.equal(before[name], after[name]) for name in before)
        adapters.append(torch.load(last / ADAPTER, weights_only=True))
    assert all(torch.equal(adapters[0][name], adapters[1][name]) for name in adapters[0])
