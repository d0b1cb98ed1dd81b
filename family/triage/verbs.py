"""`rods triage`: why tasks are hopeless."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.buffers.state import read_state
from rods.commands import Json
from rods.config import Data
from rods.console.output import print_result
from rods.environments.loading import Environments
from rods.errors import EXIT_OK, UserError, complain
from rods.evaluation import heldout
from rods.family.triage.diagnoses import diagnose
from rods.family.triage.executed import execute
from rods.family.triage.findings import OF_RUN, lines, write
from rods.family.triage.playing import Rung, climb, drawn, evaluated
from rods.players import Players
from rods.tasks import AnyTask, Task
from rods.trainer.simulated import SimulatedPolicy
from rods.worlds.sources import beside, load_tasks


def triage(
    source: str,
    /,
    *policy: Annotated[str, Parameter(allow_leading_hyphen=True)],
    out: Path | None = None,
    samples: NonNegativeInt = 4,
    skill: float | None = None,
    task: str = "",
    trust: bool = False,
    as_json: Json = False,
) -> int:
    """Say why tasks are hopeless. Each ground truth is executed; then the policy plays those that
    hold, with hints derived from it, up a ladder until they are solved (docs/triage.md). The same
    command goes on after a stop.

    Args:
        source: A run, of which those tasks count that earned nothing; a JSONL file of tasks; or
            tasks by name, as in data.tasks.
        policy: After --: the policy and its settings, as options of `rods eval run`. Default: the
            policy of the run; of tasks nobody, and only their ground truths are executed.
        out: The folder of rollouts and findings; default: eval/triage of the run, or FILE.triage.
        samples: Rollouts of a task at each rung; 0: nobody plays.
        skill: A simulated policy of this skill plays.
        task: The id of a task: it alone is triaged, of a run also where it earned something.
        trust: Run the code of worlds that the tasks name, whoever wrote it.
    """
    path = Path(source)
    options = [*policy]
    if options and skill is not None:
        raise UserError(
            "two policies are named", where="--skill", remedy="leave it out, or what follows --"
        )
    if runfolder.exists(path):
        run = Run.open(path)
        run.check_environments()
        tasks = [*_hopeless(run, task)]
        players = run.players
        folder = out or path / OF_RUN
        own = not options and skill is None
        if own and samples and run.config.policy.kind == "simulated":
            trained = SimulatedPolicy(run.config)
            trained.load(heldout.checkpoint(path, "end")[1].policy)
            skill = trained.skill
        elif own and run.config.policy.kind != "external":
            options = ["--run", source]
    else:
        data = Data(tasks=source)
        tasks = load_tasks(data, Path(), train_needed=False)
        players = Players(Environments(None, beside(data, Path()), trust=trust))
        folder = out or Path(f"{path.name}.triage")
        options += ["--trust"] * (trust and bool(options))
    if task and not (tasks := [one for one in tasks if one.id == task]):
        remedy = "of a run, name one that is active or was retired as too hard"
        raise UserError(f"there is no task {task}", where=source, remedy=remedy)
    judged = {one.id: one for one in tasks if isinstance(one, Task)}
    if open_tasks := len(tasks) - len(judged):
        complain("rods triage", f"{open_tasks} tasks without ground-truth calls are left out")
    executed = {name: execute(players, one) for name, one in judged.items()}
    play: Rung | None = None
    if samples and skill is not None:
        play = drawn(executed, skill, samples)
    elif samples and options:
        play = evaluated(folder, players, executed, samples, options)
    played = climb(judged, executed, play) if play else {}
    findings = [diagnose(one, executed[name], played.get(name, {})) for name, one in judged.items()]
    file = write(folder, findings)
    print_result(
        as_json,
        {"findings": findings, "file": file},
        lines(findings),
        f"{len(findings)} tasks, findings in {file}",
    )
    return EXIT_OK


def _hopeless(run: Run, task: str) -> Iterator[AnyTask]:
    """The tasks of a run whose latest rollouts earned nothing: those that are active, and those
    that were retired as too hard; and `task`, where it is one of either."""
    state = read_state(run)
    for name in dict.fromkeys([*state.active, *state.pool.revivable]):
        window = state.tracker.window(name)
        if name == task or (window is not None and window.latest_mean == 0.0):
            yield state.task(name)
