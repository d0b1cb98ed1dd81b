"""Where the tasks that a run is given come from: `[data] tasks` is `desk`, `desk-small`, `desk-regions`, `bfcl`, `none`
or a JSONL file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rods.config import Config, Data
from rods.environments.base import Environment, reference
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.simulation.generating import DrawnTask, Generator, draw_task
from rods.simulation.roles import system_prompt
from rods.simulation.tools import ToolRepository, from_environment
from rods.tasks import AnyTask, EnvironmentRef, Limits, OpenTask, Persona, Rubric, read_tasks

if TYPE_CHECKING:
    from worlds.desk.generator import Size

DESK: dict[str, Size | Literal["regions"]] = {"desk": "full", "desk-small": "small", "desk-regions": "regions"}
DESK_TRAIN = DESK_HELD_OUT = 200  # what desk writes when the configuration names no number


def load_tasks(data: Data, folder: Path, *, train_needed: bool = True) -> list[AnyTask]:
    """The training tasks, then the held-out ones, each cut to `data.train` and `data.held_out` (0: all).

    A file is looked for relative to `folder`, the configuration file's own. `train_needed`: no training task is an
    error; a run whose tasks are all drawn needs none. Raises UserError when the data set is missing, a line is corrupt,
    an id occurs twice, or there are fewer tasks than asked for. Whether the tasks can be trained on (environments,
    ground truths, sizes) is checked where the run is created.
    """
    tasks: Sequence[AnyTask] = ()
    where = data.tasks
    if data.tasks in DESK:
        from worlds import desk

        numbers = data.train or DESK_TRAIN, data.held_out or DESK_HELD_OUT
        tasks = desk.generate(data.random_seed, *numbers, DESK[data.tasks])
    elif data.tasks == "bfcl":
        from worlds import bfcl

        tasks = bfcl.tasks()
    elif data.tasks != "none":
        path = folder / data.tasks
        tasks, where = list(read_tasks(path)), str(path)
    train: list[AnyTask] = [task for task in tasks if task.split == "train"]
    held_out: list[AnyTask] = [task for task in tasks if task.split != "train"]
    if not train and train_needed:
        raise UserError(
            "no task has the split 'train'", where=where, remedy="give at least one batch of training tasks"
        )
    for name, wanted, found in (("train", data.train, train), ("held_out", data.held_out, held_out)):
        if wanted > len(found):
            raise UserError(
                f"data.{name} = {wanted}, but there are {len(found)}", where=where, remedy=f"lower data.{name}"
            )
    return train[: data.train or None] + held_out[: data.held_out or None]


def drawn_from(environment: Environment) -> ToolRepository:
    """The tools that tasks of an environment are drawn over: its repository, or its own tools."""
    repository: ToolRepository | None = getattr(environment, "repository", None)
    return from_environment(environment) if repository is None else repository


def procedural_generator(config: Config, environments: Environments) -> Generator:
    """Draws the tasks of a run without a model. Raises UserError where the repository cannot be read."""
    environment, random_seed = environments.load(config.source.repository), config.random_seeds.drawn
    repository, named = drawn_from(environment), reference(environment)
    return lambda wanted: [
        _open_task(draw_task(repository, one.levels, random_seed, one.step, one.slot), named) for one in wanted
    ]


def _open_task(drawn: DrawnTask, environment: EnvironmentRef) -> OpenTask:
    user, tool_turns, replies = drawn.levels.caps
    return OpenTask(
        environment,
        "base",
        Persona(drawn.intent, drawn.first_query, drawn.knows, drawn.manner, user, drawn.further),
        Rubric(drawn.criteria, drawn.calls),
        drawn.tools,
        provenance={"origin": "drawn", "levels": drawn.levels.as_json(), "category": drawn.category},
        system=system_prompt(drawn.levels),
        limits=Limits(tool_turns, replies),
    )
