"""`rods new`, `rods fork`, `rods extend`: make a run folder from a configuration or from another run; let a run go on
longer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rods.buffers.checkpoints import Checkpoints
from rods.buffers.lifecycle import extend as lengthen
from rods.buffers.lifecycle import fork as forked
from rods.buffers.run.run import Run
from rods.buffers.state import lineage
from rods.commands import Json, check_libraries
from rods.config import parse_config, read_config
from rods.console.api import open_run
from rods.console.output import ConfigFile, RunFolder, print_result
from rods.errors import UserError

Required = Annotated[Path, Parameter(name="--config", help="The TOML file of the run's configuration.")]
Weights = Annotated[bool, Parameter(negative="", help="Take the policy of the newest checkpoint along.")]
Steps = Annotated[int | None, Parameter(help="The rollout batch after which the run ends (training.steps).")]
New = Annotated[Path, Parameter(help="The folder of the new run.")]


def new(run: RunFolder, /, *, config: Required, as_json: Json = False) -> None:
    """Create a run folder from a configuration: its identity, its tasks and its random seeds are fixed here.

    When a run of the same identity is already there, it is left as it is.
    """
    made = open_run(run, config)
    print_result(
        as_json,
        {"run": str(run), "originals": len(made.training), "held_out": len(made.held_out), "manifest": made.manifest},
        f"{run}: {len(made.training)} original tasks, {len(made.held_out)} held out; start it with `rods up {run}`",
        (f"  note: {note}" for note in _notes(made)),
    )


def _notes(run: Run) -> Iterator[str]:
    yield from run.manifest["warnings"]
    try:
        check_libraries(run.config.policy.kind)
    except UserError as error:  # another machine may train it, or another program
        yield str(error)


def fork(
    run: RunFolder, new: New, /, *, config: ConfigFile = None, weights: Weights = False, as_json: Json = False
) -> None:
    """Start a new run from another one's originals and active variants, with empty logs.

    With --config the new run gets another identity; otherwise it has the old one's.
    """
    old = Run.open(run)
    newest = Checkpoints(run).newest(lineage(run).keeps) if weights else None
    if weights and newest is None:
        raise UserError("has no checkpoint yet", where=str(run), remedy="leave out --weights, or train it first")
    made = forked(old, new, read_config(config) if config else None)
    if newest is not None:
        Checkpoints(new).adopt(newest)
    step = newest.position.step if newest else None
    policy, tasks = "" if step is None else f" and the policy of step {step}", len(made.training)
    result = {"run": str(new), "parent": made.manifest["parent"], "tasks": tasks, "weights_of_step": step}
    print_result(as_json, result, f"{new}: {tasks} training tasks{policy} from {run}; start it with `rods up {new}`")


def extend(run: RunFolder, /, *, config: ConfigFile = None, steps: Steps = None, as_json: Json = False) -> None:
    """Let a run go on longer: more steps, more epochs of its last stage, a further stage. Stop its processes first.

    With --config the run ends as that configuration says, which may differ in training.steps and curriculum.stages
    alone; later starts with a --config need one that agrees.
    """
    if (config is None) == (steps is None):
        raise UserError("nothing or too much says how long", remedy="give either --config FILE or --steps NUMBER")
    opened = Run.open(run)
    asked = opened.config if config is None else read_config(config)
    if steps is not None:
        training = {**asked.training.model_dump(mode="json"), "steps": steps}
        asked = parse_config({**asked.model_dump(mode="json"), "training": training}, where="--steps")
    changes = lengthen(opened, asked)
    text = f"{run}: {'; '.join(changes) or 'ends so already'}; `rods up {run}` goes on"
    print_result(as_json, {"run": str(run), "changes": changes}, text)
