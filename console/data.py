"""`rods data check` and `rods data bfcl`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from console.output import Json, plain, print_json
from rods.errors import EXIT_FAILED, EXIT_OK


def check(file: Annotated[Path, Parameter(help="A JSONL file of tasks.")], /, *, as_json: Json = False) -> int:
    """Check a file of tasks line by line: shape, tools, and that each ground truth really runs. Exits 1 on faults."""
    from rods.checking import check_file

    report = check_file(file)
    if as_json:
        print_json(report.as_json())
    else:
        print("\n".join(plain(line) for line in report.lines()))
    return EXIT_OK if report.ok else EXIT_FAILED
