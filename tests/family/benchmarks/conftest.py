"""A worker that lies, for the benchmarks that have one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rods.environments.workers.worker import Worker
from rods.family.benchmarks.workers import worker as own_worker


@pytest.fixture(scope="module")
def lying() -> Iterator[Worker]:
    worker = own_worker("tests.family.benchmarks.lying_worker:answer")
    yield worker
    worker.close()
