"""Speeds that nobody has measured yet, from what makers publish of GPUs and models
(published.toml) and the shares of a peak that are assumed (docs/plan.md). They stand in for rates
that were not measured, and say so."""

from collections.abc import Sequence

from rods.config import Config, Endpoint
from rods.dialects import Message
from rods.errors import UserError
from rods.family.planning.plan import GPUS, HALF, Launch, ModelShape, Rates
from rods.files import module_table

PUBLISHED = module_table(__file__, "published.toml")
# characters a token, of prompts and of replies: those of BFCL by SmolLM2's tokenizer, rounded down
READ = 3.5
WRITTEN = 2.5
CALL = 1_700.0  # tokens of one call of a writer, read and written: docs/yield.md
FREE = 0.9  # of a GPU's memory


class Characters:
    """Stands in for the chat template of a model that is not here (rods.trainer.fit.lengths)."""

    def prompt(self, messages: Sequence[Message]) -> range:
        texts = (text for one in messages for text in (one.content, *one.tools))
        return range(int(sum(map(len, texts)) / READ))

    continuation = prompt

    def reply(self, text: str) -> range:
        return range(int(len(text) / WRITTEN))


def _published(name: str) -> ModelShape | None:
    """The sizes of a model by its name, which its folder may bear."""
    if (sizes := PUBLISHED["models"].get(name.rpartition("/")[2])) is None:
        return None
    billions, layers, queries, keys = sizes
    return ModelShape(int(billions * 1e9), layers, 0, queries, keys, 0, 0, tied=True)


def estimated(
    config: Config, policy: ModelShape | None, launch: Launch, gpu: str, given: Rates
) -> Rates:
    """`given`, and what it lacks for hours: speeds of training, rollouts and writers on GPUs of the
    kind `gpu`, as far as sizes are known; those that do not fit have none. Raises UserError for a
    kind that is not in the table."""
    if gpu not in PUBLISHED["gpus"]:
        raise UserError(
            f"of {gpu} no figures are known",
            where="--gpu",
            remedy=f"one of {', '.join(PUBLISHED['gpus'])}; or measured rates: --rates FILE",
        )
    *figures, maker = PUBLISHED["gpus"][gpu]
    peaks = dict(zip(PUBLISHED["columns"], figures, strict=True)) | PUBLISHED["assumed"]
    peaks |= {name: given[name][0] for name in peaks if name in given}
    peak, bandwidth, memory, computing, reading = peaks.values()
    source = (
        f"assumed: {computing:.0%} of {peak:g} TFLOP/s and {reading:.0%} of {bandwidth:,g} GB/s, "
        f"{gpu} ({maker}); measured ones by --rates"
    )
    speeds = {"gpu.gigabytes": memory}
    computed = peak * computing * 1e12  # operations a second of one GPU

    def forward(model: ModelShape, tokens: float) -> float:
        """Operations of a token, the mean over a sequence of so many."""
        return 2 * model.parameters + 2 * model.layers * model.queries * tokens

    def generated(model: ModelShape, tokens: float, together: float, gpus: float) -> float:
        """Tokens a second of `together` sequences of so many tokens each, or of as many as have
        room beside the weights; 0 where none has."""
        weights = model.parameters * HALF
        cache = 2 * model.layers * model.keys * HALF * tokens
        together = min(together, (FREE * gpus * memory * 1e9 - weights) // cache)
        if together < 1:
            return 0.0
        read = (weights + together * cache) / (gpus * bandwidth * reading * 1e9)
        speed: float = together / max(read, together * forward(model, tokens) / (gpus * computed))
        return speed

    def serve(server: Endpoint, model: ModelShape, tokens: float) -> None:
        gpus, _ = given.get(f"{server.model}.gpus", GPUS)
        if speed := generated(model, tokens, server.concurrency, gpus):
            speeds[f"{server.model}.generated_tokens_per_second"] = speed
            speeds[f"{server.model}.prompt_tokens_per_second"] = (
                gpus * computed / forward(model, tokens)
            )

    if policy := policy or _published(config.policy.model):
        read, _ = given.get("rollout.read_tokens", (0.0, ""))
        most = float(config.rollouts.max_context_tokens), ""
        written, _ = given.get("rollout.generated_tokens", most)
        operations = forward(policy, read + written)
        # forward, again where layers are recomputed, once for a reference policy, and backward:
        # twice as much, or once where the weights are frozen
        passes = 2 + (config.training.kl > 0) + (1 if config.policy.lora_rank else 2)
        speeds["update.tokens_per_second"] = computed / (passes * operations)
        sequences = config.training.batch_tasks * config.rollouts.rollouts_per_task
        if speed := generated(policy, read + written, sequences / launch.processes, 1):
            seconds = read * operations / computed + written / speed
            speeds["own.generated_tokens_per_second"] = written / seconds
        for server in config.operation.rollout_servers:
            serve(server, policy, read + written)
    for writer in config.operation.endpoints:
        if model := _published(writer.model):
            serve(writer, model, CALL)
    return {name: (value, source) for name, value in speeds.items()} | dict(given)
