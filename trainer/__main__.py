"""`rods-train`, also as `python -m rods.trainer`. Signal handlers are installed before torch and
the rest are imported (rods.signals)."""

from rods.errors import EXIT_REQUEUE
from rods.signals import leave_at_once


def main() -> None:
    leave_at_once(EXIT_REQUEUE)
    from rods.trainer.main import main as train

    train()


if __name__ == "__main__":
    main()
