"""Chooses the rollout engine of a run and how a vLLM gets the policy's weights. Like the modules named trl_*, it knows
TRL.

| configuration | rollouts | weights |
|---|---|---|
| nothing | the trainer's own model | |
| `operation.rollout_servers` | a vLLM server | a folder that the server loads |
| the same, `weight_transfer = "nccl"` | a vLLM server | TRL streams them over vLLM's NCCL engine |
| `operation.colocated` | vLLM in the trainer's processes | TRL loads them in place |

TRL has the weights transferred once a batch, before it asks for rollouts (`vllm_generation.sync_weights`); where they
go over a folder, its object for that is replaced. From there on TRL treats all vLLMs alike: it recomputes the
log-probabilities of what they drew and corrects the loss by the ratio (`training.engine_correction`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any
from zlib import crc32

import torch

from buffers.run.run import Run
from rods.errors import UserError
from rods.logs import log
from trainer.engines.base import RolloutEngine
from trainer.engines.colocated import ColocatedEngine
from trainer.engines.local import LocalEngine
from trainer.engines.served import ServedEngine
from trainer.ranks import Ranks
from trainer.weight_files import save_plain

FAR, UNLIKE = 0.1, 1.0  # mean distance of log-probabilities, in nats: a warning; another model


def rollout_engine(trainer: Any, run: Run, own: LocalEngine, ranks: Ranks) -> RolloutEngine:
    """The engine of the configuration, for TRL's `trainer` once it is built."""
    operation = run.config.operation
    if operation.colocated:
        return ColocatedEngine(own.chat, own.limits, trainer.vllm_generation.llm)
    if not operation.rollout_servers:
        return own
    served = ServedEngine(own.chat, own.limits, operation.rollout_servers[0])
    if operation.weight_transfer == "nccl":
        theirs = trainer.vllm_generation
        trainer.vllm_generation = Transfer(served, ranks, lambda: served.servers.set_version(), theirs.sync_weights)
    else:
        apart = f"{run.name}-{crc32(bytes(run.path.resolve())):08x}"  # runs may share the folder
        folder = Path(operation.weights_folder).resolve() / apart if operation.weights_folder else run.path / "served"
        # What TRL would set up with use_vllm, had vLLM to be installed beside it for that.
        trainer.use_vllm, trainer._last_loaded_step = True, -1
        trainer.vllm_generation = Transfer(served, ranks, lambda: by_disk(own, served, folder), trainer.shards.gather)
    return served


class Transfer:
    """Replaces TRL's VLLMGeneration: transfers the weights and tells every process their version. `give` runs in the
    first process alone and returns the version, `everybody` before it in all of them."""

    def __init__(
        self, served: ServedEngine, ranks: Ranks, give: Callable[[], str], everybody: Callable[[], None] | None = None
    ) -> None:
        self.served, self.ranks, self.give, self.everybody = served, ranks, give, everybody

    def sync_weights(self) -> None:
        """Raises InfrastructureError when the server does not take them."""
        if self.everybody is not None:
            self.everybody()
        self.served.version = self.ranks.together(self.give)


def by_disk(own: LocalEngine, served: ServedEngine, folder: Path) -> str:
    """Has the servers load the weights of `own` from a new folder in `folder`; returns their version. Raises
    InfrastructureError when they do not take them, or nobody answers for `retry_seconds`."""
    shutil.rmtree(folder, ignore_errors=True)  # what a killed trainer left
    written = folder / token_hex(4)  # a name that no cache of a shared disk has seen
    written.mkdir(parents=True)
    try:
        save_plain(own.model, written, torch.bfloat16 if own.bf16 else None)  # as the policy's products see them
        return served.servers.load(written.resolve())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare(output: dict[str, torch.Tensor], ranks: Ranks) -> None:
    """Compares the log-probabilities with which a vLLM drew the tokens of TRL's batch with the policy's: their mean
    distance a token, in nats, is logged above FAR. Raises UserError above UNLIKE: the vLLM serves another model."""
    own, old, drawn = output["tool_mask"], output.get("old_per_token_logps"), output["sampling_per_token_logps"]
    if old is None:
        return
    parts = ranks.gathered([(float(((old - drawn) * own).abs().sum()), int(own.sum()))])
    apart = sum(distance for distance, _ in parts) / max(1, sum(count for _, count in parts))
    if apart > FAR:
        log.warning("rollouts were drawn from another distribution than the policy's", nats_a_token=round(apart, 3))
    if apart > UNLIKE:
        raise UserError(
            f"what vLLM drew lies {apart:.1f} nats a token from the policy: it serves other weights, or reports raw "
            "log-probabilities",
            where="operation.rollout_servers",
            remedy="serve the folder of policy.model, with --logprobs-mode processed_logprobs",
        )
