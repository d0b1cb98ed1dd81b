"""`rods verify`: re-derives every decision of a run from its logs."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from console.output import Json, RunFolder, plain, print_json
from rods.errors import EXIT_FAILED, EXIT_OK

Replay = Annotated[bool, Parameter(negative="", help="Also run every variant's ground truth again.")]


def verify(run: RunFolder, /, *, replay: Replay = False, as_json: Json = False) -> int:
    """Re-derive every injection, deferral and retirement from the logs and compare. Exits 1 on a difference."""
    from buffers.verify import verify as check

    report = check(run, replay=replay)
    if as_json:
        print_json(report.as_json())
    else:
        print("\n".join(plain(line) for line in report.lines()))
    return EXIT_OK if report.ok else EXIT_FAILED
