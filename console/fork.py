"""`rods fork`: a new run from another one's originals and active variants."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from console.output import ConfigFile, Json, RunFolder, print_json

New = Annotated[Path, Parameter(help="The folder of the new run.")]


def fork(run: RunFolder, new: New, /, *, config: ConfigFile = None, as_json: Json = False) -> None:
    """Start a new run from another one's originals and active variants, with empty logs.

    With --config the new run gets another identity; otherwise it has the old one's.
    """
    from buffers.fork import fork as make
    from buffers.run import Run
    from rods.config import read_config

    made = make(Run.open(run), new, read_config(config) if config else None)
    parent = made.manifest["parent"]
    if as_json:
        print_json({"run": str(new), "parent": parent, "tasks": len(made.training)})
    else:
        print(f"{new}: {len(made.training)} training tasks from {run}; start it with `rods up {new}`")
