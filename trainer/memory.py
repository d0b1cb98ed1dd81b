"""How much memory a training process needs, estimated from shapes.

Counted are float32 weights, gradients and optimizer (bfloat16 weights where DeepSpeed keeps its own float32 ones), a
reference policy for the KL penalty, what a forward pass leaves behind for the backward pass, the tiles in which TRL
scores tokens, and the rollouts' cache. Not counted are CUDA's context, buffers of NCCL and fragments: leave a tenth of
a GPU for them. `python -m bench.memory` compares the estimate with a measurement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import orjson

from rods.config import Config

FLOAT, HALF = 4, 2  # bytes
OPTIMIZER = {"adamw": 2 * FLOAT, "muon": FLOAT}  # bytes of state a parameter
TILE = 4096, 32_768  # tokens and words of the vocabulary that TRL scores at a time
Sharding = Literal["whole", "fsdp", "zero2", "zero3"]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a causal language model: widths in numbers a token, `parameters` in all."""

    parameters: int
    layers: int
    hidden: int
    queries: int
    keys: int
    inner: int
    vocabulary: int
    tied: bool  # embeddings and output head are one

    @property
    def layer(self) -> int:
        """Parameters of the matrices in one layer."""
        return 2 * self.hidden * (self.queries + self.keys) + 3 * self.hidden * self.inner

    @property
    def outside(self) -> int:
        """Parameters of embeddings and output head."""
        return (1 if self.tied else 2) * self.vocabulary * self.hidden

    def adapters(self, rank: int) -> int:
        """Parameters of LoRA matrices of `rank` beside all matrices of the layers."""
        sides = 4 * self.hidden + 2 * (self.queries + self.keys) + 3 * (self.hidden + self.inner)
        return self.layers * rank * sides

    @property
    def kept(self) -> int:
        """Numbers a token that a layer keeps for its backward pass: of norms, attention and the gated inner layer."""
        return 8 * self.hidden + 3 * self.queries + 4 * self.keys + 4 * self.inner


def shape(folder: Path) -> Shape | None:
    """The model in `folder`, from its config and the headers of its weights; None where there is none. Without weights
    the parameters are those of the config."""
    try:
        known = orjson.loads((folder / "config.json").read_bytes())
        hidden, heads = int(known["hidden_size"]), int(known["num_attention_heads"])
        size = int(known.get("head_dim") or hidden // heads)
        found = Shape(
            sum(_parameters(file) for file in folder.glob("*.safetensors")),
            int(known["num_hidden_layers"]),
            hidden,
            heads * size,
            int(known.get("num_key_value_heads") or heads) * size,
            int(known["intermediate_size"]),
            int(known["vocab_size"]),
            bool(known.get("tie_word_embeddings", False)),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    counted = found.parameters or found.outside + found.layers * found.layer
    return Shape(counted, *(getattr(found, name) for name in Shape.__slots__[1:]))


def estimate(config: Config, model: Shape, processes: int, how: Sharding, *, gpu: bool = True) -> dict[str, int]:
    """Bytes a process by purpose, and `in all at most`: what stays, and the larger of rolling out and learning."""
    rollouts, operation = config.rollouts, config.operation
    sequences = config.training.batch_tasks * rollouts.rollouts_per_task // processes
    tokens = (operation.micro_batch or sequences) * rollouts.max_context_tokens
    bf16 = operation.precision == "bf16" or (operation.precision == "auto" and gpu)
    width = HALF if bf16 else FLOAT
    own = not operation.rollout_servers and not operation.colocated
    trained = model.adapters(config.policy.lora_rank) if config.policy.lora_rank else model.parameters
    total = model.parameters + (trained if config.policy.lora_rank else 0)

    stays = _kept_weights(config, total, trained, processes, how)
    if own and how != "whole":
        stays["whole copy that rolls out"] = total * FLOAT
    if operation.colocated:
        stays["vLLM, on a GPU of 80 GB"] = int(operation.colocated_memory * 80e9)
    learning = _learning(config, model, tokens, width, how, gpu=gpu)
    if config.training.kl and not config.policy.lora_rank and how == "fsdp":
        learning["reference policy while it is asked"] = model.parameters * width
    rolling = {}
    if own:
        cache = 2 * model.layers * model.keys * width * rollouts.max_context_tokens
        rolling["rollouts' cache"] = sequences * cache
        rolling["rollouts' next words"] = 4 * sequences * model.vocabulary * FLOAT
        if bf16:
            frozen = bool(config.policy.lora_rank)  # then autocast keeps none of them
            rolling["weights in bfloat16 while rolling out"] = (model.layer if frozen else total) * HALF
    most = sum(stays.values()) + max(sum(learning.values()), sum(rolling.values()))
    return {**stays, **learning, **rolling, "in all at most": most}


def _kept_weights(config: Config, total: int, trained: int, processes: int, how: Sharding) -> dict[str, int]:
    """What is there all the time. ZeRO computes with bfloat16 weights and keeps float32 ones beside the optimizer."""
    zero, spread = how in ("zero2", "zero3"), processes if how in ("fsdp", "zero3") else 1
    shared = 1 if how == "whole" else processes
    found = {
        "weights": total * (HALF if zero else FLOAT) // spread,
        "gradients": trained * FLOAT // shared,
        "optimizer": trained * (OPTIMIZER[config.training.optimizer] + (FLOAT if zero else 0)) // shared,
    }
    if config.training.kl:
        adapted = bool(config.policy.lora_rank)  # then the reference is the frozen weights, and a copy of the adapter
        found["reference policy"] = (trained * FLOAT if adapted else total * (HALF if zero else FLOAT)) // spread
    return found


def _learning(config: Config, model: Shape, tokens: int, width: int, how: Sharding, *, gpu: bool) -> dict[str, int]:
    """What a forward and backward pass over `tokens` needs beside."""
    adapted = bool(config.policy.lora_rank)
    recomputed = gpu and config.policy.kind == "transformers"  # gradient checkpointing by layer (trl_grpo)
    residual = FLOAT if how == "whole" else width  # autocast leaves the sum between layers in float32
    if recomputed:
        activations = tokens * (model.layers * model.hidden * residual + model.kept * width)
    else:
        activations = tokens * model.layers * model.kept * width
    scored = min(tokens, TILE[0])
    head = scored * min(model.vocabulary, TILE[1]) * width + 2 * tokens * model.hidden * FLOAT
    found = {
        "activations" + (", recomputed layer by layer" if recomputed else ""): activations,
        "scores of tokens": head + (0 if adapted else model.vocabulary * model.hidden * FLOAT),
    }
    if how in ("fsdp", "zero3"):
        found["gathered layers"] = (2 * model.layer + model.outside) * width
    elif how == "whole" and width == HALF:
        found["weights in bfloat16 while learning"] = (
            model.layer + model.outside if adapted else model.parameters
        ) * HALF
    return found


def _parameters(file: Path) -> int:
    """The numbers in a file of safetensors, from its header."""
    with file.open("rb") as source:
        header = orjson.loads(source.read(int.from_bytes(source.read(8), "little")))
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
