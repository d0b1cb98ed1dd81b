"""The processes of a node load a policy into memory that they share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.trainer.nano_parts import chat


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """15 million parameters in bfloat16, as models are published: 60 MB in float32."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = chat().tokenizer
    tokenizer.save_pretrained(folder)
    sizes = LlamaConfig(
        vocab_size=50_000,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=4,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(sizes).to(torch.bfloat16).save_pretrained(folder)
    return folder


def loaded(folder: Path, how: str) -> tuple[int, list[dict[str, Any]], str]:
    """Two processes: how they ended, what each holds of the model, and what they said."""
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    command += ["--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no"]
    command += ["--dynamo_backend", "no", "--num_cpu_threads_per_process", "1"]
    command += ["--main_process_port", "0", "-m", "tests.trainer.shared_weights", str(folder), how]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("held ")]
    return done.returncode, json.loads(lines[-1][5:]) if lines else [], done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_hold_a_model_and_its_twin_once(model: Path) -> None:
    parameters = LlamaForCausalLM.from_pretrained(model).parameters()
    weights = 4 * sum(weight.numel() for weight in parameters)
    _, (first, second), said = loaded(model, "shared")
    assert second["own"] < 0.3 * weights, said  # alone: 2 × weights
    assert first["share"] + second["share"] < 2 * weights, said  # alone: 4 × weights
    assert first["total"] == second["total"] != 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_folder_without_weights_is_refused_in_every_process(model: Path, tmp_path: Path) -> None:
    for file in model.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    code, _, said = loaded(tmp_path, "shared")
    assert code and said.count("no causal language model that transformers can load") >= 2


WRITES = """
import sys
import torch
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import AutoModelForCausalLM
from rods.trainer.weight_files import save_plain
torch.distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
save_plain(AutoModelForCausalLM.from_pretrained(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.slow
def test_a_process_that_is_not_the_first_of_all_writes_weights_too(
    model: Path, tmp_path: Path
) -> None:
    """The first process of the second node has a disk of its own."""
    subprocess.run([sys.executable, "-c", WRITES, model, tmp_path / "weights"], check=True)
    written = LlamaForCausalLM.from_pretrained(tmp_path / "weights")
    for name, weight in LlamaForCausalLM.from_pretrained(model).state_dict().items():
        assert torch.equal(written.state_dict()[name], weight), name
