from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def own_logs() -> Iterator[None]:
    """`rods-eval` sends events into its folder; run in this process, it must not keep those of
    other tests."""
    yield
    structlog.reset_defaults()
