"""What a run would do, before it does anything: `rods plan` (docs/plan.md). Nothing is written and
no model is loaded; the number of parameters is read from the headers of the weights. The memory a
process needs is estimated from shapes (docs/training.md#memory), and `python -m bench.memory`
compares that with a measurement; speeds are measured, never assumed. Each number says where it
comes from (plan.toml)."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import orjson
import yaml

from rods.buffers.checkpoints import KEEP
from rods.canonical import JsonObject, frozen
from rods.config import Config, Endpoint
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.files import LINE, read_regular, read_toml
from rods.players import Players
from rods.rules.curriculum import writes
from rods.rules.order import epoch_steps
from rods.tasks import AnyTask
from rods.trainer.prerequisites import at_once, split

# bytes
FLOAT = 4
HALF = 2
NAMED = {"hints": "hints", "agents": "feedback of agents"}
OPTIMIZER = {"adamw": 2 * FLOAT, "muon": FLOAT}  # bytes of state a parameter
TILE = 4096, 32_768  # tokens and words of the vocabulary that TRL scores at a time
Sharding = Literal["whole", "fsdp", "zero2", "zero3"]
TABLE: dict[str, list[str]] = read_toml(Path(__file__).with_suffix(".toml"))
# tokens in and out that scripted roles took for one of BFCL (docs/yield.md)
VARIANT = 12_724.0, 530.0
ASSUMED = "assumed: {}; a run with records says otherwise: --rates RUN"
MEASURE = "measure with `rods doctor --rate {} {} {} > FILE`, then --rates FILE; or estimate: --gpu"
GPUS = 1.0, "assumed: its gpus in a file of rates"
NONE = 0.0, ""
SIZES = (
    "hidden_size",
    "num_attention_heads",
    "num_hidden_layers",
    "intermediate_size",
    "vocab_size",
)
# what was measured, by name (docs/plan.md), and who says so
Rates = Mapping[str, tuple[float, str]]


@frozen
class Launch:
    """How many processes train together, and how they share the policy."""

    processes: int = 1
    sharding: Sharding = "whole"
    gpu: bool = True
    nodes: int = 1


class Figure(NamedTuple):
    """One number of a plan; `value` None: not known. `source` says how it came about, or what would
    make it known."""

    name: str
    value: float | None
    unit: str
    source: str

    def __str__(self) -> str:
        value = "not known" if self.value is None else f"{self.value:,} {self.unit}".rstrip()
        return f"{self.name}: {value} ({self.source})"


class Figures(list[Figure]):
    def add(self, name: str, value: float | None, about: str = "", **terms: object) -> None:
        """`name` as in the table, whose texts are filled with `terms`; `about` is what it is the
        number of."""
        unit, *sources = TABLE[name]
        value = value and (float(f"{value:.4g}") if value % 1 and value < 1000 else round(value))
        self.append(Figure(name + about, value, unit, sources[value is None].format(**terms)))


def launched(file: Path) -> Launch:
    """What an accelerate configuration starts. Raises UserError for a file that is none."""
    try:
        settings = yaml.safe_load(read_regular(file))
        kind = settings["distributed_type"]
        sharding: Sharding = "fsdp" if kind == "FSDP" else "whole"
        if kind == "DEEPSPEED":
            sharding = "zero3" if int(settings["deepspeed_config"]["zero_stage"]) == 3 else "zero2"
        count = int(settings["num_processes"])
        nodes = int(settings.get("num_machines", 1))
        return Launch(count, sharding, not settings.get("use_cpu", False), max(1, nodes))
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        what = f"not a configuration of accelerate ({type(error).__name__}: {error})"
        remedy = "take one of experiments/training/*.yaml, or write one with `accelerate config`"
        raise UserError(what, where=str(file), remedy=remedy) from error


def plan(
    config: Config,
    tasks: Sequence[AnyTask],
    launch: Launch,
    config_json: Path | None,
    rates: Rates,
    price: float | None = None,
) -> tuple[dict[str, str], Figures]:
    """What would be done, in words by name, and how much of it. `tasks` have passed
    `rods.buffers.run.creation.check`. The policy's shape is read from `config_json`, else in its
    folder; without it, what needs it is left out. `price` is that of a GPU-hour."""
    training = config.training
    operation = config.operation
    policy = config.policy
    rules = config.rollouts
    sequences, micro_batch = split(config, launch.processes, gpu=launch.gpu)
    train = [task.type for task in tasks if task.split == "train"]
    first = sum(type in config.curriculum.stages[0].types for type in train)
    outside = ", ".join(Players(Environments(), config).outside)
    author = (
        _named(operation.endpoints)
        if config.pipeline.author == "llm"
        else "recipes and phrase books"
    )
    facts = {
        "train": _counts(train),
        "held out": _counts(task.split for task in tasks if task.split != "train"),
        "environments": ", ".join(sorted({task.environment.name for task in tasks})),
        "stages": "; ".join(_stage_text(stage.model_dump()) for stage in config.curriculum.stages),
        "sync": config.sync,
        "policy": f"{policy.kind} {policy.model}, dialect {policy.dialect}, LoRA rank "
        f"{policy.lora_rank or 'none'}",
        "rollouts by": f"vLLM beside each process, with {operation.colocated_memory:.0%} of its GPU"
        if operation.colocated
        else _named(operation.rollout_servers) or "the trainer",
        "processes": f"{launch.processes}, {launch.processes // launch.nodes} a node",
        "sharding": launch.sharding,
        "variants by": author if writes(config) else "nobody: static data",
        "played by": f"{outside} by {_named(operation.players or operation.endpoints)}"
        if outside
        else "",
    }
    figures = Figures()
    figures.add("steps", training.steps)
    figures.add("steps in the first epoch", epoch_steps(config, first), tasks=first)
    figures.add("drawn tasks a step", training.batch_tasks - config.pool_slots)
    figures.add(
        "rollouts a step", sequences, tasks=training.batch_tasks, each=rules.rollouts_per_task
    )
    figures.add("rollouts", sequences * training.steps)
    figures.add("refilling rollouts at most", sequences * rules.refill * training.steps)
    figures.add("tokens a step at most", sequences * (1 + rules.refill) * rules.max_context_tokens)
    figures.add("sequences a backward pass", micro_batch)
    figures.add("disk: traces", operation.trace_bytes / 1e9)
    if policy.kind == "transformers" and (shape := model_shape(Path(policy.model), config_json)):
        figures.add("parameters", shape.parameters)
        for purpose, size in estimate_memory(
            config, shape, launch.processes, launch.sharding, gpu=launch.gpu
        ).items():
            figures.add(f"memory: {purpose}", size / 1e9)
        _stored(figures, config, shape, launch)
    _forecast(figures, config, launch.processes, launch.processes if launch.gpu else 0, rates)
    if price:
        hours = next((figure.value for figure in figures if figure.name == "GPU-hours"), None)
        figures.add("cost", hours and hours * price, price=price)
    return facts, figures


def _counts(names: Iterable[str]) -> str:
    return ", ".join(
        f"{kind.replace('_', ' ')} {count}" for kind, count in sorted(Counter(names).items())
    )


def _stored(figures: Figures, config: Config, shape: "ModelShape", launch: Launch) -> None:
    """A checkpoint on the disk, and what a node's processes hold in its own memory: before their
    GPUs have the policy, and later, where the first keeps a whole copy for others that roll out."""
    rank = config.policy.lora_rank
    state = OPTIMIZER[config.training.optimizer]
    whole = shape.parameters * FLOAT
    trained = shape.adapters(rank) * (FLOAT + state) if rank else shape.parameters * state
    figures.add("disk: checkpoints", (KEEP + 1) * (whole + trained) / 1e9, keep=KEEP)
    each = launch.processes // launch.nodes
    # the first one's and the file that all map (trainer/trl_start.py), and DeepSpeed's own
    loading = 1 + (each > 1) + each * launch.sharding.startswith("zero")
    elsewhere = config.operation.rollout_servers or config.operation.colocated
    kept = whole * (launch.sharding != "whole" and bool(elsewhere))
    most = max(loading * whole, kept + whole + trained)
    figures.add("host memory of a node", most / 1e9, each=each, times=loading)


def _forecast(figures: Figures, config: Config, processes: int, gpus: int, rates: Rates) -> None:
    """Adds the figures of `config` trained by `processes` with `gpus` together."""
    training = config.training
    operation = config.operation
    rollouts = config.rollouts
    pool = config.pool
    writers = operation.endpoints if writes(config) and config.pipeline.author == "llm" else ()
    trains = config.policy.kind in ("nano", "transformers")
    hours = None
    servers = operation.rollout_servers
    if trains:
        learnt = training.batch_tasks * rollouts.rollouts_per_task
        played = learnt * (1 + rollouts.refill)
        read, _ = rates.get("rollout.read_tokens", NONE)
        most = (
            float(rollouts.max_context_tokens),
            ASSUMED.format("rollouts.max_context_tokens, all the policy's"),
        )
        generated, source = rates.get("rollout.generated_tokens", most)
        figures.add("tokens a rollout", read + generated, known=source)
        figures.add("tokens of the policy", training.steps * played * (read + generated))
        alone = None
        terms = TABLE["seconds of an update"][2]
        units, of = (processes, "processes")
        for server in servers:
            alone, terms = _seconds(server, read, generated, rates)
            units, of = _addresses(server)
        speed, source = rates.get(
            f"{'served' if servers else 'own'}.generated_tokens_per_second", NONE
        )
        if alone is None and speed:
            alone = generated / speed
            terms = f"generated tokens ÷ {speed:,.0f} a second, {source}"
        rolling = alone and played * alone / units
        figures.add("seconds of rollouts a step", rolling, terms=terms, units=units, of=of)
        speed, source = rates.get("update.tokens_per_second", NONE)
        update = (
            learnt * (read + generated) * training.passes / speed / processes if speed else None
        )
        figures.add("seconds of an update", update, rate=speed, known=source, processes=processes)
        if rolling and update:
            step = max(rolling, update) if rollouts.ahead else rolling + update
            hours = training.steps * step / 3600
        figures.add("hours", hours)
        if servers:
            figures.add(
                "rollout servers that keep up",
                rolling and update and math.ceil(rolling * units / update),
            )
    if writers:
        picked = config.selection.seeds_per_step * config.pipeline.variants_per_seed
        taken = pool.inject_fraction * config.pool_slots if pool.staging_epochs else math.inf
        variants = pool.max_generated if pool.static else training.steps * min(picked, taken)
        figures.add(
            "variants at most",
            variants,
            picked=picked,
            taken=f"{taken:g}" if pool.staging_epochs else "any number",
            static=pool.max_generated,
        )
        read, source = rates.get(
            "variant.read_tokens", (VARIANT[0], ASSUMED.format("docs/yield.md"))
        )
        generated, source = rates.get("variant.generated_tokens", (VARIANT[1], source))
        figures.add("tokens a variant", read + generated, known=source)
        figures.add("tokens of writers", variants * (read + generated))
        for writer in writers:
            share = writer.weight / sum(other.weight for other in writers)
            alone, terms = _seconds(writer, read, generated, rates)
            enough = alone and hours and math.ceil(variants * share * alone / 3600 / hours)
            figures.add(
                "writing servers that keep up",
                enough,
                f", {writer.model}",
                share=share,
                terms=terms,
            )
    if trains:
        count = float(gpus)
        parts = [f"{gpus} of the trainer"]
        for server in (*servers, *writers):
            each, source = rates.get(f"{server.model}.gpus", GPUS)
            units, of = _addresses(server)
            count += units * each
            parts.append(f"{units} {of} × {each:g} of {server.model}, {source}")
        figures.add("GPU-hours", hours and hours * count, terms=" + ".join(parts))


def _addresses(server: Endpoint) -> tuple[int, str]:
    """How many, and how that is known."""
    return (
        (len(server.urls), "urls")
        if server.urls
        else (1, f"address, assumed: {server.url_file} may name more")
    )


def _seconds(
    server: Endpoint, read: float, generated: float, rates: Rates
) -> tuple[float | None, str]:
    """For which one address is busy with so many tokens, and how that is known or could be."""
    kinds = ("prompt", "generated")
    (fast, _), (slow, source) = (
        rates.get(f"{server.model}.{kind}_tokens_per_second", NONE) for kind in kinds
    )
    if not (fast and slow):
        return None, MEASURE.format(
            server.urls[0] if server.urls else "URL", server.model, server.concurrency
        )
    return (
        read / fast + generated / slow,
        f"tokens read ÷ {fast:,.0f} + generated ÷ {slow:,.0f} a second, {source}",
    )


def _stage_text(rules: JsonObject) -> str:
    ends = f"{rules['epochs']} epochs" if rules["epochs"] else "the end of the run"
    until = f"a plateau, at the latest {ends}" if rules["until"] == "plateau" else ends
    aids = [
        rules["interface"],
        NAMED.get(rules.get("feedback", "")),
        "variants" if rules["expand"] else None,
    ]
    also = f" with {' and '.join(filter(None, aids))}" if any(aids) else ""
    return f"{rules['reward']} on {', '.join(rules['types'])}{also} until {until}"


def _named(servers: Sequence[Endpoint]) -> str:
    return "; ".join(
        f"{server.model} at {', '.join(server.urls) or server.url_file}" for server in servers
    )


@frozen
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
        """Numbers a token that a layer keeps for its backward pass: of norms, attention and the
        gated inner layer."""
        return 8 * self.hidden + 3 * self.queries + 4 * self.keys + 4 * self.inner


def model_shape(folder: Path, config_json: Path | None = None) -> ModelShape | None:
    """The model in `folder`, from its config (or `config_json`) and the headers of its weights, if
    there are any; None where there is no config."""
    try:
        config = orjson.loads(read_regular(config_json or folder / "config.json"))
        config = config.get("text_config", config)  # of one that also sees or hears
        hidden, heads, layers, inner, vocabulary = (int(config[name]) for name in SIZES)
        size = int(config.get("head_dim") or hidden // heads)
        keys = int(config.get("num_key_value_heads") or heads) * size
        tied = config.get("tie_word_embeddings", False)
        weights = sum(map(_parameters, folder.glob("*.safetensors")))
        shape = ModelShape(
            weights, layers, hidden, heads * size, keys, inner, vocabulary, bool(tied)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return (
        shape
        if shape.parameters
        else replace(shape, parameters=shape.outside + shape.layers * shape.layer)
    )


def estimate_memory(
    config: Config, model: ModelShape, processes: int, how: Sharding, *, gpu: bool = True
) -> dict[str, int]:
    """Bytes a process by purpose, and `in all at most`: what stays, and the larger of rolling out
    and learning."""
    rollouts = config.rollouts
    operation = config.operation
    rank = config.policy.lora_rank
    kl = config.training.kl
    sequences = config.training.batch_tasks * rollouts.rollouts_per_task // processes
    tokens = at_once(config, sequences, gpu=gpu) * rollouts.max_context_tokens
    bf16 = operation.precision == "bf16" or (operation.precision == "auto" and gpu)
    width = HALF if bf16 else FLOAT
    own = not operation.rollout_servers and not operation.colocated
    trained = model.adapters(rank) if rank else model.parameters
    total = model.parameters + (trained if rank else 0)

    # What is there all the time. ZeRO computes with bfloat16 weights and keeps float32 ones beside
    # the optimizer.
    zero = how in ("zero2", "zero3")
    spread = processes if how in ("fsdp", "zero3") else 1
    weights = total * (HALF if zero else FLOAT)
    shared = 1 if how == "whole" else processes
    stays = {
        "weights": weights // spread,
        "gradients": trained * FLOAT // shared,
        "optimizer": trained
        * (OPTIMIZER[config.training.optimizer] + (FLOAT if zero else 0))
        // shared,
    }
    if kl:  # with LoRA the frozen weights, and a copy of the adapter
        stays["reference policy"] = (trained * FLOAT if rank else weights) // spread
    if own and how != "whole":
        stays["whole copy that rolls out"] = total * FLOAT
    if operation.colocated:
        stays["vLLM, on a GPU of 80 GB"] = int(operation.colocated_memory * 80e9)

    # What a forward and backward pass over `tokens` needs beside.
    # gradient checkpointing by layer (trl_grpo)
    recomputed = gpu and config.policy.kind == "transformers"
    if recomputed:
        # autocast leaves the sum between layers in float32
        residual = FLOAT if how == "whole" else width
        activations = tokens * (model.layers * model.hidden * residual + model.kept * width)
    else:
        activations = tokens * model.layers * model.kept * width
    head = (
        min(tokens, TILE[0]) * min(model.vocabulary, TILE[1]) * width
        + 2 * tokens * model.hidden * FLOAT
    )
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
            rolling["weights in bfloat16 while rolling out"] = (
                model.layer if rank else total
            ) * HALF
    most = sum(stays.values()) + max(sum(learning.values()), sum(rolling.values()))
    return {**stays, **learning, **rolling, "in all at most": most}


def _parameters(file: Path) -> int:
    """The numbers in a file of safetensors, from its header."""
    with file.open("rb") as source:
        length = int.from_bytes(source.read(8), "little")
        header = orjson.loads(source.read(min(length, LINE)))  # what is longer is no JSON then
    return sum(
        math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__"
    )
