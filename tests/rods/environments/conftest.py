"""The BFCL wheel for these tests: fetched once into the cache, from the package index that pip knows."""

from __future__ import annotations

import pytest

from rods.environments.bfcl import environment, fetch
from rods.environments.bfcl import tasks as all_tasks


@pytest.fixture(scope="session")
def wheel_file():
    return fetch()


@pytest.fixture(scope="session")
def bfcl(wheel_file):
    return environment()


@pytest.fixture(scope="session")
def tasks(wheel_file):
    return all_tasks()
