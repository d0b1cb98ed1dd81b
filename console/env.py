"""`rods env check`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from console.output import Json, plain, print_json
from rods.errors import EXIT_FAILED, EXIT_OK

Name = Annotated[str, Parameter(help="desk, bfcl, or your own package.module:factory.")]


def check(name: Name, /, *, as_json: Json = False) -> int:
    """Probe an environment: determinism, snapshot purity, schemas and timing. Exits 1 on faults."""
    from rods.checking import check_environment

    report = check_environment(name)
    if as_json:
        print_json(report.as_json())
    else:
        print("\n".join(plain(line) for line in report.lines()))
    return EXIT_OK if report.ok else EXIT_FAILED
