"""Chooses the rollout engine of a run and how a vLLM gets the policy's weights (docs/training.md
has the choices). Like the modules named trl_*, it knows TRL.

TRL has the weights transferred once a batch, before it asks for rollouts
(`vllm_generation.sync_weights`); where they go over a folder, its object for that is replaced. From
there on TRL treats all vLLMs alike: it recomputes the log-probabilities of what they drew and
corrects the loss by the ratio (`training.engine_correction`).
"""

import shutil
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import torch

from rods.buffers.run.run import Run
from rods.canonical import JsonObject, keyed_random
from rods.config import Config, Rollouts
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply
from rods.errors import UserError
from rods.faults import NO_ANSWER
from rods.llm.wire import finish_of
from rods.logs import log
from rods.trainer.chat import Chat
from rods.trainer.engines.base import Conversation, RolloutEngine, Sample
from rods.trainer.engines.local import LocalEngine
from rods.trainer.engines.served import ServedEngine
from rods.trainer.ranks import Ranks
from rods.trainer.weight_files import save_plain

# mean distance of log-probabilities, in nats: a warning; another model
FAR = 0.1
UNLIKE = 1.0


def vllm_arguments(config: Config) -> JsonObject:
    """What TRL's GRPOConfig is told about vLLM. Raises UserError for what cannot run here."""
    training = config.training
    operation = config.operation
    arguments: JsonObject = {
        "vllm_importance_sampling_correction": training.engine_correction != "none"
    }
    if training.engine_correction != "none":
        arguments["vllm_importance_sampling_mode"] = training.engine_correction
        arguments["vllm_importance_sampling_clip_max"] = training.engine_correction_max
    if not operation.colocated and not (
        operation.rollout_servers and operation.weight_transfer == "nccl"
    ):
        return arguments
    where = "operation.colocated" if operation.colocated else "operation.weight_transfer"
    if find_spec("vllm") is None:
        other = '([[operation.rollout_servers]], weight_transfer = "disk")'
        remedy = (
            f"install what trl[vllm] names here, or let a server of its own environment do the "
            f"rollouts {other}"
        )
        raise UserError("vLLM is not installed beside the trainer", where=where, remedy=remedy)
    if operation.colocated:
        return arguments | {
            "use_vllm": True,
            "vllm_mode": "colocate",
            "vllm_gpu_memory_utilization": operation.colocated_memory,
            "vllm_max_model_length": config.rollouts.max_context_tokens,
        }
    if not torch.cuda.is_available():
        what = "weights go over NCCL between GPUs, and this machine has none"
        raise UserError(what, where=where, remedy='use weight_transfer = "disk"')
    base = operation.rollout_servers[0].urls[0].removesuffix("/").removesuffix("/v1")
    return arguments | {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": base}


def rollout_engine(trainer: Any, run: Run, own: LocalEngine, ranks: Ranks) -> RolloutEngine:
    """The engine of the configuration, for TRL's `trainer` once it is built."""
    operation = run.config.operation
    if operation.colocated:
        return ColocatedEngine(own.chat, own.limits, trainer.vllm_generation.llm)
    if not operation.rollout_servers:
        return own
    served = ServedEngine(own.chat, own.limits, operation.rollout_servers[0])
    if operation.weight_transfer == "nccl":
        bring = trainer.vllm_generation.sync_weights
        give = served.servers.load
    else:
        apart = f"{run.name}-{crc32(bytes(run.path.resolve())):08x}"  # runs may share the folder
        folder = (
            Path(operation.weights_folder).resolve() / apart
            if operation.weights_folder
            else run.path / "served"
        )
        bring = trainer.shards.gather
        give = partial(by_disk, own, served, folder)
        # What TRL would set up with use_vllm, had vLLM to be installed beside it for that.
        trainer.use_vllm = True
        trainer._last_loaded_step = -1

    def sync_weights() -> None:
        """Transfers the weights and tells every process their version. Raises InfrastructureError
        when the server does not take them."""
        trainer.ahead.wait()  # it is played by one policy
        bring()  # in all processes
        served.version = ranks.together(give)

    trainer.vllm_generation = SimpleNamespace(sync_weights=sync_weights)
    return served


def by_disk(own: LocalEngine, served: ServedEngine, folder: Path) -> str:
    """Has the servers load the weights of `own` from a new folder in `folder`; their version.
    Raises InfrastructureError when they do not take them, or nobody answers for `retry_seconds`."""
    shutil.rmtree(folder, ignore_errors=True)  # what a killed trainer left
    written = folder / token_hex(4)  # a name that no cache of a shared disk has seen
    written.mkdir(parents=True)
    try:
        # as the policy's products see them
        save_plain(own.model, written, torch.bfloat16 if own.bf16 else None)
        return served.servers.load(written.resolve())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare(output: dict[str, torch.Tensor], ranks: Ranks) -> None:
    """Compares the log-probabilities with which a vLLM drew the tokens of TRL's batch with the
    policy's: their mean distance a token, in nats, is logged above FAR. Raises UserError above
    UNLIKE: the vLLM serves another model."""
    own = output["tool_mask"]
    old = output.get("old_per_token_logps")
    drawn = output["sampling_per_token_logps"]
    if old is None:
        return
    parts = ranks.gathered([(float(((old - drawn) * own).abs().sum()), int(own.sum()))])
    apart = sum(distance for distance, _ in parts) / max(1, sum(count for _, count in parts))
    if apart > FAR:
        log.warning(
            "rollouts were drawn from another distribution than the policy's",
            nats_a_token=round(apart, 3),
        )
    if apart > UNLIKE:
        why = "it serves other weights, or reports raw log-probabilities"
        what = f"what vLLM drew lies {apart:.1f} nats a token from the policy: {why}"
        remedy = (
            "serve the folder of policy.model, with --logprobs-mode processed_logprobs; or, with "
            "rollouts.ahead, lower training.learning_rate: the update may have moved it so far"
        )
        raise UserError(what, where="operation.rollout_servers", remedy=remedy)


class ColocatedEngine:
    """Rolls out with vLLM inside the trainer's own processes, on their GPUs: in lock-step, token
    in, token out.

    TRL builds `llm`, to report log-probabilities after temperature and nucleus, and gives it the
    weights before each batch; prompts go to it directly, because every reply has its own room, seed
    and end tokens."""

    def __init__(self, chat: Chat, limits: Rollouts, llm: Any) -> None:
        self.chat = chat
        self.limits = limits
        self.llm = llm

    def rollouts(
        self, jobs: Sequence[Job], *, random_seed: int, first: int = 0, greedy: bool = False
    ) -> list[Sample]:
        """Runs `jobs` as one batch (rods.trainer.engines.base.RolloutEngine)."""
        rows = [Conversation() for _ in jobs]
        seeds = [
            keyed_random(random_seed, "place", first + place).getrandbits(62)
            for place in range(len(jobs))
        ]

        def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
            for job, need in waiting:
                rows[job].ask(self.chat, need)
            active = [job for job, _ in waiting if rows[job].room(self.limits) >= 1]
            asked = [self._sampling(rows[job], seeds[job], greedy) for job in active]
            prompts = [
                {"prompt_token_ids": rows[job].prompt + rows[job].completion} for job in active
            ]
            outputs = active and self.llm.generate(prompts, sampling_params=asked, use_tqdm=False)
            written = {
                job: self._taken(rows[job], output.outputs[0], greedy)
                for job, output in zip(active, outputs, strict=True)
            }
            return [written.get(job, Reply("", "context")) for job, _ in waiting]

        traces = run_lockstep(jobs, complete)
        return [row.sample(trace) for row, trace in zip(rows, traces, strict=True)]

    def _sampling(self, row: Conversation, seed: int, greedy: bool) -> Any:
        from vllm import SamplingParams  # late: only where a run asks for it

        return SamplingParams(
            max_tokens=row.room(self.limits),
            temperature=0.0 if greedy else self.limits.temperature,
            top_p=1.0 if greedy else self.limits.top_p,
            seed=(seed + len(row.spans)) % 2**62,
            stop_token_ids=sorted(self.chat.ends),
            logprobs=None if greedy else 0,
            detokenize=False,
        )

    def _taken(self, row: Conversation, output: Any, greedy: bool) -> Reply:
        tokens = list(output.token_ids)
        finish = finish_of(output.finish_reason)
        if not tokens or finish in NO_ANSWER:
            return Reply(f"no completion: {finish}", "infrastructure")
        drawn = (
            ()
            if greedy
            else [of[token].logprob for token, of in zip(tokens, output.logprobs, strict=True)]
        )
        return row.take(self.chat, tokens, self.limits, drawn)
