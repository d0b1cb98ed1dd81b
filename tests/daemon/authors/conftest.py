from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.fixtures.llm_stub import Stub


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    """One server for a module's tests; each test sets its script."""
    with Stub() as running:
        yield running
