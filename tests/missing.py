"""What a test needs and this machine lacks: the test is skipped with the reason; with `CI=true` it
fails, so that a build server never passes without having tried it."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(why: str) -> NoReturn:
    """Skips the test with the reason; on a build server it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)
