"""`rods-daemon`, also as `python -m rods.daemon`. Signals (rods.signals) are answered before all
imports."""

from rods.errors import EXIT_OK
from rods.signals import leave_at_once


def main() -> None:
    leave_at_once(EXIT_OK)
    from rods.daemon.main import main as write

    write()


if __name__ == "__main__":
    main()
