import pytest

from rods.environments.bfcl import environment, fetch, tasks
from rods.environments.bfcl.world import Bfcl
from rods.tasks import Task


@pytest.fixture(scope="session")
def bfcl() -> Bfcl:
    fetch()
    return environment()


@pytest.fixture(scope="session")
def every_task(bfcl: Bfcl) -> list[Task]:
    return tasks()
