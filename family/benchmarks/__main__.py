"""`rods-eval`, also as `python -m rods.family.benchmarks`. Signal handlers are installed before the
other imports (rods.signals)."""

import sys

from rods.errors import EXIT_REQUEUE
from rods.signals import ignore, leave_at_once


def main() -> None:
    """Exits with the code of rods.errors."""
    leave_at_once(EXIT_REQUEUE)
    from rods.family.benchmarks.main import run

    code = run(sys.argv[1:])
    ignore()
    raise SystemExit(code)


if __name__ == "__main__":
    main()
