"""`rods new`: a run folder from a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from console.output import RunFolder, print_json
from rods.commands import Json

if TYPE_CHECKING:
    from buffers.run.run import Run

Required = Annotated[Path, Parameter(name="--config", help="The TOML file of the run's configuration.")]


def new(run: RunFolder, /, *, config: Required, as_json: Json = False) -> None:
    """Create a run folder from a configuration: its identity, its tasks and its random seeds are fixed here.

    When a run of the same identity is already there, it is left as it is.
    """
    made = create(run, config)
    originals, held_out = len(made.training), len(made.held_out)
    if as_json:
        print_json({"run": str(run), "originals": originals, "held_out": held_out, "manifest": made.manifest})
    else:
        print(f"{run}: {originals} original tasks, {held_out} held out; start it with `rods up {run}`")
        for warning in made.manifest["warnings"]:
            print(f"  note: {warning}")


def create(run: Path, config: Path) -> Run:
    """Loads the tasks that `config` names and creates `run` with them, or joins the run there. Raises UserError."""
    from buffers.run.run import Run
    from rods.config import read_config
    from rods.runfolder import exists
    from worlds.sources import load_tasks

    asked = read_config(config)
    if exists(run):
        return Run.open(run, asked)
    return Run.create(run, asked, load_tasks(asked.data, config.parent))
