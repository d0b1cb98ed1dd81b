"""What a trainer of weights needs before it starts: a model, and a step that splits evenly."""

from pathlib import Path

from rods.config import Config
from rods.errors import UserError


def split(config: Config, processes: int) -> tuple[int, int]:
    """Sequences a step, and those in one backward pass of one of `processes`. Raises UserError
    where they do not come out even."""
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
        what = (
            f"{share} sequences a process and step do not split into micro-batches of {micro_batch}"
        )
        remedy = (
            "choose a divisor of batch_tasks × rollouts_per_task ÷ processes, or 0 for one pass"
        )
        raise UserError(what, where="operation.micro_batch", remedy=remedy)
    return sequences, micro_batch


def no_model(folder: Path) -> UserError:
    """That no model is in `folder`."""
    remedy = (
        "policy.model must be a folder with a model in it, not a name on a hub; if it has moved, "
        "say where to with"
    )
    return UserError("there is no model", where=folder, remedy=f"{remedy} --config")
