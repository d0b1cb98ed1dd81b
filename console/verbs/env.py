"""`rods env check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from console.output import Json, plain, print_json
from rods.errors import EXIT_FAILED, EXIT_OK

Name = Annotated[str, Parameter(help="desk, bfcl, or your own package.module:factory.")]
Tasks = Annotated[Path | None, Parameter(help="A JSONL file of tasks of this environment; probes with their calls.")]


def check(name: Name, /, *, tasks: Tasks = None, as_json: Json = False) -> int:
    """Probe an environment: determinism, snapshot purity, schemas and timing. Exits 1 on faults."""
    from rods.checking import check_environment
    from rods.environments.loading import Environments
    from rods.tasks import read_tasks

    report = check_environment(name, Environments(), list(read_tasks(tasks)) if tasks else ())
    if as_json:
        print_json(report.as_json())
    else:
        print("\n".join(plain(line) for line in report.lines()))
    return EXIT_OK if report.ok else EXIT_FAILED
