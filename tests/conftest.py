"""What all tests share: property tests try the same examples each time, and are never failed for the speed of the
machine they run on (others: `--hypothesis-profile=explore`); BFCL's tasks, whose data wheel is fetched once into the
cache; and one real model server, for the tests that need one (`make llm-smoke`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from rods.config import Endpoint
from rods.tasks import Task
from worlds import bfcl as bfcl_world
from worlds.bfcl.world import Bfcl

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("rods", settings.get_profile("explore"), derandomize=True)
settings.load_profile("rods")

SMOKE = "RODS_LLM_SMOKE"
WHOLE = "RODS_WHOLE"  # set by `make test WHOLE=1`: nothing is tested by a part of it


@pytest.fixture(scope="session")
def wheel_file() -> Path:
    return bfcl_world.fetch()


@pytest.fixture(scope="session")
def bfcl(wheel_file: Path) -> Bfcl:
    return bfcl_world.environment()


@pytest.fixture(scope="session")
def tasks(wheel_file: Path) -> list[Task]:
    """BFCL's 800 tasks."""
    return bfcl_world.tasks()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """A small model on this machine's CPU, served by a real vLLM: the one that `make llm-smoke` has started for all
    its workers, or else one of this session."""
    if not os.environ.get(SMOKE):
        pytest.skip("needs a model server: make llm-smoke")
    from bench.fixtures.llm_server import LlmServer
    from bench.fixtures.llm_server.server import NAME, URL

    with ExitStack() as stack:
        address = os.environ.get(URL) or stack.enter_context(LlmServer(tmp_path_factory.mktemp("llm") / "log")).url
        yield Endpoint(model=NAME, urls=(address,), concurrency=64, read_seconds=240.0)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where a model server was asked for, a test that was skipped has failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get(SMOKE) and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
