"""Creates run folders: checks the tasks, writes a temporary folder, renames it into place.

Of two processes that create the same run, the slower one finds the folder in place and joins it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import shutil
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import tomli_w

import rods
from rods import interfaces
from rods.buffers.log.disk import sync_folder, write
from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.buffers.run.world_files import bring
from rods.canonical import content_id
from rods.composing.catalogue import catalogue_for
from rods.composing.records import ComposeError
from rods.config import PROTOCOL, Config, read_config
from rods.environments.base import Environment, parameters, reference
from rods.environments.loading import Environments
from rods.episode.rewards import COMPARES_CALLS
from rods.errors import UserError, disk_error
from rods.extension import extensions
from rods.gates.ground_truth import replay, unjudgeable
from rods.gates.records import Reason
from rods.rules.curriculum import writes
from rods.rules.selection import reachable_maximum
from rods.tasks import AnyTask, OpenTask, Task, task_lines
from rods.worlds.sources import beside, load_tasks

FEW = 4  # rollouts on which no variant should be judged


def create_run(
    path: Path,
    config: Config,
    tasks: Sequence[AnyTask],
    parent: Mapping[str, Any] | None = None,
    folders: Sequence[Path] = (),
) -> Run:
    """Creates the run folder `path`, or joins the run there when its identity is the same; `parent` says what a fork
    was made from, `folders` where the files of generated worlds are looked for before the current folder. Raises
    UserError for tasks that cannot be trained on, RefusedError for another identity."""
    try:
        if runfolder.exists(path):
            return Run.open(path, config)
        taken = path.exists() and any(path.iterdir())
        if taken and runfolder.exists(path):  # another process was faster, between the two looks
            return Run.open(path, config)
    except OSError as error:
        raise disk_error(error, path) from error
    if taken:
        raise UserError("exists and is no run folder", where=str(path), remedy="choose another name, or move it aside")
    environments = Environments(config.operation.sandbox, *folders)
    warnings = check(config, tasks, environments)
    fresh = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.{os.urandom(4).hex()}")
    lines = task_lines(tasks)
    needed = (one for extension in extensions() for one in extension.check(config, environments))
    named = {task.environment for task in tasks} | {reference(environment) for environment in needed}
    manifest = {
        "protocol": PROTOCOL,
        "created": round(time.time(), 3),
        "versions": {"rods": rods.__version__, "python": platform.python_version()},
        "tasks": {
            "sha256": hashlib.sha256(lines).hexdigest(),
            "train": sum(task.split == "train" for task in tasks),
            "held_out": sum(task.split != "train" for task in tasks),
        },
        "environments": dict(sorted((one.name, one.hash) for one in named)),
        "parameters": {name: parameters(environments.load(name)) for name in sorted({one.name for one in named})},
        "random_seeds": config.random_seeds.model_dump(),
        "identity_hash": content_id(config.identity()),
        "identity": config.identity(),
        "warnings": warnings,
        "parent": parent,
    }
    try:
        fresh.mkdir(parents=True)
        bring((one.name for one in named), environments.folders, fresh)
        write(fresh / runfolder.TASKS, lines)
        write(fresh / runfolder.CONFIG, tomli_w.dumps(config.model_dump(mode="json")).encode())
        write(fresh / runfolder.MANIFEST, orjson.dumps(manifest, option=orjson.OPT_INDENT_2) + b"\n")
        sync_folder(fresh)
        fresh.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return Run.open(path, config)  # another process was faster
        raise disk_error(error, path) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # it is gone if all went well
    environments.folders = (path,)
    return Run(path, config, manifest, list(tasks), environments)


def open_or_create(path: Path, config_file: Path) -> Run:
    """The run in `path`, created with the tasks that `config_file` names where there is none, joined where another
    process was faster. Raises UserError, and RefusedError where a run of another identity is there."""
    config = read_config(config_file)
    if runfolder.exists(path):
        return Run.open(path, config)
    tasks = load_tasks(config.data, config_file.parent, train_needed=config.pool_slots > 0)
    return create_run(path, config, tasks, folders=[beside(config.data, config_file.parent)])


def check(config: Config, tasks: Sequence[AnyTask], environments: Environments) -> list[str]:
    """Refuses tasks that a run cannot start with (UserError); returns what is legal but worth saying."""
    ids = Counter(task.id for task in tasks)
    if repeated := [task_id for task_id, count in ids.items() if count > 1]:
        raise UserError(f"task {repeated[0]} occurs twice", where="tasks", remedy="remove one of the two")
    _check_sizes(config, tasks)
    if config.pipeline.author == "llm" and writes(config) and not config.operation.endpoints:
        raise UserError(
            'pipeline.author is "llm", and no model is named that could write',
            where="operation.endpoints",
            remedy='give one [[operation.endpoints]] with model and urls (docs/endpoints.md), or author = "procedural"',
        )
    for extension in extensions():
        extension.check(config, environments)
    for task in tasks:
        environment = environments.load(task.environment.name)
        if reference(environment) != task.environment:
            raise UserError(
                f"task {task.id} was written for version {task.environment.hash} of {task.environment.name!r}, "
                f"but {environment.hash} is installed",
                where="tasks",
                remedy="install that version, or renew the tasks: `rods data rehash FILE`",
            )
        if faults := replay(environment, task) if isinstance(task, Task) else _whole_faults(config, environment, task):
            raise UserError(
                f"the {'ground truth' if isinstance(task, Task) else 'goal'} of task {task.id} fails: {faults[0]}",
                where="tasks",
                remedy="`rods data check FILE` lists every fault",
            )
    return _warnings(config, tasks, environments)


def _whole_faults(config: Config, environment: Environment, task: AnyTask) -> list[Reason]:
    """Why a task that is judged at the end fails, or cannot be trained on as the stages say."""
    assert isinstance(task, OpenTask)
    calling = [stage.reward for stage in config.curriculum.stages if stage.reward in COMPARES_CALLS]
    if calling and task.split == "train":
        return [Reason(f"the reward {calling[0]} compares calls with a ground truth, and it has none")]
    return unjudgeable(environment, task)


def _check_sizes(config: Config, tasks: Sequence[AnyTask]) -> None:
    batch = config.pool_slots
    for number, stage in enumerate(config.curriculum.stages, start=1):
        interfaces.load(stage, config.policy.dialect)  # which says where it cannot be found
        count = sum(task.split == "train" and task.type in stage.types for task in tasks)
        if count < batch:
            raise UserError(
                f"stage {number} has {count} training tasks of its types, a batch needs {batch}",
                where="training.batch_tasks",
                remedy=f"lower it to {count} or less, or give more tasks" if count else "give tasks of these types",
            )
        if stage.until == "plateau" and not any(task.split == "validation" for task in tasks):
            raise UserError(
                f"stage {number} ends on a plateau of the validation score, and no task has the split 'validation'",
                where=f"curriculum.stages.{number - 1}.until",
                remedy="give validation tasks (data.held_out), or end the stage after its epochs",
            )


def _warnings(config: Config, tasks: Sequence[AnyTask], environments: Environments) -> list[str]:
    rules = config.selection
    train = [task for task in tasks if task.split == "train"]
    types = {task.type for task in train}
    found = []
    reachable = reachable_maximum(rules, types)
    if train and reachable < rules.seeds_per_step:
        found.append(
            f"the training tasks are all of the types {', '.join(sorted(types))}, so the quotas of [selection] allow "
            f"at most {reachable} seeds a step, not {rules.seeds_per_step} (groups, quota, pass_on_quota)"
        )
    judged = config.pool.burn_in_observations * config.rollouts.rollouts_per_task
    if config.pool.burn_in and judged < FEW:
        found.append(f"{judged} rollouts decide whether a new variant stays: raise pool.burn_in_observations")
    if config.pipeline.author == "llm":
        return found  # a model writes from tools and schemas alone
    for name in sorted({task.environment.name for task in train if isinstance(task, Task)}):
        try:
            catalogue_for(environments.load(name))
        except ComposeError:
            found.append(
                f"environment {name!r} has no catalogue with a phrase book, so no variants of its tasks will be "
                'written (docs/composing.md says how to give it one; with pipeline.author = "llm" none is needed)'
            )
    return found
