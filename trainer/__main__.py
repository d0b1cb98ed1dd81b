"""`rods-train`, also as `python -m trainer`. Signals are answered from here on; torch is far away (rods.signals)."""

from __future__ import annotations

from rods.errors import EXIT_REQUEUE
from rods.signals import leave_at_once


def main() -> None:
    leave_at_once(EXIT_REQUEUE)
    from trainer.main import main as train

    train()


if __name__ == "__main__":
    main()
