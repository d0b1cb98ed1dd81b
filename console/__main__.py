"""`rods`, also as `python -m rods.console`. Signals are answered from here on, before all imports
(rods.signals)."""

import gc
import sys

from rods.errors import EXIT_OK, EXIT_REQUEUE
from rods.signals import leave_at_once

# code of a signal before anything has begun
EARLY = {"up": EXIT_REQUEUE, "train": EXIT_REQUEUE, "daemon": EXIT_OK}
NEW = 50_000  # objects that may be new before the collector of cycles looks at them


def main() -> None:
    leave_at_once(EARLY.get("".join(sys.argv[1:2])))
    from rods.console.main import hand_over, main as rods

    hand_over()
    collect_rarely()
    rods()


def collect_rarely() -> None:
    """Readers make records by the million, trees without a cycle, which Python's default (700)
    passes over again and again: a fifth of a first look at a long run."""
    gc.set_threshold(NEW)


if __name__ == "__main__":
    main()
