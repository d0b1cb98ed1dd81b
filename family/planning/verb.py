"""`rods plan`: what a run would do, need and cost, before it does anything."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import PositiveFloat, PositiveInt

from rods.buffers.run.creation import check
from rods.buffers.run.run import Run
from rods.buffers.usage import costs
from rods.commands import Json
from rods.config import read_config
from rods.console.events import Events
from rods.console.output import print_result
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.family.planning.estimates import READ, WRITTEN, Characters, estimated
from rods.family.planning.plan import Launch, Rates, launched, model_shape, plan as planned
from rods.files import read_toml
from rods.gates.ground_truth import Room
from rods.players import Players
from rods.tasks import AnyTask
from rods.worlds.sources import beside, load_tasks

# What a trainer of weights logs of a step, beside its rewards; tokens are those of all rollouts
# together.
STEP = (
    "rollouts",
    "read_tokens",
    "generated_tokens",
    "processes",
    "rollout_seconds",
    "update_seconds",
)
IN_ALL = "in all at most"
MEMORY = 80.0, "assumed"  # GB of a GPU
ROOM = 0.9  # of a GPU; the rest is for what the estimate does not count
PERFECT = (
    "the ground truths of {} tasks by {}, in one reply a turn: a policy that thinks or errs takes "
    "more; a run with records says how much: --rates RUN"
)
TEMPLATE = "the chat template"
ASSUMED = f"assumed {READ:g} characters a token read and {WRITTEN:g} written"


def plan(
    config: Path,
    /,
    *,
    nodes: PositiveInt | None = None,
    gpus: PositiveInt | None = None,
    accelerate: Path | None = None,
    config_json: Path | None = None,
    rates: Annotated[list[Path] | None, Parameter(negative="")] = None,
    gpu: str | None = None,
    gpu_memory: PositiveFloat | None = None,
    price: PositiveFloat | None = None,
    as_json: Json = False,
) -> None:
    """Check all that a start would check, and print what the run would do: rollouts, tokens,
    memory, disk, hours, servers; each number with where it comes from. Starts and writes
    nothing.

    Args:
        config: A configuration, or a run folder.
        nodes: Machines that train.
        gpus: Processes on each of them, each with a GPU.
        accelerate: The configuration for `accelerate launch`.
        config_json: That of a model that is not here yet.
        rates: What `rods doctor --rate` wrote, or a run that has steps.
        gpu: Their kind, for speeds that nobody has measured: estimated from what its maker
            publishes (docs/plan.md). An unknown one names those that there are.
        gpu_memory: GB of each GPU, by default of `gpu`, else 80; what does not fit nine tenths of
            it is an error.
        price: Of an hour of one GPU, for what all of them cost.
    """
    if config.is_dir():
        run = Run.open(config)
        run.check_environments()
        settings = run.config
        tasks: Sequence[AnyTask] = run.tasks
        worlds = run.environments
        warnings = run.manifest["warnings"]
    else:
        settings = read_config(config)
        tasks = load_tasks(settings.data, config.parent, train_needed=settings.pool_slots > 0)
        worlds = Environments(settings.operation.sandbox, beside(settings.data, config.parent))
        warnings = check(settings, tasks, worlds)
    players = Players(worlds, settings)
    if settings.policy.kind != "simulated":
        for task in tasks:
            players.scored(task, settings)  # refuses what nobody here plays or judges
    launch = launched(accelerate) if accelerate else Launch()
    each = gpus or launch.processes // launch.nodes or 1
    machines = nodes or launch.nodes
    launch = replace(launch, nodes=machines, processes=machines * each)
    sources = [*((config,) if config.is_dir() else ()), *(rates or ())]
    rates_given = known_rates(sources)
    lengths = None
    chat_format = ""
    counted = TEMPLATE
    train = [task for task in tasks if task.split == "train"] or tasks
    if settings.policy.kind == "transformers" and train:
        from rods.trainer import fit  # late: it imports torch

        if not Path(settings.policy.model).is_dir():
            counted = ASSUMED
            lengths = fit.lengths(Characters(), settings, players, train)
        else:
            try:
                found, lengths = fit.of_policy(settings, players, train)
                chat_format = "".join(f"\n  {finding}" for finding in found)
            except UserError as error:
                chat_format = str(error)
            room = Room.of(settings) if lengths else None
            if room and (cramped := room.cramped(train, worlds.load)):
                warnings = [*warnings, cramped]
    if lengths and lengths.generated:
        by = PERFECT.format(lengths.tasks, counted)
        rates_given = {
            "rollout.read_tokens": (lengths.read, by),
            "rollout.generated_tokens": (lengths.generated, by),
            **rates_given,
        }
    if gpu:
        shape = model_shape(Path(settings.policy.model), config_json)
        rates_given = estimated(settings, shape, launch, gpu, rates_given)
    gpu_memory = gpu_memory or rates_given.get("gpu.gigabytes", MEMORY)[0]
    facts, figures = planned(settings, tasks, launch, config_json, rates_given, price)
    facts["chat format"] = chat_format
    if lengths:
        figures.add("tokens of a first prompt", lengths.prompt, tasks=lengths.tasks, by=counted)
    print_result(
        as_json,
        {"facts": facts, "figures": [figure._asdict() for figure in figures], "warnings": warnings},
        (f"{name}: {value}" for name, value in facts.items() if value),
        map(str, figures),
        (f"warning: {warning}" for warning in warnings),
        "nothing was started, nothing was written",
    )
    if settings.policy.kind == "transformers" and all(
        figure.name != "parameters" for figure in figures
    ):
        raise UserError(
            "there is no model",
            where=config_json or settings.policy.model,
            remedy="of one that is not here a plan needs its config.json: --config-json FILE; a "
            "run needs a folder with it in policy.model, not a name on a hub",
        )
    memory = {
        name.removeprefix("memory: "): value or 0.0
        for name, value, *_ in figures
        if name.startswith("memory: ")
    }
    needed = memory.pop(IN_ALL, 0.0)
    if launch.gpu and needed > ROOM * gpu_memory:
        purpose = max(memory, key=memory.__getitem__)
        raise UserError(
            f"a process needs {needed:g} GB, most of it for {purpose} ({memory[purpose]:g} GB); a "
            f"GPU has "
            f"{gpu_memory:g} GB, of which a tenth stays free",
            where=config,
            remedy="more GPUs that share the policy (--accelerate, --gpus), a smaller "
            "operation.micro_batch, operation.rollout_servers, or policy.lora_rank",
        )


def known_rates(sources: Sequence[Path]) -> Rates:
    """What files of rates and records of runs say; where several do, the last. Raises UserError for
    what is neither."""
    rates: dict[str, tuple[float, str]] = {}
    for source in sources:
        for name, value in (_measured(source) if source.is_dir() else read_toml(source)).items():
            if not isinstance(value, int | float) or not 1e-6 < value < 1e12:
                raise UserError(
                    f"{name} is {value!r}; no rate is",
                    where=source,
                    remedy="`rods doctor --rate` prints some (docs/plan.md)",
                )
            rates[name] = (value, str(source))
    return rates


def _measured(folder: Path) -> dict[str, float]:
    """The means of the latest steps of a run, if its policy has weights, and of its variants."""
    config = Run.open(folder).config
    spent = costs(folder).as_json()
    found = dict[str, float]()
    events = [
        [event.get(name) for name in STEP]
        for event in Events(folder).poll()
        if event.get("event") == "step"
    ]
    steps = [
        step
        for step in events
        if all(isinstance(value, int | float) and value > 0 for value in step)
    ]
    if steps:
        rollouts, read, generated, processes, rolling, update = map(sum, zip(*steps, strict=True))
        servers = config.operation.rollout_servers
        count = processes / len(steps)
        units = len(servers[0].urls) or 1 if servers else count
        found |= {
            "rollout.read_tokens": read / rollouts,
            "rollout.generated_tokens": generated / rollouts,
        }
        found[f"{'served' if servers else 'own'}.generated_tokens_per_second"] = (
            generated / rolling / units
        )
        found["update.tokens_per_second"] = (
            (read + generated) * config.training.passes / update / count
        )
    for kind, name in (
        (("read", "tokens_in"), ("generated", "tokens_out")) if spent["accepted"] else ()
    ):
        found[f"variant.{kind}_tokens"] = sum(
            stage["per_accepted"][name] for stage in spent["stages"].values()
        )
    return found
