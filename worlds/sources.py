"""Where tasks come from. Those that a run is given: `[data] tasks` is one of `DESK` or `PERSONAS`,
`none`, what a folder of rods/worlds declares (`tasks` in its world.toml) or a JSONL file. Those
that are drawn: over the tools of `[source] repository`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rods.config import Data
from rods.environments import registry
from rods.errors import UserError
from rods.functions import named_function
from rods.tasks import AnyTask, read_tasks

if TYPE_CHECKING:
    from rods.worlds.desk.generator import Size

REGIONS: 'dict[str, Size | Literal["regions"]]' = {
    "desk-regions": "regions",
    "desk-regions-rare": "regions",
}
DESK: 'dict[str, Size | Literal["regions"]]' = {"desk": "full", "desk-small": "small", **REGIONS}
# whether the users of the originals know nothing
PERSONAS = {"desk-personas": False, "desk-personas-mute": True}
DESK_TRAIN = DESK_HELD_OUT = 200  # what desk writes when the configuration names no number


def load_tasks(data: Data, folder: Path, *, train_needed: bool = True) -> list[AnyTask]:
    """The training tasks, then the held-out ones, each cut to `data.train` and `data.held_out` (0:
    all).

    A file is looked for relative to `folder`, the configuration file's own. `train_needed`: no
    training task is an error; a run whose tasks are all drawn needs none. Raises UserError when the
    data set is missing, a line is corrupt, an id occurs twice, or there are fewer tasks than asked
    for. Whether the tasks can be trained on (environments, ground truths, sizes) is checked where
    the run is created.
    """
    tasks: Sequence[AnyTask] = ()
    where = data.tasks
    if data.tasks in DESK or data.tasks in PERSONAS:
        from rods.worlds import desk

        numbers = data.train or DESK_TRAIN, data.held_out or DESK_HELD_OUT
        if data.tasks in DESK:
            tasks = desk.generate(data.random_seed, *numbers, DESK[data.tasks])
        else:
            tasks = desk.generate_personas(data.random_seed, *numbers, mute=PERSONAS[data.tasks])
    elif data.tasks != "none":
        tasks = given_tasks(data.tasks, folder)
        where = data.tasks if data.tasks in registry.having("tasks") else str(folder / data.tasks)
    train = [task for task in tasks if task.split == "train"]
    held_out = [task for task in tasks if task.split != "train"]
    if not train and train_needed:
        raise UserError(
            "no task has the split 'train'",
            where=where,
            remedy="give at least one batch of training tasks",
        )
    for name, wanted, there in (
        ("train", data.train, train),
        ("held_out", data.held_out, held_out),
    ):
        if wanted > len(there):
            raise UserError(
                f"data.{name} = {wanted}, but there are {len(there)}",
                where=where,
                remedy=f"lower data.{name}",
            )
    return train[: data.train or None] + held_out[: data.held_out or None]


def given_tasks(name: str, folder: Path) -> list[AnyTask]:
    """The tasks that a folder of rods/worlds declares as `name`, else those of the file `name`,
    looked for relative to `folder`. Raises UserError."""
    declared = registry.having("tasks")
    if name in declared:
        return list(named_function(declared[name], where=f"tasks {name!r}")())
    if Path(name).stem == name and not (folder / name).exists():
        names = ", ".join([*DESK, *PERSONAS, *declared, "none"])
        raise UserError(
            "no such tasks are installed",
            where=f"tasks {name!r}",
            remedy=f"use {names} or a JSONL file",
        )
    return read_tasks(folder / name)


def beside(data: Data, folder: Path) -> Path:
    """Where a file of tasks lies that `data` names, and the generated worlds of its tasks with
    it."""
    return (folder / data.tasks).parent
