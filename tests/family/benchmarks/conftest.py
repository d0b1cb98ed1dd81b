"""A worker that lies, for the benchmarks that have one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rods.environments.workers.worker import Worker


@pytest.fixture(scope="module")
def lying() -> Iterator[Worker]:
    from rods.family.benchmarks.workers import worker as own_worker  # may be taken out

    worker = own_worker("tests.family.benchmarks.lying_worker:answer")
    yield worker
    worker.close()
