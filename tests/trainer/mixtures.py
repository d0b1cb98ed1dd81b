"""Mixtures of experts, small and untrained. transformers keeps a layer's experts in one tensor, and
in files apart."""

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

COMMON: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "moe_intermediate_size": 16,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
KINDS: dict[str, dict[str, Any]] = {
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "head_dim": 8},
    # its files name more than the experts otherwise
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    # tied embeddings
    "ernie4_5_moe": {"moe_num_experts": 4, "moe_k": 2, "moe_layer_start_index": 1},
}


def mixture(kind: str, random_seed: int = 0) -> Any:
    """A model of that kind whose random weights depend on `random_seed`."""
    with torch.random.fork_rng():
        torch.manual_seed(random_seed)
        config = AutoConfig.for_model(kind, **COMMON, **KINDS[kind])
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32)
