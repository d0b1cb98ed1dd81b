"""`rods merge` and `rods observe`: any program can take the trainer's part (rods.console.foreign_trainer).

`rods merge` opens an epoch and prints the tasks to train on. `rods observe` reads lines of JSON from standard input and
answers each closed step with one line.
"""

import sys
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from rods.commands import Json
from rods.console import foreign_trainer
from rods.console.output import RunFolder, print_json, print_result
from rods.errors import say

Number = Annotated[
    NonNegativeInt, Parameter(help="The epoch to open, from 0; an open one is printed again as it was recorded.")
]
StageNumber = Annotated[int | None, Parameter(help="Its curriculum stage, from 1. Default: the configuration's.")]
FromStep = Annotated[
    int | None,
    Parameter(name="--from-step", help="Go back to this step: later ones no longer count. Default: the last."),
]


def merge(run: RunFolder, /, *, epoch: Number, stage: StageNumber = None, as_json: Json = False) -> None:
    """Play the trainer: merge staging into the pool and print the epoch's tasks in visiting order.

    Prints one JSON object a line, {"role": "active" or "retest", "task": {…}}; with --json one object with all of them,
    the counts and the order's hash.
    """
    opened = foreign_trainer.merge(run, epoch=epoch, stage=stage)
    made, slots = opened.made, [{"role": role, "task": task.as_json()} for role, task in opened.tasks]
    if as_json:
        facts = {"epoch": made.number, "stage": made.stage, "step": made.step, "recorded": made.recorded}
        shown = {} if opened.interface is None else {"interface": opened.interface}
        counted = {"reward": opened.reward, "counts": made.counts, "order": made.order_hash, "slots": slots}
        print_json({**facts, **shown, **counted})
        return
    for slot in slots:
        print_json(slot)
    counts = ", ".join(f"{count} {name}" for name, count in made.counts.items())
    say(f"epoch {made.number}, stage {made.stage}: {counts}", aside=True)


def observe(run: RunFolder, /, *, from_step: FromStep = None, as_json: Json = False) -> None:
    """Play the trainer: read groups of rollouts and {"end_step": s} from standard input, one JSON object a line.

    Answers each closed step once it is on the disk. An identical step that was there already is answered too, with
    "recorded" false; a different one is refused with exit code 3.
    """
    for answer in foreign_trainer.observe(run, sys.stdin.buffer, from_step=from_step, source="standard input"):
        done = "recorded" if answer["recorded"] else "was recorded already"
        text = f"step {answer['step']} of epoch {answer['epoch']} {done} (attempt {answer['attempt']})"
        print_result(as_json, answer, text)
        sys.stdout.flush()
