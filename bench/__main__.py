"""Runs every measurement in a process of its own and prints their figures: `python -m bench
[--quick] [--json]`."""

import subprocess
import sys
from pathlib import Path

NOT_MEASUREMENTS = {"__init__", "__main__", "figures", "yields"}


def main() -> int:
    """Returns 1 when a script crashed. A figure that misses its mark is printed as such and is no
    failure."""
    crashed = []
    for script in sorted(Path(__file__).parent.glob("*.py")):
        if script.stem in NOT_MEASUREMENTS:
            continue
        if "--json" not in sys.argv:
            print(f"\n{script.stem}", flush=True)
        if subprocess.run(
            [sys.executable, "-m", f"bench.{script.stem}", *sys.argv[1:]], check=False
        ).returncode:
            crashed.append(script.stem)
    if crashed:
        print(f"\ncrashed: {', '.join(crashed)}", file=sys.stderr)
    return int(bool(crashed))


if __name__ == "__main__":
    raise SystemExit(main())
