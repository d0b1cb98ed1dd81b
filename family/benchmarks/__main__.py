"""`rods-eval`, also as `python -m rods.family.benchmarks`. Signal handlers are installed before the other imports
(rods.signals)."""

from __future__ import annotations

from rods.errors import EXIT_REQUEUE
from rods.signals import leave_at_once


def main() -> None:
    leave_at_once(EXIT_REQUEUE)
    from rods.family.benchmarks.main import main as evaluate

    evaluate()


if __name__ == "__main__":
    main()
