"""What the sweeps share: one forge, and a place in memory where there is one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.forge import Forge

if TYPE_CHECKING:
    from tests.faults.workloads import Workload


@pytest.fixture(scope="package")
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="package")
def forge() -> Iterator[Forge]:
    with Forge() as forge:
        yield forge


@pytest.fixture(scope="package")
def trainer(forge: Forge, scratch: Path) -> Workload:
    return _workload("trainer", forge, scratch)


@pytest.fixture(scope="package")
def new_run(forge: Forge, scratch: Path) -> Workload:
    return _workload("new run", forge, scratch)


@pytest.fixture(scope="package")
def daemon(forge: Forge, scratch: Path) -> Workload:
    return _workload("daemon", forge, scratch)


def _workload(name: str, forge: Forge, scratch: Path) -> Workload:
    """Imported with the sweeps alone: a run of theirs draws tasks, for which family/simulation has
    to be there."""
    from tests.faults.workloads import Workload

    return Workload(name, forge, scratch)
