"""What a trainer of weights needs before it starts: a model, and a step that splits evenly."""

import math
from pathlib import Path

from rods.config import Config
from rods.errors import UserError


def check_ahead(config: Config, processes: int = 1) -> None:
    """Raises UserError where a batch is to be played during an update, and cannot."""
    served = config.operation.rollout_servers and config.policy.kind != "simulated"
    if config.rollouts.ahead and (processes > 1 or not served):
        raise UserError(
            "only a server plays a batch during the update before it, and only for one process",
            where="rollouts.ahead",
            remedy="set it to 0, or start one process, with [[operation.rollout_servers]]",
        )


def split(config: Config, processes: int, *, gpu: bool = True) -> tuple[int, int]:
    """Sequences a step, and those in one backward pass of one of `processes`. Raises UserError
    where they do not come out even, and as `check_ahead`."""
    check_ahead(config, processes)
    sequences = config.training.batch_tasks * config.rollouts.rollouts_per_task
    if config.rollouts.refill and processes > 1:
        raise UserError(
            f"a step that is refilled is rolled out by one process, not by {processes}",
            where="rollouts.refill",
            remedy="set it to 0, or start one process (a rollout server may have several GPUs)",
        )
    if sequences % processes:
        raise UserError(
            f"{sequences} sequences a step do not split over {processes} processes",
            where="training.batch_tasks",
            remedy="let batch_tasks × rollouts_per_task be a multiple of the number of processes",
        )
    share = sequences // processes
    micro_batch = at_once(config, share, gpu=gpu)
    if share % micro_batch:
        raise UserError(
            f"{share} sequences a process and step do not split into micro-batches of "
            f"{micro_batch}",
            where="operation.micro_batch",
            remedy="take a divisor of batch_tasks × rollouts_per_task ÷ processes, or 0",
        )
    return sequences, micro_batch


def at_once(config: Config, share: int, *, gpu: bool) -> int:
    """The sequences of one backward pass, of a process's `share` of a step. On a CPU they are as
    many as a group has (the greatest common divisor where the share has no whole groups): more than
    its caches hold is slower there."""
    own = share if gpu else math.gcd(share, config.rollouts.rollouts_per_task)
    return config.operation.micro_batch or own


def check_model(folder: Path) -> None:
    """Raises UserError where there is no `folder` with a policy's files."""
    if not folder.is_dir():
        raise UserError(
            "there is no model",
            where=folder,
            remedy="policy.model must be a folder with a model in it, not a name on a hub; if it "
            "has moved, say where to with --config",
        )
