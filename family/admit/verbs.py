"""`rods admit`: a gate for tasks that somebody else's generator wrote."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import orjson
from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from rods.buffers.daemon_log import DaemonLog
from rods.buffers.run.run import Run, guarded_by
from rods.buffers.state import read_state
from rods.commands import Json
from rods.config import Config, Data, read_config
from rods.console.output import ConfigFile, print_result
from rods.console.verbs.data import Name
from rods.environments import registry
from rods.environments.base import reference
from rods.environments.loading import Environments
from rods.errors import EXIT_FAILED, EXIT_OK, UserError, complain
from rods.family.admit.admitting import Admitting, Line
from rods.faults import Reason
from rods.files import explained
from rods.tasks import HELD_OUT_SPLITS, AnyTask, Task, write_task_file
from rods.worlds.checking.environments import check_environment
from rods.worlds.checking.twins import Twins
from rods.worlds.sources import given_tasks, load_tasks

SAMPLE = 8  # tasks that the world is probed with, and that are searched for tools that do the same


def admit(
    world: Name,
    tasks: Path,
    /,
    *,
    into: Annotated[Path | None, Parameter(name="--into")] = None,
    whose: str = "",
    config: ConfigFile = None,
    against: list[str] | None = None,
    out: Annotated[Path | None, Parameter(name="--out")] = None,
    accepted: Path | None = None,
    cores: NonNegativeInt = 0,
    unchecked: bool = False,
    trust: bool = False,
    as_json: Json = False,
) -> int:
    """Hold tasks that another generator wrote to what variants have to pass (docs/admit.md): a
    verdict for each with its evidence, and how many faults of which kind there are. Exits 1 where
    one is not accepted.

    Args:
        tasks: JSON lines, a task each, or a logged conversation.
        into: A run: what is accepted waits there for the next merge, as variants do.
        whose: Whose they are, for their provenance; else the name of the file.
        config: Gates, the policy's context and guarded benchmarks are those of this configuration,
            and its tasks are given; with --into the run's.
        against: More tasks that are given: none may repeat a training task or match a held-out one
            of them. Names, as in data.tasks, or files.
        out: The verdicts, as JSON lines; else TASKS.verdicts.jsonl, without the ending of TASKS.
        accepted: Write what is accepted here, too, as a file of tasks.
        cores: How many processes judge; 0: one a core.
        unchecked: Do not probe the world first; worlds that come with this package are never.
        trust: Run the code or the command of the world unconfined, whoever wrote it.
    """
    target = out or tasks.with_suffix(".verdicts.jsonl")
    if tasks.resolve() in {path.resolve() for path in (target, accepted) if path}:
        raise UserError("would be written over", where=tasks, remedy="name another file")
    run = Run.open(into) if into else None
    source = whose or tasks.name
    lines: list[Line] = []
    with explained("cannot write", target, "choose another file by --out"), target.open("wb") as to:

        async def judge() -> None:
            async for line in gate.judged(gate.read(tasks, tasks.name)):
                if run and line.task and line.task.split in HELD_OUT_SPLITS:
                    line.reasons["split"] = [Reason(f"it is held out: {line.task.split}")]
                to.write(orjson.dumps(line.as_json()) + b"\n")
                lines.append(line)

        settings = _settings(run.config if run else read_config(config) if config else None)
        settings = _confined(settings, world, cores, trust)
        folder = run.path if run else tasks.parent
        with Environments(settings.operation.sandbox, folder, trust=trust) as environments:
            gate = _gate(settings, folder, environments, world, run, config, against or ())
            if not unchecked and world not in registry.environments():
                sample = [line.task for line in gate.read(tasks, tasks.name)]
                own = [task for task in sample if isinstance(task, Task)][:SAMPLE]
                tell = partial(complain, world)
                report = check_environment(world, environments, own, tell=tell)
                gate.world = [Reason(str(fault)) for fault in report.faults]
            asyncio.run(judge())
            twins = Twins()
            for line in [line for line in lines if line.verdict == "accepted"][:SAMPLE]:
                with suppress(Exception):  # what a world raises, its verdicts say
                    if isinstance(line.task, Task):
                        twins.look(gate.environment, line.task, f"line {line.number}")
    good = [_owned(line.task, source) for line in lines if line.task and line.verdict == "accepted"]
    if accepted:
        write_task_file(good, accepted)
    if run and good:
        _stage(run, source, good)
    return _print(lines, twins.notes(), target, run, as_json)


def _settings(config: Config | None) -> Config:
    return config or Config(data=Data(tasks="none"))


def _confined(config: Config, world: str, cores: int, trust: bool) -> Config:
    """`config` with judges in processes, and a world of Python code confined in them."""
    operation = config.operation
    sandbox = operation.sandbox
    if ":" in world and not trust:
        names = (*sandbox.environments, world)
        sandbox = sandbox.model_copy(update={"environments": names})
    ways = {"compute": "processes", "compute_places": cores, "sandbox": sandbox}
    return config.model_copy(update={"operation": operation.model_copy(update=ways)})


def _gate(
    settings: Config,
    folder: Path,
    environments: Environments,
    world: str,
    run: Run | None,
    config: Path | None,
    against: Iterable[str],
) -> Admitting:
    """Who judges. Raises UserError where the world cannot be loaded, or is none of the run's."""
    environment = environments.load(world)
    given: list[AnyTask] = []
    held_out: list[AnyTask] = guarded_by(settings)
    if run:
        own = reference(environment)
        if run.manifest["environments"].get(own.name) != own.hash:
            remedy = "start a run with tasks of it, or leave --into out"
            raise run.refused(f"{world} is none of its worlds", remedy)
        if settings.pool.static:
            raise run.refused("its pool is static: nothing joins it", "leave --into out")
        state = read_state(run)
        staged = state.staging.candidates(state.staging.seq, by_pick=False)
        generated = [state.task(member.task_id) for member in state.pool.generated]
        given = [*run.tasks, *generated, *(task for one in staged if (task := one.task))]
        held_out = run.guarded
    elif config:
        given = load_tasks(settings.data, config.parent, train_needed=False)
    given += [task for name in against for task in given_tasks(name, Path())]
    training = [task for task in given if task.split not in HELD_OUT_SPLITS]
    return Admitting(settings, folder, environment, training, [*held_out, *given])


def _owned(task: AnyTask, whose: str) -> AnyTask:
    """`task` as a variant that goes back to itself, and says whose it is."""
    about = {"seed": task.id, "root": task.id, "generation": 1, "model": whose, "whose": whose}
    return replace(task, provenance={**task.provenance, **about})


def _stage(run: Run, whose: str, tasks: Sequence[AnyTask]) -> None:
    """Puts tasks on the run's log of variants. Raises RefusedError while a daemon works."""

    async def write() -> None:
        log = DaemonLog(run)
        try:
            await log.admitted(whose, tasks)
        finally:
            log.close()

    asyncio.run(write())


def _print(
    lines: Sequence[Line], notes: Sequence[str], target: Path, run: Run | None, as_json: bool
) -> int:
    verdicts = Counter(line.verdict for line in lines)
    kinds = {
        verdict: Counter(kind for line in lines if line.verdict == verdict for kind in line.kinds)
        for verdict in ("refused", "doubtful")
    }
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    where = f"; what is accepted waits in {run.path}" if run and verdicts["accepted"] else ""
    print_result(
        as_json,
        {"lines": len(lines), **verdicts, "kinds": kinds, "twins": notes, "out": target},
        (
            f"{count:6} {verdict}: {kind}"
            for verdict, counted in kinds.items()
            for kind, count in counted.most_common()
        ),
        (f"note: {note}" for note in notes),
        f"{len(lines)} lines: {counts or 'none'}; verdicts in {target}{where}",
    )
    return EXIT_OK if verdicts.total() == verdicts["accepted"] else EXIT_FAILED
