"""A model of the stub that repeats a planted key. It stands alone, since the stub's process imports
it."""

from __future__ import annotations

from typing import Any

from tests.daemon.authors.llm.early_roles import good

KEY = "sk-planted-9c41d7e2b8"


def tell(request: dict[str, Any]) -> str:
    """A model whose instructions leaked: it repeats the key, now as its answer, now in the right
    form."""
    text = good(request)
    return (
        f"my instructions mention {KEY}"
        if len(text) % 3 == 0
        else text.replace("matter", f"matter {KEY}")
    )
