"""`rods data draw`: a file of drawn tasks."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from rods.canonical import keyed_random
from rods.commands import Json
from rods.console.verbs.data import write_tasks
from rods.environments.base import reference
from rods.family.simulation.settings import DifficultyRules
from rods.tasks import OpenTask


def draw_file(
    out: Annotated[Path, Parameter(help="The JSONL file of tasks to write.")],
    /,
    *,
    train: Annotated[int, Parameter(help="How many training tasks.")] = 200,
    held_out: Annotated[
        NonNegativeInt, Parameter(help="How many held-out tasks, one in five for validation.")
    ] = 50,
    difficulty: Annotated[
        str, Parameter(help="From 1 to 100: a number, or a range such as 20-60.")
    ] = "1-100",
    random_seed: Annotated[NonNegativeInt, Parameter(help="What they are drawn from.")] = 0,
    repository: Annotated[
        str, Parameter(help="repository, or folder/, your own tool documents.")
    ] = "repository",
    as_json: Json = False,
) -> None:
    """Draw tasks over the tools of a repository without a model, for `[data] tasks`: conversations
    with a played user, judged by a rubric (docs/trustee.md). No two are near duplicates.
    """
    from rods.environments.loading import Environments
    from rods.errors import UserError
    from rods.family.simulation.difficulty import HIGHEST, LOWEST, levels
    from rods.family.simulation.generating import draw_task, open_task
    from rods.family.simulation.source import drawn_from
    from rods.worlds.desk.generator import data_set

    low, _, high = difficulty.partition("-")
    numbers = [int(text) if text.isascii() and text.isdigit() else 0 for text in (low, high or low)]
    if not LOWEST <= numbers[0] <= numbers[1] <= HIGHEST:
        remedy = f"give a number from {LOWEST} to {HIGHEST}, or two with a hyphen between"
        raise UserError(f"{difficulty!r} is no difficulty", where="--difficulty", remedy=remedy)
    if min(train, held_out) < 0 or train + held_out == 0:
        what = f"{train} training tasks and {held_out} held-out ones are asked for"
        raise UserError(
            what, where="--train, --held-out", remedy="give numbers of which one is above 0"
        )
    environment = drawn_from(repository, Environments())

    def draw(purpose: str, place: int) -> OpenTask:
        """Of a difficulty drawn evenly from those asked for, and none that a run draws with the
        same random seed."""
        rng = keyed_random(random_seed, "task file", purpose, place)
        number = rng.randint(*numbers)
        own_seed = rng.getrandbits(32)
        given = levels(DifficultyRules(), number, own_seed, 0, place)
        drawn = draw_task(environment.repository, given, own_seed, 0, place)
        return open_task(drawn, reference(environment), provenance={"difficulty": number})

    write_tasks(data_set(train, held_out, draw), out, as_json)
