"""Which sandbox tiers the tests can use. A tier that this machine lacks is skipped with the reason; with `CI=true` it
fails, so that a build server never passes without having tried the sandbox."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from rods.environments.sandbox.confined import Tier, offered, reaches


def require_tier(tier: Tier) -> None:
    """Skips the test, or fails it on a build server, where this machine does not reach `tier`."""
    offer = offered()
    if reaches(offer.tier, tier):
        return
    missing(f"this machine has no tier {tier!r}: {offer.missing} → install bubblewrap and allow user namespaces")


def missing(why: str) -> NoReturn:
    """Skips the test with the reason; on a build server it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)
