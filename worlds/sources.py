"""Where tasks come from. Those that a run is given: `[data] tasks` is one of `DESK` or `PERSONAS`, `bfcl`, `none` or a
JSONL file. Those that are drawn: over the tools of `[source] repository`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rods.canonical import keyed_random
from rods.config import Config, Data, DifficultyRules
from rods.environments.base import reference
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.rules.difficulty import levels
from rods.simulation.generating import Generator, draw_task, open_task
from rods.simulation.world import RepositoryEnvironment
from rods.tasks import AnyTask, OpenTask, read_tasks

if TYPE_CHECKING:
    from rods.players import Players
    from worlds.desk.generator import Size

DESK: dict[str, Size | Literal["regions"]] = {"desk": "full", "desk-small": "small", "desk-regions": "regions"}
PERSONAS = {"desk-personas": False, "desk-personas-mute": True}  # whether the users of the originals know nothing
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
    if data.tasks in DESK or data.tasks in PERSONAS:
        from worlds import desk

        numbers = data.train or DESK_TRAIN, data.held_out or DESK_HELD_OUT
        if data.tasks in DESK:
            tasks = desk.generate(data.random_seed, *numbers, DESK[data.tasks])
        else:
            tasks = desk.generate_personas(data.random_seed, *numbers, mute=PERSONAS[data.tasks])
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


def beside(data: Data, folder: Path) -> Path:
    """Where a file of tasks lies that `data` names, and the generated worlds of its tasks with it."""
    return (folder / data.tasks).parent


def drawn_from(name: str, environments: Environments) -> RepositoryEnvironment:
    """The environment whose tools tasks are drawn over. Raises UserError where it is none of tool documents."""
    environment = environments.load(name)
    if not isinstance(environment, RepositoryEnvironment):
        remedy = "use `repository`, or `folder/`, a folder of tool documents of your own (docs/trustee.md)"
        raise UserError(f"{name!r} has no tool repository to draw tasks from", where="source.repository", remedy=remedy)
    return environment


def generator(config: Config, players: Players) -> Generator:
    """Who draws the tasks of a run. Raises UserError where the repository cannot be read."""
    environment, random_seed = drawn_from(config.source.repository, players.environments), config.random_seeds.drawn
    if config.simulation.generator == "model":
        return players.generator(environment, random_seed)
    repository, named = environment.repository, reference(environment)
    return lambda wanted: [
        open_task(draw_task(repository, one.levels, random_seed, one.step, one.slot), named) for one in wanted
    ]


def draw_tasks(
    name: str, environments: Environments, train: int, held_out: int, difficulty: tuple[int, int], random_seed: int
) -> list[OpenTask]:
    """`train` originals, then `held_out` tasks apart from them, over the tools of the environment `name`, each of a
    difficulty drawn evenly from the lowest to the highest given. No two are near duplicates, nor are they those that a
    run draws with the same random seed. One in five held-out ones is for validation. Raises UserError, also where the
    tools give no more that differ."""
    from worlds.desk.generator import data_set

    environment, rules = drawn_from(name, environments), DifficultyRules()
    named = reference(environment)

    def draw(purpose: str, place: int) -> OpenTask:
        rng = keyed_random(random_seed, "task file", purpose, place)
        number, own_seed = rng.randint(*difficulty), rng.getrandbits(32)
        given = levels(rules, number, own_seed, 0, place)
        drawn = draw_task(environment.repository, given, own_seed, 0, place)
        return open_task(drawn, named, provenance={"difficulty": number})

    return data_set(train, held_out, draw)
