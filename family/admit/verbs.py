"""`rods admit`: a gate for tasks that somebody else's generator wrote."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rods.buffers.daemon_log import DaemonLog
from rods.buffers.run.run import Run, guarded_by
from rods.buffers.state import read_state
from rods.commands import Json
from rods.config import Config, Data, read_config
from rods.console.output import ConfigFile, print_result
from rods.console.verbs.data import Name
from rods.environments import registry
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.errors import EXIT_FAILED, EXIT_OK, UserError
from rods.family.admit.admitting import VERDICTS, Admitting, Line, write
from rods.family.admit.harbor_folders import HARBOR, judged, read
from rods.faults import Reason
from rods.tasks import AnyTask, Task, write_task_file
from rods.worlds.checking.environments import check_environment
from rods.worlds.checking.twins import Twins
from rods.worlds.sources import given_tasks, load_tasks

# tasks that the world is probed with, and that are searched for tools that do the same
SAMPLE = 8


def admit(
    world: Name,
    tasks: Path,
    /,
    *options: Annotated[str, Parameter(allow_leading_hyphen=True)],
    into: Path | None = None,
    whose: str = "",
    config: ConfigFile = None,
    against: list[str] | None = None,
    out: Path | None = None,
    accepted: Path | None = None,
    strict: bool = False,
    unchecked: bool = False,
    trust: bool = False,
    harbor: str = "harbor",
    as_json: Json = False,
) -> int:
    """Find what is wrong with tasks that another generator wrote (docs/admit.md): a verdict for
    each with its evidence, and how many faults of which kind there are. Exits 1 where one is not
    accepted.

    Args:
        world: Or the word harbor.
        tasks: JSON lines, a task each; after the word harbor: a folder of Harbor's tasks, which its
            own agents play, the one with the solution twice and the one that does nothing once.
        options: After --, of a folder: options of `harbor run`, as -e daytona or -n 8.
        into: A run: what is accepted waits there for the next merge, as variants do.
        whose: Whose they are, for their provenance; else the name of the file.
        config: Gates, the policy's context, guarded benchmarks and the number of processes
            (operation.compute_places; 0: one a core) are those of this configuration, and its
            tasks are given; with --into the run's.
        against: More tasks that are given: none may repeat a training task or match a held-out one
            of them. Names, as in data.tasks, files, or folders of Harbor's, which are held out.
        out: The verdicts, as JSON lines; else TASKS.verdicts.jsonl, without the ending of TASKS.
        accepted: Write what is accepted here, too, as a file of tasks; of a folder its verdicts,
            with paths, as rows that schedules take.
        strict: Refuse what is doubtful: hold the tasks to what our own variants have to pass.
        unchecked: Do not probe the world first; worlds that come with this package are never.
        trust: Run the code or the command of the world unconfined, whoever wrote it.
        harbor: The program of an installation of Harbor.
    """
    target = out or tasks.parent / f"{tasks.absolute().stem}{VERDICTS}"
    files = [path.resolve() for path in (tasks, target, accepted) if path]
    for number, path in enumerate(files):
        if path in files[:number]:
            raise UserError("would be written over", where=path, remedy="name another file")
        if number and (path.is_dir() or not path.parent.is_dir()):
            remedy = "name a file, in a folder that is there"
            raise UserError("cannot be written", where=path, remedy=remedy)
    run = Run.open(into) if into else None
    settings = (
        run.config if run else read_config(config) if config else Config(data=Data(tasks="none"))
    )
    given = list[AnyTask]()
    for name in against or ():
        if (other := Path(name)).is_dir():
            given += [line.task for line in read(other, "test") if line.task]
        else:
            given += given_tasks(name, Path())
    if config and not run:
        ours = load_tasks(settings.data, config.parent, train_needed=False)
        given += [*ours, *guarded_by(settings)]
    if world == HARBOR and not run:
        played = judged([harbor, "run", *options], tasks, given, settings.gates, strict)
        write(played, target)
        if accepted:
            write((line for line in played if line.accepted), accepted)
        return tell(as_json, played, target)
    if options or tasks.is_dir():
        remedy = (
            "`rods admit harbor FOLDER` plays Harbor's, into no run; "
            "of ours: cat FOLDER/*/tests/task.json"
        )
        raise UserError("is a folder, or not the only file", where=tasks, remedy=remedy)
    settings = with_workers(settings, world, trust)
    folder = run.path if run else tasks.parent
    twins = Twins()
    with Environments(settings.operation.sandbox, folder, trust=trust) as environments:
        environment = environments.load(world)
        if run:
            given += of_run(run, environment)
        faults = list[Reason]()
        gate = Admitting(settings, folder, environment, given, run, strict)
        if not unchecked and world not in registry.environments():
            own = (line.task for line in gate.read(tasks) if isinstance(line.task, Task))
            report = check_environment(world, environments, islice(own, SAMPLE))
            faults = [Reason(str(fault)) for fault in report.faults]
        lines = asyncio.run(gate.judged(gate.read(tasks)))
        if not lines:
            raise UserError("holds no task", where=tasks, remedy="write one JSON object a line")
        for line in lines:
            line.reasons |= {"world": faults} if faults else {}
        for line in [line for line in lines if line.accepted][:SAMPLE]:
            with suppress(Exception):  # what a world raises, its verdicts say
                if isinstance(line.task, Task):
                    twins.look(environment, line.task, f"line {line.number}")
    whose = whose or tasks.name
    gate.keep(lines, target)
    owned = gate.owned(lines, whose)
    if accepted:
        write_task_file(owned, accepted)
    if run:
        with closing(DaemonLog(run)) as log:
            asyncio.run(gate.stage(log, owned, whose))
    return tell(as_json, lines, target, twins.notes())


def tell(as_json: bool, lines: Sequence[Line], target: Path, notes: Sequence[str] = ()) -> int:
    """Prints how many verdicts there are, and of which kind; returns the exit code."""
    verdicts = Counter(line.verdict for line in lines)
    kinds = Counter(f"{line.verdict}: {kind}" for line in lines for kind in line.kinds)
    print_result(
        as_json,
        {"verdicts": verdicts, "kinds": kinds, "twins": notes, "out": target},
        (f"{count:6} {name}" for name, count in [*verdicts.items(), *kinds.most_common()]),
        (f"note: {note}" for note in notes),
        f"{len(lines)} lines, verdicts in {target}",
    )
    return EXIT_OK if [*verdicts] == ["accepted"] else EXIT_FAILED


def with_workers(config: Config, world: str, trust: bool) -> Config:
    """`config` with judges in processes, and a world of Python code confined in them."""
    operation = config.operation
    sandbox = operation.sandbox
    if ":" in world and not trust:
        names = (*sandbox.environments, world)
        sandbox = sandbox.model_copy(update={"environments": names})
    operation = operation.model_copy(update={"compute": "processes", "sandbox": sandbox})
    return config.model_copy(update={"operation": operation})


def of_run(run: Run, environment: Environment) -> list[AnyTask]:
    """What a run has, or may not repeat. Raises RefusedError where it takes no task of this
    world."""
    remedy = "leave out --into, or operation.admit"
    if run.manifest["environments"].get(environment.name) != environment.hash:
        raise run.refused(f"{environment.name} is none of its worlds", remedy)
    if run.config.pool.static:
        raise run.refused("its pool is static: nothing joins it", remedy)
    state = read_state(run)
    staged = state.staging.candidates(state.staging.seq, by_pick=False)
    return [
        *run.tasks,
        *run.guarded,
        *(state.task(member.task_id) for member in state.pool.generated),
        *(task for candidate in staged if (task := candidate.task)),
    ]
