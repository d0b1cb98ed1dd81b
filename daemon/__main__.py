"""`rods-daemon`, also as `python -m rods.daemon`. Signals are answered from here on, before all imports
(rods.signals)."""

from rods.errors import EXIT_OK
from rods.signals import leave_at_once


def main() -> None:
    leave_at_once(EXIT_OK)
    from rods.daemon.main import main as write

    write()


if __name__ == "__main__":
    main()
