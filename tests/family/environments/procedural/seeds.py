"""Scenarios of a few drawn worlds, for tests of their variants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rods.config import Sandbox
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.family.environments.procedural.scenarios import grow
from rods.tasks import OpenTask

SLOW = Sandbox(workers=1, seconds=10.0)  # a busy machine's clock is no fault of a world


@contextmanager
def drawn(folder: Path, scenarios: int = 6) -> Iterator[tuple[Environment, list[OpenTask]]]:
    """A world below `folder`, which is the current one meanwhile, and its tasks of both modes."""
    grown = grow(folder, 77, 0, scenarios, ("told", "asked"))
    with pytest.MonkeyPatch.context() as patch, Environments(SLOW) as environments:
        patch.chdir(folder)
        yield environments.load(grown.name), grown.tasks
