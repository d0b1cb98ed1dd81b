from __future__ import annotations

from tests.console.conftest import finished_run
from tests.rods.llm.conftest import server, stub

__all__ = ["finished_run", "server", "stub"]
