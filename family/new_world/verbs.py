"""`rods init`: makes a folder with a world."""

import contextlib
from pathlib import Path

from rods.buffers.log.disk import replace
from rods.environments.loading import Environments
from rods.errors import UserError, say
from rods.worlds.checking.task_files import rehashed

TEMPLATE = Path(__file__).with_name("template")


def init(folder: Path, /) -> None:
    """Make a folder with a world of its own, tasks, configuration and a README, all of which run as
    they are.

    Args:
        folder: The folder to make.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UserError("is not empty", where=folder, remedy="name a new folder")
    for file in sorted(TEMPLATE.iterdir()):
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    with contextlib.chdir(folder):  # which the tasks name their world from
        tasks = Path("tasks.jsonl")
        replace(tasks, rehashed(tasks, Environments())[1])
    say(f"{folder}: a world, 30 tasks and a run's configuration; read {folder / 'README.md'}")
