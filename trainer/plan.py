"""What a run would do, before it does anything: `rods-train RUN --config FILE --dry-run`.

Checks all that the start itself would check of configuration, data and tasks, and prints steps, rollouts, tokens,
memory and files. Nothing is written and no model is loaded; the number of parameters is read from the headers of the
weights. The memory is an estimate from shapes, good to tell a GPU that is far too small, not to fill one to the brim.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from rods import runfolder
from rods.config import Config
from rods.tasks import Task
from trainer.checkpoints import KEEP

FLOAT, HALF = 4, 2  # bytes
OPTIMIZER_BYTES = {"adamw": 2 * FLOAT, "muon": FLOAT}  # of state a parameter


def plan(path: Path, config: Config, tasks: Sequence[Task], warnings: Sequence[str], processes: int) -> dict[str, Any]:
    """The plan as JSON. `tasks` and `warnings` have passed `buffers.creation.check`; `processes` train together."""
    training, rollouts = config.training, config.rollouts
    sequences = training.batch_tasks * rollouts.rollouts_per_task
    train = [task for task in tasks if task.split == "train"]
    first = [task for task in train if task.type in config.curriculum.stages[0].types]
    shape = _shape(Path(config.policy.model)) if config.policy.kind == "transformers" else None
    return {
        "run": {"folder": str(path), "exists": runfolder.exists(path), "sync": config.sync},
        "tasks": {
            "train": dict(sorted(Counter(task.type for task in train).items())),
            "held_out": dict(sorted(Counter(task.split for task in tasks if task.split != "train").items())),
            "environments": sorted({task.environment.name for task in tasks}),
        },
        "steps": {
            "steps": training.steps,
            "steps_in_the_first_epoch": math.ceil(len(first) / training.batch_tasks),
            "stages": [_stage(stage.model_dump()) for stage in config.curriculum.stages],
            "rollouts_a_step": sequences,
            "rollouts": sequences * training.steps,
            "tokens_a_step_at_most": sequences * rollouts.max_context_tokens,
        },
        "policy": {"kind": config.policy.kind, "model": config.policy.model, "dialect": config.policy.dialect}
        | ({"parameters": shape["parameters"]} if shape else {}),
        "rollouts_by": [url for server in config.operation.rollout_servers for url in server.urls] or ["the trainer"],
        "memory_gb_a_process": _memory(config, shape, sequences // processes) if shape else None,
        "processes": processes,
        "variants_by": _writers(config),
        "disk_gb": _disk(config, shape),
        "warnings": list(warnings),
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The plan for people."""
    said = [f"{name.replace('_', ' ')}: {_said(value)}" for name, value in found.items() if value not in (None, [])]
    return [*said, "nothing was started, nothing was written"]


def _stage(rules: dict[str, Any]) -> str:
    ends = f"{rules['epochs']} epochs" if rules["epochs"] else "the end of the run"
    until = f"a plateau, at the latest {ends}" if rules["until"] == "plateau" else ends
    aids = [aid for aid, on in (("hints", rules["feedback"] == "hints"), ("variants", rules["expand"])) if on]
    also = f" with {' and '.join(aids)}" if aids else ""
    return f"{rules['reward']} on {', '.join(rules['types'])}{also} until {until}"


def _memory(config: Config, shape: dict[str, int], sequences: int) -> dict[str, float]:
    """Gigabytes by purpose. Training holds float32 weights, their gradients and the optimizer's state."""
    micro = config.operation.micro_batch or sequences
    context, count = config.rollouts.max_context_tokens, shape["parameters"]
    width = HALF if config.operation.precision != "float32" else FLOAT
    found = {
        "weights": count * FLOAT,
        "gradients": count * FLOAT,
        "optimizer": count * OPTIMIZER_BYTES[config.training.optimizer],
        "reference policy": count * FLOAT if config.training.kl else 0,
        "activations, recomputed by layer": micro * context * shape["layers"] * shape["hidden"] * width,
        "logits": 2 * micro * context * shape["vocabulary"] * FLOAT,
    }
    if not config.operation.rollout_servers:
        found["rollouts' cache"] = 2 * sequences * context * shape["layers"] * shape["keys"] * width
    found["in all"] = sum(found.values())
    return {name: round(value / 1e9, 2) for name, value in found.items()}


def _disk(config: Config, shape: dict[str, int] | None) -> dict[str, float]:
    found = {"traces": config.operation.trace_bytes / 1e9}
    if shape:
        one = shape["parameters"] * (FLOAT + OPTIMIZER_BYTES[config.training.optimizer])
        found[f"checkpoints (the first and the newest {KEEP})"] = (KEEP + 1) * one / 1e9
    return {name: round(value, 2) for name, value in found.items()}


def _writers(config: Config) -> list[str]:
    if not any(stage.expand for stage in config.curriculum.stages) or not config.selection.seeds_per_step:
        return ["nobody: static data"]
    if config.pipeline.author == "procedural":
        return ["recipes and phrase books"]
    return [f"{one.model} at {', '.join(one.urls) or one.url_file}" for one in config.operation.endpoints]


def _shape(folder: Path) -> dict[str, int] | None:
    """Parameters and sizes of the model in `folder`, from its config and the headers of its weights; None without."""
    try:
        known = orjson.loads((folder / "config.json").read_bytes())
        parameters = sum(_parameters(file) for file in folder.glob("*.safetensors"))
        hidden, heads = int(known["hidden_size"]), int(known["num_attention_heads"])
        size = int(known.get("head_dim") or hidden // heads)
        return {
            "parameters": parameters,
            "layers": int(known["num_hidden_layers"]),
            "hidden": hidden,
            "keys": int(known.get("num_key_value_heads") or heads) * size,
            "vocabulary": int(known["vocab_size"]),
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _parameters(file: Path) -> int:
    """The numbers in a file of safetensors, from its header."""
    with file.open("rb") as source:
        header = orjson.loads(source.read(int.from_bytes(source.read(8), "little")))
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_said(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "; ".join(map(_said, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
