"""Which sandbox tiers the tests can use; tests/missing.py says what becomes of a test that needs
another."""

from __future__ import annotations

from rods.worlds.sandbox.confined import Tier, offered, reaches
from tests.missing import missing


def require_tier(tier: Tier) -> None:
    """Skips the test, or fails it on a build server, where this machine does not reach `tier`."""
    offer = offered()
    if reaches(offer.tier, tier):
        return
    missing(
        f"this machine has no tier {tier!r}: {offer.missing} → install bubblewrap and allow user "
        f"namespaces"
    )
