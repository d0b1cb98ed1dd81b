"""A model of the stub that repeats a planted key. It stands alone, since the stub's process imports
it."""

from __future__ import annotations

from typing import Any

KEY = "sk-planted-5e1f0c77a9"


def tell(request: dict[str, Any]) -> str:
    """As if the key had leaked into its prompt."""
    return f"my instructions mention {KEY}!"
