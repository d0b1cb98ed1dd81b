"""LoRA: a policy learns small matrices beside its frozen weights (`policy.lora_rank`, through peft).

Whoever loads a checkpoint meets plain weights: what was learnt is added to a copy of the frozen weights when they are
saved. The model itself is never merged and unmerged, which would let rounding creep in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

ADAPTER = "adapter.pt"  # no .safetensors: servers load all of those in a folder


def adapted(model: Any, rank: int, random_seed: int) -> Any:
    """`model` with matrices of `rank` beside all its linear layers, of which only they are trained; scale 2. Half of
    them begin with draws of `random_seed`, the others at 0. The model itself for rank 0."""
    if not rank:
        return model
    from peft import LoraConfig, get_peft_model

    with torch.random.fork_rng():
        torch.manual_seed(random_seed)
        return get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))


def save_plain(model: Any, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Writes plain weights and their config into `folder`, as transformers and vLLM load them; rounded to `dtype` when
    one is given."""
    base, plain = _plain(model) if _is_adapted(model) else (model, model.state_dict())
    if dtype is not None:  # on the CPU, where there is room for a copy; tied weights stay one
        copies = {(value.data_ptr(), value.shape): value.to("cpu", dtype) for value in plain.values()}
        plain = {name: copies[value.data_ptr(), value.shape] for name, value in plain.items()}
    base.save_pretrained(folder, state_dict=plain)


def _plain(model: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """The model under its adapter, and its weights with what was learnt added."""
    from peft.tuners.lora import LoraLayer

    base = model.get_base_model()
    layers: dict[str, Any] = {name: module for name, module in base.named_modules() if isinstance(module, LoraLayer)}
    plain: dict[str, torch.Tensor] = {}
    for key, value in base.state_dict().items():
        name, inside, rest = key.partition(".base_layer.")
        if ".lora_" in key:
            continue
        if inside and rest == "weight":
            value = (value.float() + layers[name].get_delta_weight("default").float()).to(value.dtype)
        plain[f"{name}.{rest}" if inside else key] = value
    return base, plain


def save_adapter(model: Any, folder: Path) -> None:
    """Writes what is trained, exactly, where it is only a part of the weights."""
    if _is_adapted(model):
        torch.save({name: value for name, value in model.state_dict().items() if _learnt(name)}, folder / ADAPTER)


def load_adapter(model: Any, folder: Path) -> bool:
    """Restores what `save_adapter` wrote; False where all weights are trained. Raises OSError, RuntimeError."""
    if not _is_adapted(model):
        return False
    state = torch.load(folder / ADAPTER, weights_only=True)
    missing = model.load_state_dict(state, strict=False)
    if missing.unexpected_keys or any(_learnt(key) for key in missing.missing_keys):
        raise RuntimeError("an adapter of another shape")
    return True


def _learnt(name: str) -> bool:
    """Whether a weight of that name is trained. TRL keeps a copy of the first adapter, `ref`, for the KL penalty."""
    return ".lora_" in name and ".ref." not in name


def _is_adapted(model: Any) -> bool:
    return hasattr(model, "peft_config")
