"""`python -m tests.golden [NAME…]`: writes the golden files anew. Only for a change of behaviour
that is intended; the difference in the files belongs to that change. Names what has changed."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.golden.pins import PINS, golden, written


def main() -> int:
    names = sys.argv[1:] or list(PINS)
    if unknown := sorted(set(names) - PINS.keys()):
        print(
            f"no such golden file: {', '.join(unknown)}; there are {', '.join(PINS)}",
            file=sys.stderr,
        )
        return 2
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            found = written(PINS[name](Path(scratch)))
        file = golden(name)
        same = file.exists() and file.read_text(encoding="utf-8") == found
        file.write_text(found, encoding="utf-8")
        print(f"{name}: {'as it was' if same else 'CHANGED'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
