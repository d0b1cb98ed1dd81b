"""Speeds that nobody has measured yet, from what makers publish of GPUs and models
(published.toml) and the shares of a peak that are assumed (docs/plan.md). They stand in for rates
that were not measured, and say so."""

from collections.abc import Sequence

from rods.canonical import frozen
from rods.config import Config, Endpoint
from rods.dialects import Message
from rods.errors import UserError
from rods.family.planning.plan import GPUS, HALF, Launch, ModelShape, Rates
from rods.files import module_table

PUBLISHED = module_table(__file__, "published.toml")
GPU_FIGURES = ("gpu.teraflops", "gpu.gigabytes_per_second", "gpu.gigabytes")
# characters a token, of prompts and of replies: those of BFCL by SmolLM2's tokenizer, rounded down
READ = 3.5
WRITTEN = 2.5
CALL = 1_700.0  # tokens of one call of a writer, read and written: docs/yield.md
FREE = 0.9  # of a GPU's memory


class Characters:
    """Stands in for the chat template of a model that is not here (rods.trainer.fit.Template)."""

    def prompt(self, messages: Sequence[Message]) -> range:
        texts = (text for one in messages for text in (one.content, *one.tools))
        return range(int(sum(map(len, texts)) / READ))

    continuation = prompt

    def reply(self, text: str) -> range:
        return range(int(len(text) / WRITTEN))


@frozen
class Cost:
    """What a token costs a model: its weights, and the widths of attention."""

    weights: float
    layers: int
    queries: int
    keys: int

    def operations(self, tokens: float) -> float:
        """Of a token's forward pass, the mean over a sequence of so many."""
        return 2 * self.weights + 2 * self.layers * self.queries * tokens

    @property
    def kept(self) -> int:
        """Bytes of a token in a cache of bfloat16."""
        return 2 * self.layers * self.keys * HALF


@frozen
class Gpu:
    """So many GPUs that share a model, at the speed that they are assumed to reach."""

    operations: float  # a second
    bandwidth: float  # bytes a second
    memory: float  # bytes

    def generated(self, cost: Cost, tokens: float, together: float) -> float | None:
        """Tokens a second of `together` sequences of so many tokens each, or of as many as have
        room; None: the weights have none."""
        room = (FREE * self.memory - cost.weights * HALF) / (cost.kept * tokens)
        if room < 1:
            return None
        together = min(together, room)
        read = cost.weights * HALF + together * tokens * cost.kept
        computed = together * cost.operations(tokens)
        return together / max(read / self.bandwidth, computed / self.operations)


def figures_of(name: str) -> Rates:
    """The published figures of a GPU, and the shares of them that are assumed. Raises UserError for
    one that is not in the table."""
    if name not in PUBLISHED["gpus"]:
        raise UserError(
            f"of {name} no figures are known",
            where="--gpu",
            remedy=f"one of {', '.join(PUBLISHED['gpus'])}; or measured rates: --rates FILE",
        )
    *figures, source = PUBLISHED["gpus"][name]
    published = {
        figure: (value, f"{name}: {source}")
        for figure, value in zip(GPU_FIGURES, figures, strict=True)
    }
    return published | {
        share: (value, "assumed; --rates FILE may say otherwise")
        for share, value in PUBLISHED["assumed"].items()
    }


def estimated(
    config: Config, shape: ModelShape | None, launch: Launch, gpu: str, given: Rates
) -> Rates:
    """`given`, and what it lacks for hours: speeds of training, rollouts and writers on GPUs of the
    kind `gpu`, as far as sizes are known. Raises UserError for a kind that is not in the table."""
    known = {**figures_of(gpu), **given}
    peak, bandwidth, memory, computing, reading = (
        known[name][0] for name in (*GPU_FIGURES, *PUBLISHED["assumed"])
    )
    source = (
        f"assumed: {computing:.0%} of {peak:g} TFLOP/s and {reading:.0%} of {bandwidth:,g} GB/s, "
        f"{known[GPU_FIGURES[0]][1]}; measured ones by --rates"
    )
    speeds: dict[str, float | None] = {}
    whole = float(config.rollouts.max_context_tokens)
    read = given.get("rollout.read_tokens", (0.0, ""))[0]
    written = given.get("rollout.generated_tokens", (whole, ""))[0]
    tokens = read + written

    def serve(server: Endpoint, cost: Cost, length: float) -> None:
        count = known.get(f"{server.model}.gpus", GPUS)[0]
        gpus = Gpu(
            count * peak * computing * 1e12, count * bandwidth * reading * 1e9, count * memory * 1e9
        )
        speed = gpus.generated(cost, length, server.concurrency)
        speeds[f"{server.model}.generated_tokens_per_second"] = speed
        speeds[f"{server.model}.prompt_tokens_per_second"] = speed and (
            gpus.operations / cost.operations(length)
        )

    if shape is not None:
        policy = Cost(shape.parameters, shape.layers, shape.queries, shape.keys)
        one = Gpu(peak * computing * 1e12, bandwidth * reading * 1e9, memory * 1e9)
        # forward, again where layers are recomputed, once for a reference policy, and backward:
        # twice as much, or once where the weights are frozen
        passes = 2 + (config.training.kl > 0) + (1 if config.policy.lora_rank else 2)
        per_token = policy.operations(tokens)
        speeds["update.tokens_per_second"] = one.operations / (passes * per_token)
        sequences = config.training.batch_tasks * config.rollouts.rollouts_per_task
        speed = one.generated(policy, tokens, sequences / launch.processes)
        speeds["own.generated_tokens_per_second"] = speed and written / (
            read * per_token / one.operations + written / speed
        )
        for server in config.operation.rollout_servers:
            serve(server, policy, tokens)
    for writer in config.operation.endpoints:
        if sizes := PUBLISHED["models"].get(writer.model.rpartition("/")[2]):
            billions, *widths = sizes
            serve(writer, Cost(billions * 1e9, *widths), CALL)
    found = {name: (value, source) for name, value in speeds.items() if value}
    return {**found, **known}
