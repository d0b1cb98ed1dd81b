"""nano's network: a Llama configuration of about half a million parameters, loadable wherever Llama is."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS, WIDTH, INNER, HEADS = 3, 96, 256, 3
CONTEXT = 1024


def configuration(tokenizer: Any) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=True,
        attention_dropout=0.0,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.05,
    )


def fresh(tokenizer: Any, random_seed: int) -> Any:
    """A network with random weights that depend on `random_seed` only."""
    with torch.random.fork_rng():
        torch.manual_seed(random_seed)
        return LlamaForCausalLM(configuration(tokenizer))
