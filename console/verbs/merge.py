"""`rods merge`: opens an epoch for a trainer that is not ours, and prints the tasks to train on (docs/protocol.md)."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from console.output import RunFolder, print_json
from rods.commands import Json
from rods.errors import UserError

Number = Annotated[int, Parameter(help="The epoch to open, from 0; an open one is printed again as it was recorded.")]
StageNumber = Annotated[int | None, Parameter(help="Its curriculum stage, from 1. Default: the configuration's.")]


def merge(run: RunFolder, /, *, epoch: Number, stage: StageNumber = None, as_json: Json = False) -> None:
    """Play the trainer: merge staging into the pool and print the epoch's tasks in visiting order.

    Prints one JSON object a line, {"role": "active" or "retest", "task": {…}}; with --json one object with all of them,
    the counts and the order's hash.
    """
    from buffers.folds.observations import Observations
    from buffers.folds.pool import PoolView
    from buffers.merging.merger import Merger
    from buffers.run.run import Run
    from rods.rules.curriculum import scheduled
    from rods.rules.selection import stage_rules

    opened = Run.open(run)
    number = stage if stage is not None else scheduled(opened.config.curriculum, epoch)
    if number is None or not 1 <= number <= len(opened.config.curriculum.stages):
        raise UserError(
            f"epoch {epoch} has no curriculum stage" if stage is None else f"there is no stage {stage}",
            where=str(run),
            remedy=f"the configuration has stages 1 to {len(opened.config.curriculum.stages)}",
        )
    observations = Observations(opened, strict=True, history=False)
    observations.catch_up()
    view = PoolView(opened, observations, strict=True)
    merger = Merger(opened, observations, view, "merge")
    try:
        made = merger.merge(epoch, number, None)
    finally:
        merger.close()
    slots = [{"role": slot.role, "task": view.task(slot.task_id).as_json()} for slot in made.slots]
    if as_json:
        facts = {"epoch": made.number, "stage": made.stage, "step": made.step, "recorded": made.recorded}
        reward = stage_rules(opened.config, made.stage).reward
        print_json({**facts, "reward": reward, "counts": made.counts, "order": made.order_hash, "slots": slots})
        return
    for slot in slots:
        print_json(slot)
    counts = ", ".join(f"{count} {name}" for name, count in made.counts.items())
    print(f"epoch {made.number}, stage {made.stage}: {counts}", file=sys.stderr)
