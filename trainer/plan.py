"""What a run would do, before it does anything: `rods-train RUN --config FILE --dry-run`.

Checks all that the start itself would check of configuration, data and tasks, and prints steps, rollouts, tokens,
memory and files. Nothing is written and no model is loaded; the number of parameters is read from the headers of the
weights. The memory is an estimate from shapes (trainer/memory.py), for the processes that accelerate would start.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buffers.checkpoints import KEEP
from rods import runfolder
from rods.config import Config
from rods.errors import UserError
from rods.tasks import Task
from trainer import memory
from trainer.memory import FLOAT, OPTIMIZER, Shape, Sharding


@dataclass(frozen=True, slots=True)
class Launch:
    """How many processes train together, and how they share the policy."""

    processes: int = 1
    sharding: Sharding = "whole"
    gpu: bool = True


def launched(file: Path) -> Launch:
    """What an accelerate configuration starts. Raises UserError for a file that is none."""
    import yaml  # late: only the plan of a launch needs it

    try:
        known = yaml.safe_load(file.read_text(encoding="utf-8"))
        kind = known["distributed_type"]
        sharding: Sharding = "whole"
        if kind == "FSDP":
            sharding = "fsdp"
        elif kind == "DEEPSPEED":
            stage = int(known["deepspeed_config"]["zero_stage"])
            sharding = "zero3" if stage == 3 else "zero2"
        return Launch(int(known["num_processes"]), sharding, not known.get("use_cpu", False))
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"not a configuration of accelerate ({type(error).__name__}: {error})",
            where=str(file),
            remedy="take one of experiments/training/*.yaml, or write one with `accelerate config`",
        ) from error


def split(config: Config, processes: int) -> tuple[int, int]:
    """Sequences a step, and those of them in one backward pass of one of `processes`. Raises UserError where they do
    not come out even."""
    sequences = config.training.batch_tasks * config.rollouts.rollouts_per_task
    if sequences % processes:
        raise UserError(
            f"{sequences} sequences a step do not split over {processes} processes",
            where="training.batch_tasks",
            remedy="choose batch_tasks × rollouts_per_task as a multiple of the number of processes",
        )
    each = sequences // processes
    micro_batch = config.operation.micro_batch or each
    if each % micro_batch:
        raise UserError(
            f"{each} sequences a process and step do not split into micro-batches of {micro_batch}",
            where="operation.micro_batch",
            remedy="choose a divisor of batch_tasks × rollouts_per_task ÷ processes, or 0 for one pass",
        )
    return sequences, micro_batch


def plan(path: Path, config: Config, tasks: Sequence[Task], warnings: Sequence[str], launch: Launch) -> dict[str, Any]:
    """The plan as JSON. `tasks` and `warnings` have passed `buffers.run.creation.check`."""
    training, rollouts = config.training, config.rollouts
    sequences, micro_batch = split(config, launch.processes)
    train = [task for task in tasks if task.split == "train"]
    first = [task for task in train if task.type in config.curriculum.stages[0].types]
    shape = memory.shape(Path(config.policy.model)) if config.policy.kind == "transformers" else None
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
            "sequences_a_backward_pass": micro_batch,
        },
        "policy": {"kind": config.policy.kind, "model": config.policy.model, "dialect": config.policy.dialect}
        | ({"parameters": shape.parameters} if shape else {})
        | ({"lora_rank": config.policy.lora_rank} if config.policy.lora_rank else {}),
        "rollouts_by": _engine(config),
        "processes": launch.processes,
        "sharding": launch.sharding,
        "memory_gb_a_process": _gigabytes(
            memory.estimate(config, shape, launch.processes, launch.sharding, gpu=launch.gpu)
        )
        if shape
        else None,
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


def _engine(config: Config) -> list[str]:
    operation = config.operation
    if operation.colocated:
        return [f"vLLM beside each process, with {operation.colocated_memory:.0%} of its GPU"]
    return [url for server in operation.rollout_servers for url in server.urls] or ["the trainer"]


def _gigabytes(found: dict[str, int]) -> dict[str, float]:
    return {name: round(value / 1e9, 2) for name, value in found.items()}


def _disk(config: Config, shape: Shape | None) -> dict[str, float]:
    found = {"traces": config.operation.trace_bytes / 1e9}
    if shape:
        rank, state = config.policy.lora_rank, OPTIMIZER[config.training.optimizer]
        trained = shape.adapters(rank) * (FLOAT + state) if rank else shape.parameters * state
        one = shape.parameters * FLOAT + trained
        found[f"checkpoints (the first and the newest {KEEP})"] = (KEEP + 1) * one / 1e9
    return {name: round(value, 2) for name, value in found.items()}


def _writers(config: Config) -> list[str]:
    if not any(stage.expand for stage in config.curriculum.stages) or not config.selection.seeds_per_step:
        return ["nobody: static data"]
    if config.pipeline.author == "procedural":
        return ["recipes and phrase books"]
    return [f"{one.model} at {', '.join(one.urls) or one.url_file}" for one in config.operation.endpoints]


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_said(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "; ".join(map(_said, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
