"""Where a run's tasks come from: `[data] tasks` is one of `DESK` or `PERSONAS`, `bfcl` or a JSONL file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rods.config import Data
from rods.errors import UserError
from rods.tasks import AnyTask, read_tasks

if TYPE_CHECKING:
    from worlds.desk.generator import Size

DESK: dict[str, Size | Literal["regions"]] = {"desk": "full", "desk-small": "small", "desk-regions": "regions"}
PERSONAS = {"desk-personas": False, "desk-personas-mute": True}  # whether the users of the originals know nothing
DESK_TRAIN = DESK_HELD_OUT = 200  # what desk writes when the configuration names no number


def load_tasks(data: Data, folder: Path) -> list[AnyTask]:
    """The training tasks, then the held-out ones, each cut to `data.train` and `data.held_out` (0: all).

    A file is looked for relative to `folder`, the configuration file's own. Raises UserError when the data set is
    missing, a line is corrupt, an id occurs twice, or there are fewer tasks than asked for. Whether the tasks can be
    trained on (environments, ground truths, sizes) is checked where the run is created.
    """
    tasks: Sequence[AnyTask]
    if data.tasks in DESK or data.tasks in PERSONAS:
        from worlds import desk

        numbers = data.train or DESK_TRAIN, data.held_out or DESK_HELD_OUT
        if data.tasks in DESK:
            tasks = desk.generate(data.random_seed, *numbers, DESK[data.tasks])
        else:
            tasks = desk.generate_personas(data.random_seed, *numbers, mute=PERSONAS[data.tasks])
        where = data.tasks
    elif data.tasks == "bfcl":
        from worlds import bfcl

        tasks, where = bfcl.tasks(), "bfcl"
    else:
        path = folder / data.tasks
        tasks, where = list(read_tasks(path)), str(path)
    train: list[AnyTask] = [task for task in tasks if task.split == "train"]
    held_out: list[AnyTask] = [task for task in tasks if task.split != "train"]
    if not train:
        raise UserError(
            "no task has the split 'train'", where=where, remedy="give at least one batch of training tasks"
        )
    for name, wanted, found in (("train", data.train, train), ("held_out", data.held_out, held_out)):
        if wanted > len(found):
            raise UserError(
                f"data.{name} = {wanted}, but there are {len(found)}", where=where, remedy=f"lower data.{name}"
            )
    return train[: data.train or None] + held_out[: data.held_out or None]
