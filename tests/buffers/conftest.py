from __future__ import annotations

import pytest

from rods.buffers.run.run import Run
from tests.buffers.histories import played


@pytest.fixture(scope="session")
def past(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with a history; to be read only."""
    return played(tmp_path_factory.mktemp("past") / "run")
