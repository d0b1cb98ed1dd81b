"""`rods data draw`: a file of drawn tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from rods.commands import Json
from rods.console.verbs.data import write_tasks


def draw_file(
    out: Annotated[Path, Parameter(help="The JSONL file of tasks to write.")],
    /,
    *,
    train: Annotated[int, Parameter(help="How many training tasks.")] = 200,
    held_out: Annotated[NonNegativeInt, Parameter(help="How many held-out tasks, one in five for validation.")] = 50,
    difficulty: Annotated[str, Parameter(help="From 1 to 100: a number, or a range such as 20-60.")] = "1-100",
    random_seed: Annotated[NonNegativeInt, Parameter(help="What they are drawn from.")] = 0,
    repository: Annotated[str, Parameter(help="repository, or folder/, your own tool documents.")] = "repository",
    as_json: Json = False,
) -> None:
    """Draw tasks over the tools of a repository without a model, for `[data] tasks`: conversations with a played user,
    judged by a rubric (docs/trustee.md). No two are near duplicates.
    """
    from rods.environments.loading import Environments
    from rods.errors import UserError
    from rods.family.simulation.difficulty import HIGHEST, LOWEST
    from rods.family.simulation.source import draw_tasks

    low, _, high = difficulty.partition("-")
    numbers = [int(text) if text.isascii() and text.isdigit() else 0 for text in (low, high or low)]
    if not LOWEST <= numbers[0] <= numbers[1] <= HIGHEST:
        remedy = f"give a number from {LOWEST} to {HIGHEST}, or two with a hyphen between"
        raise UserError(f"{difficulty!r} is no difficulty", where="--difficulty", remedy=remedy)
    if min(train, held_out) < 0 or train + held_out == 0:
        what = f"{train} training tasks and {held_out} held-out ones are asked for"
        raise UserError(what, where="--train, --held-out", remedy="give numbers of which one is above 0")
    write_tasks(
        draw_tasks(repository, Environments(), train, held_out, (numbers[0], numbers[1]), random_seed), out, as_json
    )
