from __future__ import annotations

from tests.daemon.authors.conftest import stub

__all__ = ["stub"]
