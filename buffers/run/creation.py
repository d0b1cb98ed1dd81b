"""Creates run folders: checks the tasks, writes a temporary folder, renames it into place. Of two
processes that create the same run, the slower one finds the folder in place and joins it.

The files of generated worlds come along: environments/<address>/world.py, immutable, there before a
task or a record names the world. So a run goes on wherever it is started from, and its folder may
be moved whole.
"""

import errno
import os
import platform
import shutil
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import tomli_w

import rods
from rods import interfaces
from rods.buffers.log.disk import refusals, sync_folder, write
from rods.buffers.log.record_bytes import now
from rods.buffers.run import runfolder
from rods.buffers.run.run import Run, guard_hash, guarded_by
from rods.canonical import JsonMapping, content_id, present
from rods.composing.catalogue import catalogue_for
from rods.composing.records import ComposeError
from rods.config import PROTOCOL, Config, read_config
from rods.environments import addressed
from rods.environments.base import Environment, parameters, reference
from rods.environments.loading import Environments
from rods.episode.rewards import COMPARES_CALLS
from rods.errors import UserError, complain, disk_error
from rods.extension import Door
from rods.faults import Reason
from rods.files import TASKS, sha256_of
from rods.gates.ground_truth import replay, unjudgeable
from rods.rules.curriculum import writes
from rods.rules.selection import reachable_maximum
from rods.stored_tasks import Columns, Tasks
from rods.tasks import AnyTask, Line, OpenTask, Task, task_lines
from rods.worlds.sources import beside, load_tasks

TAKEN = (errno.ENOTEMPTY, errno.EEXIST)  # what a rename says where another process was faster
FEW = 4  # rollouts on which no variant should be judged

# the environments that a run needs beside those of its tasks, out of all that there are (001).
# Raises UserError for what no run can start with
RUN_ENVIRONMENTS: Door[Callable[[Config, Environments], Sequence[Environment]]] = Door(
    "run_environments"
)


def create_run(
    path: Path,
    config: Config,
    tasks: Sequence[AnyTask],
    parent: JsonMapping | None = None,
    folders: Sequence[Path] = (),
) -> Run:
    """Creates the run folder `path`, or joins the run there when its identity is the same; `parent`
    says what a fork was made from, `folders` where the files of generated worlds are looked for
    before the current folder. Raises UserError for tasks that cannot be trained on, RefusedError
    for another identity."""
    with refusals(path):
        occupied = path.exists() and any(path.iterdir())
        # looked for last: another process may create it between the two looks
        if runfolder.exists(path):
            return Run.open(path, config)
    if occupied:
        raise UserError(
            "exists and is no run folder",
            where=path,
            remedy="choose another name, or move it aside",
        )
    environments = Environments(config.operation.sandbox, *folders)
    warnings = check(config, tasks, environments)
    trained = sum(task.split == "train" for task in tasks)
    counts = {"train": trained, "held_out": len(tasks) - trained}
    needed = (
        environment for wanted in RUN_ENVIRONMENTS for environment in wanted(config, environments)
    )
    references = {task.environment for task in tasks} | {
        reference(environment) for environment in needed
    }
    manifest = {
        "protocol": PROTOCOL,
        "created": now(),
        "versions": {"rods": rods.__version__, "python": platform.python_version()},
        "tasks": {},
        "environments": dict(sorted((ref.name, ref.hash) for ref in references)),
        "parameters": {
            name: {**parameters(world), "goal": world.features.reads_judged}
            for name in sorted({ref.name for ref in references})
            for world in [environments.load(name)]
        },
        "random_seeds": config.random_seeds.model_dump(),
        "identity_hash": content_id(config.identity()),
        "identity": config.identity(),
        "warnings": warnings,
        **present(guarded=guard_hash(guarded_by(config))),
        "parent": parent,
    }
    try:
        with _new_folder(path) as fresh:
            bring((ref.name for ref in references), environments.folders, fresh)
            columns = _write_tasks(fresh / runfolder.TASKS, tasks)
            sha256 = sha256_of(columns.path, TASKS)
            manifest["tasks"] = {"sha256": sha256, **counts}
            (fresh / runfolder.SNAPSHOTS).mkdir()
            write(fresh / runfolder.TASK_COLUMNS, columns.kept(sha256))
            write(fresh / runfolder.CONFIG, tomli_w.dumps(config.model_dump(mode="json")).encode())
            write(
                fresh / runfolder.MANIFEST,
                orjson.dumps(manifest, option=orjson.OPT_INDENT_2) + b"\n",
            )
        sync_folder(path.parent)
    except OSError as error:
        if error.errno in TAKEN:
            return Run.open(path, config)
        raise disk_error(error, path) from error
    environments.folders = (path,)
    given = Tasks(replace(columns, path=path / runfolder.TASKS))
    return Run(path, config, manifest, given, environments)


def _write_tasks(path: Path, tasks: Iterable[AnyTask]) -> Columns:
    """Those of the file that it writes, durable but for its name."""
    with path.open("wb") as file:

        def lines() -> Iterator[Line]:
            offset = 0
            for task in tasks:
                line = task_lines([task])
                file.write(line)
                yield offset, line, task
                offset += len(line)

        columns = Columns.of(path, lines())
        file.flush()
        os.fsync(file.fileno())
    return columns


def open_or_create(path: Path | str, config_file: Path | str | None) -> Run:
    """The run in `path`, created with the tasks that `config_file` names where there is none,
    joined where another process was faster. Of one that is there a person is told where its file of
    tasks says otherwise by now. Raises UserError, and RefusedError where a run of another identity
    is there."""
    path = Path(path)
    folder = Path() if config_file is None else Path(config_file).parent
    config = None if config_file is None else read_config(Path(config_file))
    if config is None or runfolder.exists(path):
        run = Run.open(path, config)
        if changes := changed_tasks(run, folder):
            complain(str(path), changes)
        return run
    tasks = load_tasks(config.data, folder, train_needed=config.pool_slots > 0)
    return create_run(path, config, tasks, folders=[beside(config.data, folder)])


def changed_tasks(run: Run, folder: Path) -> str:
    """What the file that the tasks of `run` were read from, named from `folder`, says otherwise
    now, and what to do; empty where it is as it was, or not there."""
    data = run.config.data
    file = folder / data.tasks
    if run.manifest.get("parent") or not file.is_file():
        return ""  # a fork's tasks stand in no file
    if file.stat().st_ctime < run.manifest.get("created", 0):
        return ""  # there may be a million tasks
    try:
        given = load_tasks(data, folder, train_needed=False)
    except UserError as error:
        what = str(error)
    else:
        kept = {task.id for task in run.tasks} & {task.id for task in given}
        gone = [task for task in run.tasks if task.id not in kept]
        new = [task for task in given if task.id not in kept]
        counts = Counter(added=len(new), removed=len(gone))
        for task in new:
            for old in gone:
                if task.texts == old.texts or task.goal_calls == old.goal_calls:
                    gone.remove(old)
                    counts.update(added=-1, removed=-1, changed=1)
                    break
        numbers = [f"{count} {how}" for how, count in counts.items() if count]
        if not numbers:
            return ""
        what = f"{file} has changed since the run was made: {', '.join(numbers)}"
    return (
        f"note: {what}; the run keeps the tasks that it began with → `rods up NEW --config FILE` "
        f"begins one with those of the file"
    )


def check(config: Config, tasks: Sequence[AnyTask], environments: Environments) -> list[str]:
    """Refuses tasks that a run cannot start with (UserError); returns what is legal but worth
    saying."""
    ids = Counter(task.id for task in tasks)
    if repeated := [task_id for task_id, count in ids.items() if count > 1]:
        raise UserError(
            f"task {repeated[0]} occurs twice", where="tasks", remedy="remove one of the two"
        )
    _check_sizes(config, tasks)
    models_write(config)
    for wanted in RUN_ENVIRONMENTS:
        wanted(config, environments)
    calling = [stage.reward for stage in config.curriculum.stages if stage.reward in COMPARES_CALLS]
    for task in tasks:
        environment = environments.load(task.environment.name)
        if reference(environment) != task.environment:
            raise UserError(
                f"task {task.id} was written for version {task.environment.hash} of "
                f"{task.environment.name!r}, but {environment.hash} is installed",
                where="tasks",
                remedy="install that version, or renew the tasks: `rods data rehash FILE --trust`",
            )
        if isinstance(task, Task):
            judged = "ground truth"
            faults = replay(environment, task)
        else:
            assert isinstance(task, OpenTask)
            judged = "goal"
            faults = unjudgeable(environment, task)
            if calling and task.split == "train":
                faults = [
                    Reason(
                        f"the reward {calling[0]} compares calls with a ground truth, and it has "
                        f"none"
                    )
                ]
        if faults:
            raise UserError(
                f"the {judged} of task {task.id} fails: {faults[0]}",
                where="tasks",
                remedy="`rods data check FILE` lists every fault",
            )
    return _warnings(config, tasks, environments)


def models_write(config: Config) -> bool:
    """Whether language models write the variants of a run with this configuration. Raises UserError
    where that is so, and this start names none."""
    wanted = config.pipeline.author == "llm" and writes(config)
    if wanted and not config.operation.endpoints:
        raise UserError(
            'pipeline.author is "llm", and no endpoint is configured',
            where="operation.endpoints",
            remedy="name one under [[operation.endpoints]] in the file after --config, with model "
            'and urls (docs/endpoints.md); a new run may have author = "procedural"',
        )
    return wanted


def _check_sizes(config: Config, tasks: Sequence[AnyTask]) -> None:
    batch = config.pool_slots
    for number, stage in enumerate(config.curriculum.stages, start=1):
        interfaces.load(stage, config.policy.dialect)  # which says where it cannot be found
        count = sum(task.split == "train" and task.type in stage.types for task in tasks)
        if count < batch:
            what = f"stage {number} has {count} training tasks of its types, a batch needs {batch}"
            remedy = (
                f"lower it to {count} or less, or give more tasks"
                if count
                else "give tasks of these types"
            )
            raise UserError(what, where="training.batch_tasks", remedy=remedy)
        if stage.until == "plateau" and not any(task.split == "validation" for task in tasks):
            raise UserError(
                f"stage {number} ends on a plateau of the validation score, and no task has the "
                f"split 'validation'",
                where=f"curriculum.stages.{number - 1}.until",
                remedy="give validation tasks (data.held_out), or end the stage after its epochs",
            )


def _warnings(config: Config, tasks: Sequence[AnyTask], environments: Environments) -> list[str]:
    rules = config.selection
    train = [task for task in tasks if task.split == "train"]
    types = {task.type for task in train}
    warnings = []
    reachable = reachable_maximum(rules, types)
    if train and reachable < rules.seeds_per_step:
        warnings.append(
            f"the training tasks are all of the types {', '.join(sorted(types))}, so the quotas of "
            f"[selection] allow at most {reachable} seeds a step, not {rules.seeds_per_step} "
            "(groups, quota, pass_on_quota)"
        )
    judged = config.pool.burn_in_observations * config.rollouts.rollouts_per_task
    if config.pool.burn_in and judged < FEW:
        warnings.append(
            f"{judged} rollouts decide whether a new variant stays: raise pool.burn_in_observations"
        )
    strange = {task.environment.name for task in train} - {"desk"}
    if config.policy.kind == "nano" and strange:
        warnings.append(
            f"nano knows desk alone: its warm start shows no tool of "
            f"{', '.join(sorted(strange)[:FEW])}, so it will earn next to nothing there. It tries "
            'the loop out, and so does policy.kind = "simulated" in seconds: `rods status` says '
            "how many minutes of the warm start are left here, once it has begun. To learn, name a "
            'model: kind = "transformers"'
        )
    if config.pipeline.author == "llm":
        return warnings  # a model writes from tools and schemas alone
    for name in sorted({task.environment.name for task in train if isinstance(task, Task)}):
        try:
            catalogue_for(environments.load(name))
        except ComposeError:
            warnings.append(
                f"environment {name!r} has no catalogue with a phrase book, so no variants of its "
                f"tasks will be "
                'written (docs/composing.md says how to give it one; with pipeline.author = "llm" '
                "none is needed)"
            )
    return warnings


def bring(names: Iterable[str], folders: Sequence[Path], target: Path) -> None:
    """Copies the files of those environments in `names` that are generated worlds, looked for below
    `folders` and then from the current folder, below `target`: each durable and whole when it has
    its name. Raises UserError for a file that is missing or another one than its
    address says."""
    worlds = {
        address: name for name in names if (address := addressed.address_of(name)) is not None
    }
    place = target / addressed.FOLDER
    with refusals(place):
        for address, name in worlds.items():
            place.mkdir(exist_ok=True)
            if (place / address).exists():
                continue
            content = addressed.text_of(addressed.source_of(name, folders)).encode()
            try:
                with _new_folder(place / address) as fresh:
                    write(fresh / addressed.FILE, content)
            except OSError as error:
                if error.errno not in TAKEN:
                    raise
        if worlds:
            sync_folder(place)
            sync_folder(target)


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that is renamed to `path` in the end, whole and durable; gone where that
    fails. Raises OSError (TAKEN: another process was faster)."""
    fresh = path.with_name(
        f".{path.name}.{socket.gethostname()}.{os.getpid()}.{os.urandom(4).hex()}"
    )
    try:
        fresh.mkdir(parents=True)
        yield fresh
        sync_folder(fresh)
        fresh.rename(path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # it is gone if all went well


def damaged(names: Iterable[str], folder: Path) -> Iterator[tuple[str, str]]:
    """The generated worlds among `names` whose file below `folder` is missing or another one:
    place, and what is wrong."""
    for name in sorted(names):
        if (address := addressed.address_of(name)) is None:
            continue
        where = f"{addressed.FOLDER}/{address}/{addressed.FILE}"
        if not (folder / where).is_file():
            yield where, "is missing"
            continue
        try:
            addressed.source_of(name, [folder])
        except UserError as error:
            yield where, error.what
