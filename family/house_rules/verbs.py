"""`rods data house`: the tasks of a world with house rules."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt

from rods.commands import Json
from rods.console.output import RandomSeed
from rods.console.verbs.data import write_tasks
from rods.family.house_rules.house import House
from rods.family.house_rules.keeping import house_tasks


def draw_house_tasks(
    out: Annotated[Path, Parameter(help="The JSONL file to write.")],
    /,
    *,
    train: Annotated[PositiveInt, Parameter(help="How many tasks to train on.")] = 32,
    held_out: Annotated[NonNegativeInt, Parameter(help="How many held-out tasks.")] = 80,
    told: Annotated[
        bool, Parameter(help="Users say the rules that their requests need.", negative=())
    ] = False,
    random_seed: RandomSeed = 0,
    as_json: Json = False,
) -> None:
    """Draw a desk with house rules that no document tells, and tasks in it that cannot be done
    without them."""
    write_tasks(house_tasks(House(random_seed), random_seed, train, held_out, told), out, as_json)
