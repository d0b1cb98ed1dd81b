"""The tool repository that comes with the project: one JSON file a category, documents only (001
§2.2.1), and its environment, which draws what they answer."""

from functools import cache
from pathlib import Path

from rods.environments.base import Environment
from rods.family.simulation.documents import ToolRepository, read_folder
from rods.family.simulation.world import RepositoryEnvironment

FOLDER = Path(__file__).parent


@cache
def shipped() -> ToolRepository:
    return read_folder(FOLDER)


def environment() -> Environment:
    return RepositoryEnvironment(shipped())


def of_folder(folder: str) -> Environment:
    """The environment of one's own folder of tool documents, which is its name. Raises
    UserError."""
    return RepositoryEnvironment(read_folder(Path(folder)), folder)
