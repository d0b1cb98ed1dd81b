"""What a run would do, before it does anything: `rods-train RUN --config FILE --dry-run`.

Nothing is written and no model is loaded; the number of parameters is read from the headers of the weights. The memory
a process needs is estimated from shapes: weights, gradients and optimizer, a reference policy for the KL penalty, what
a forward pass leaves behind for the backward pass, the tiles in which TRL scores tokens, and the rollouts' cache. Not
counted are CUDA's context, buffers of NCCL and fragments: leave a tenth of a GPU for them. `python -m bench.memory`
compares the estimate with a measurement.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import orjson
import yaml

from rods.buffers.checkpoints import KEEP
from rods.buffers.run import runfolder
from rods.config import Config, Endpoint
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.files import LINE, read_regular
from rods.players import Players
from rods.rules.curriculum import writes
from rods.rules.order import epoch_steps
from rods.tasks import AnyTask

FLOAT, HALF = 4, 2  # bytes
NAMED = {"hints": "hints", "agents": "feedback of agents"}
OPTIMIZER = {"adamw": 2 * FLOAT, "muon": FLOAT}  # bytes of state a parameter
TILE = 4096, 32_768  # tokens and words of the vocabulary that TRL scores at a time
Sharding = Literal["whole", "fsdp", "zero2", "zero3"]


@dataclass(frozen=True, slots=True)
class Launch:
    """How many processes train together, and how they share the policy."""

    processes: int = 1
    sharding: Sharding = "whole"
    gpu: bool = True


def launched(file: Path) -> Launch:
    """What an accelerate configuration starts. Raises UserError for a file that is none."""
    try:
        known = yaml.safe_load(read_regular(file))
        kind = known["distributed_type"]
        sharding: Sharding = "fsdp" if kind == "FSDP" else "whole"
        if kind == "DEEPSPEED":
            sharding = "zero3" if int(known["deepspeed_config"]["zero_stage"]) == 3 else "zero2"
        return Launch(int(known["num_processes"]), sharding, not known.get("use_cpu", False))
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        what = f"not a configuration of accelerate ({type(error).__name__}: {error})"
        remedy = "take one of experiments/training/*.yaml, or write one with `accelerate config`"
        raise UserError(what, where=str(file), remedy=remedy) from error


def split(config: Config, processes: int) -> tuple[int, int]:
    """Sequences a step, and those in one backward pass of one of `processes`. Raises UserError where they do not come
    out even."""
    sequences = config.training.batch_tasks * config.rollouts.rollouts_per_task
    if config.rollouts.refill and processes > 1:
        what = f"a step that is refilled is rolled out by one process, not by {processes}"
        remedy = "set it to 0, or start one process (a rollout server may have several GPUs)"
        raise UserError(what, where="rollouts.refill", remedy=remedy)
    if sequences % processes:
        what = f"{sequences} sequences a step do not split over {processes} processes"
        remedy = "choose batch_tasks × rollouts_per_task as a multiple of the number of processes"
        raise UserError(what, where="training.batch_tasks", remedy=remedy)
    share = sequences // processes
    micro_batch = config.operation.micro_batch or share
    if share % micro_batch:
        what = f"{share} sequences a process and step do not split into micro-batches of {micro_batch}"
        remedy = "choose a divisor of batch_tasks × rollouts_per_task ÷ processes, or 0 for one pass"
        raise UserError(what, where="operation.micro_batch", remedy=remedy)
    return sequences, micro_batch


def plan(
    path: Path,
    config: Config,
    tasks: Sequence[AnyTask],
    warnings: Sequence[str],
    launch: Launch,
    config_json: Path | None = None,
) -> dict[str, Any]:
    """The plan as JSON. `tasks` and `warnings` have passed `rods.buffers.run.creation.check`. The policy's shape is
    read from `config_json`, else from its folder; what needs one is left out where there is none."""
    training, operation, policy = config.training, config.operation, config.policy
    sequences, micro_batch = split(config, launch.processes)
    refilling = sequences * config.rollouts.refill
    train = [task for task in tasks if task.split == "train"]
    first = [task for task in train if task.type in config.curriculum.stages[0].types]
    shape, memory = None, None
    if policy.kind == "transformers" and (shape := model_shape(Path(policy.model), config_json)):
        needed = estimate_memory(config, shape, launch.processes, launch.sharding, gpu=launch.gpu)
        memory = {purpose: round(size / 1e9, 2) for purpose, size in needed.items()}
    outside = ", ".join(Players(Environments(), config).outside)
    players = [f"{outside} by {_named(server)}" for server in operation.players or operation.endpoints]
    return {
        "run": {"folder": str(path), "exists": runfolder.exists(path), "sync": config.sync},
        "tasks": {
            "train": dict(sorted(Counter(task.type for task in train).items())),
            "held_out": dict(sorted(Counter(task.split for task in tasks if task.split != "train").items())),
            "environments": sorted({task.environment.name for task in tasks}),
        },
        "steps": {
            "steps": training.steps,
            "steps_in_the_first_epoch": epoch_steps(config, len(first)),
            "drawn_tasks_a_step": training.batch_tasks - config.pool_slots,
            "stages": [_stage(stage.model_dump()) for stage in config.curriculum.stages],
            "rollouts_a_step": sequences,
            "rollouts": sequences * training.steps,
            **({"refilling_rollouts_at_most": refilling * training.steps} if refilling else {}),
            "tokens_a_step_at_most": (sequences + refilling) * config.rollouts.max_context_tokens,
            "sequences_a_backward_pass": micro_batch,
        },
        "policy": {"kind": policy.kind, "model": policy.model, "dialect": policy.dialect}
        | ({"parameters": shape.parameters} if shape else {})
        | ({"lora_rank": policy.lora_rank} if policy.lora_rank else {}),
        "rollouts_by": _engine(config),
        "processes": launch.processes,
        "sharding": launch.sharding,
        "memory_gb_a_process": memory,
        "variants_by": _writers(config),
        **({"played_by": players} if outside else {}),
        "disk_gb": _disk(config, shape),
        "warnings": list(warnings),
    }


def lines(plan: dict[str, Any]) -> list[str]:
    """The plan for people."""
    said = [f"{name.replace('_', ' ')}: {_said(value)}" for name, value in plan.items() if value not in (None, [])]
    return [*said, "nothing was started, nothing was written"]


def _stage(rules: dict[str, Any]) -> str:
    ends = f"{rules['epochs']} epochs" if rules["epochs"] else "the end of the run"
    until = f"a plateau, at the latest {ends}" if rules["until"] == "plateau" else ends
    aids = [rules["interface"], NAMED.get(rules.get("feedback", "")), "variants" if rules["expand"] else None]
    also = f" with {' and '.join(filter(None, aids))}" if any(aids) else ""
    return f"{rules['reward']} on {', '.join(rules['types'])}{also} until {until}"


def _engine(config: Config) -> list[str]:
    operation = config.operation
    if operation.colocated:
        return [f"vLLM beside each process, with {operation.colocated_memory:.0%} of its GPU"]
    return [url for server in operation.rollout_servers for url in server.urls] or ["the trainer"]


def _disk(config: Config, shape: "ModelShape | None") -> dict[str, float]:
    needed = {"traces": config.operation.trace_bytes / 1e9}
    if shape:
        rank, state = config.policy.lora_rank, OPTIMIZER[config.training.optimizer]
        trained = shape.adapters(rank) * (FLOAT + state) if rank else shape.parameters * state
        checkpoint = shape.parameters * FLOAT + trained
        needed[f"checkpoints (the first and the newest {KEEP})"] = (KEEP + 1) * checkpoint / 1e9
    return {name: round(value, 2) for name, value in needed.items()}


def _writers(config: Config) -> list[str]:
    if not writes(config):
        return ["nobody: static data"]
    if config.pipeline.author == "procedural":
        return ["recipes and phrase books"]
    return [_named(server) for server in config.operation.endpoints]


def _named(server: Endpoint) -> str:
    return f"{server.model} at {', '.join(server.urls) or server.url_file}"


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_said(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "; ".join(map(_said, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class ModelShape:
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


def no_model(folder: Path) -> UserError:
    """That no model is in `folder`."""
    remedy = "policy.model must be a folder with a model in it, not a name on a hub; if it has moved, say where to with"
    return UserError("there is no model", where=str(folder), remedy=f"{remedy} --config")


def model_shape(folder: Path, config_json: Path | None = None) -> ModelShape | None:
    """The model in `folder`, from its config (or `config_json`) and the headers of its weights, if there are any; None
    where there is no config."""
    try:
        known = orjson.loads(read_regular(config_json or folder / "config.json"))
        hidden, heads = int(known["hidden_size"]), int(known["num_attention_heads"])
        size = int(known.get("head_dim") or hidden // heads)
        shape = ModelShape(
            sum(map(_parameters, folder.glob("*.safetensors"))),
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
    return shape if shape.parameters else replace(shape, parameters=shape.outside + shape.layers * shape.layer)


def estimate_memory(
    config: Config, model: ModelShape, processes: int, how: Sharding, *, gpu: bool = True
) -> dict[str, int]:
    """Bytes a process by purpose, and `in all at most`: what stays, and the larger of rolling out and learning."""
    rollouts, operation, rank, kl = config.rollouts, config.operation, config.policy.lora_rank, config.training.kl
    sequences = config.training.batch_tasks * rollouts.rollouts_per_task // processes
    tokens = (operation.micro_batch or sequences) * rollouts.max_context_tokens
    bf16 = operation.precision == "bf16" or (operation.precision == "auto" and gpu)
    width = HALF if bf16 else FLOAT
    own = not operation.rollout_servers and not operation.colocated
    trained = model.adapters(rank) if rank else model.parameters
    total = model.parameters + (trained if rank else 0)

    # What is there all the time. ZeRO computes with bfloat16 weights and keeps float32 ones beside the optimizer.
    zero, spread = how in ("zero2", "zero3"), processes if how in ("fsdp", "zero3") else 1
    weights, shared = total * (HALF if zero else FLOAT), 1 if how == "whole" else processes
    stays = {
        "weights": weights // spread,
        "gradients": trained * FLOAT // shared,
        "optimizer": trained * (OPTIMIZER[config.training.optimizer] + (FLOAT if zero else 0)) // shared,
    }
    if kl:  # with LoRA the frozen weights, and a copy of the adapter
        stays["reference policy"] = (trained * FLOAT if rank else weights) // spread
    if own and how != "whole":
        stays["whole copy that rolls out"] = total * FLOAT
    if operation.colocated:
        stays["vLLM, on a GPU of 80 GB"] = int(operation.colocated_memory * 80e9)

    # What a forward and backward pass over `tokens` needs beside.
    recomputed = gpu and config.policy.kind == "transformers"  # gradient checkpointing by layer (trl_grpo)
    if recomputed:
        residual = FLOAT if how == "whole" else width  # autocast leaves the sum between layers in float32
        activations = tokens * (model.layers * model.hidden * residual + model.kept * width)
    else:
        activations = tokens * model.layers * model.kept * width
    head = min(tokens, TILE[0]) * min(model.vocabulary, TILE[1]) * width + 2 * tokens * model.hidden * FLOAT
    learning = {
        "activations" + (", recomputed layer by layer" if recomputed else ""): activations,
        "scores of tokens": head + (0 if rank else model.vocabulary * model.hidden * FLOAT),
    }
    if how in ("fsdp", "zero3"):
        learning["gathered layers"] = (2 * model.layer + model.outside) * width
    elif how == "whole" and bf16:
        learning["weights in bfloat16 while learning"] = HALF * (
            model.layer + model.outside if rank else model.parameters
        )
    if kl and not rank and how == "fsdp":
        learning["reference policy while it is asked"] = model.parameters * width

    rolling = {}
    if own:
        cache = 2 * model.layers * model.keys * width * rollouts.max_context_tokens
        rolling["rollouts' cache"] = sequences * cache
        rolling["rollouts' next words"] = 4 * sequences * model.vocabulary * FLOAT
        if bf16:  # with frozen weights autocast keeps none of them
            rolling["weights in bfloat16 while rolling out"] = (model.layer if rank else total) * HALF
    most = sum(stays.values()) + max(sum(learning.values()), sum(rolling.values()))
    return {**stays, **learning, **rolling, "in all at most": most}


def _parameters(file: Path) -> int:
    """The numbers in a file of safetensors, from its header."""
    with file.open("rb") as source:
        length = int.from_bytes(source.read(8), "little")
        header = orjson.loads(source.read(min(length, LINE)))  # what is longer is no JSON then
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
