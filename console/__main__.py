"""`rods`, also as `python -m console`. Signals are answered from here on, before all imports (rods.signals)."""

from __future__ import annotations

import sys

from rods.errors import EXIT_REQUEUE
from rods.signals import leave_at_once


def main() -> None:
    leave_at_once(EXIT_REQUEUE if sys.argv[1:2] == ["up"] else None)
    from console.main import main as rods

    rods()


if __name__ == "__main__":
    main()
