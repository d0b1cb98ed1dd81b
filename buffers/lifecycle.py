"""Lets a run go on longer than it was created for (`extend`), and makes a new run of another one's
tasks (`fork`).

An extension brings more steps, more epochs of a stage, a further stage; nothing else of the
identity may change. What is on record then (extensions.jsonl, append-only) every later start has to
agree with. Rules of the stages stay as they are, so decisions that were taken are derived again as
before.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import rods
from rods.buffers.checkpoints import check_fork
from rods.buffers.log.record_bytes import now, record
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.creation import check, create_run
from rods.buffers.run.locks import Ownership
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXTENSIONS, OBSERVATIONS, SEEDS, exists
from rods.buffers.state import LostVariant, read_state
from rods.canonical import JsonObject, only
from rods.config import Config, identity_diff
from rods.environments.base import reference
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.gates.ground_truth import unheld
from rods.tasks import AnyTask

PROCESS = "extend"


def extend(run: Run, config: Config) -> list[str]:
    """Records that `run` ends as `config` says; returns what is different now, nothing where it
    ended so before.

    Raises RefusedError while a trainer or a daemon is at work, for other differences, and for an
    end before what was done; UserError for a stage that the run's tasks do not suffice for.
    """
    with (
        Ownership(run.path, OBSERVATIONS, PROCESS) as owned,
        Ownership(run.path, SEEDS, PROCESS, owned.heartbeat),
    ):
        run = Run.open(run.path)
        asked = run.config.lasting_as(config)
        if others := identity_diff(asked.identity(), config.identity()):
            raise run.refused(
                "an extension changes training.steps and curriculum.stages alone, not "
                f"{'; '.join(others)}",
                f"`rods trainer fork {run.path} NEW --config FILE` makes a new run with another "
                f"identity",
            )
        changes = identity_diff(run.config.identity(), asked.identity())
        if not changes:
            return []
        check_fork(run)
        state = read_state(run)
        epochs = [epoch.stage for epoch in state.pool.epochs]
        if why := _objection(run.config, asked, state.last_step, epochs):
            raise run.refused(why, "let it end later")
        check(asked, run.tasks, run.environments)
        entry = record(
            "extended",
            number=run.times_extended + 1,
            step=state.last_step,
            epoch=state.epoch,
            steps=asked.training.steps,
            stages=[stage.model_dump(mode="json") for stage in asked.curriculum.stages],
            version=rods.__version__,
            time=now(),
        )
        with closing(LogWriter(run.path / EXTENSIONS)) as writer:
            writer.append([entry])
        return changes


def _objection(now: Config, asked: Config, step: int, epochs: Sequence[int]) -> str:
    """Why a run with so many steps done and epochs begun, given by their stages (from 1), cannot
    end as `asked`; empty where it can."""
    if asked.training.steps < step:
        return f"training.steps = {asked.training.steps}, and step {step} is done"
    old = now.curriculum.stages
    new = asked.curriculum.stages
    if len(new) < len(old):
        return f"the curriculum has {len(old)} stages, and none may be taken away"
    for number, (was, ends) in enumerate(zip(old, new, strict=False), start=1):
        if was.model_copy(update={"epochs": ends.epochs}) != ends:
            return (
                f"of stage {number} only `epochs` may change; what else is wanted can be a further "
                f"stage"
            )
        if was.epochs != ends.epochs and epochs and number < epochs[-1]:
            return f"stage {number} is over"
        if 0 < ends.epochs < epochs.count(number):
            return (
                f"stage {number} would end after {ends.epochs} epochs, and {epochs.count(number)} "
                f"have begun"
            )
    return ""


def fork(run: Run, new: Path, config: Config | None = None) -> Run:
    """Creates `new` from the state of `run` behind its latest merge; `config` gives it another
    identity.

    Held-out tasks come along. Every training task's provenance gains `origin` (original or variant)
    and `forked_from`; variants stay variants there: they may retire, and count as generated. Where
    a world has changed since, each of its tasks is replayed: one that still holds gets the world's
    hash and a new id, and offers no tool that is gone. The manifest names these (`renewed`: old id
    → new one) and what stays behind: `lost`, variants whose record was lost to damage, and
    `left_out`, tasks that hold no more.
    """
    if exists(new):
        raise UserError("is a run folder already", where=new, remedy="choose another name")
    check_fork(run)
    state = read_state(run)
    tasks: list[AnyTask] = []
    lost = []
    for task_id, member in state.active.items():
        try:
            task = state.task(task_id)
        except LostVariant:
            lost.append(task_id)
            continue
        origin = "variant" if member.generated else "original"
        provenance = {**task.provenance, "origin": origin, "forked_from": run.name}
        tasks.append(dataclasses.replace(task, provenance=provenance))
    tasks, ids, left_out = renewed([*tasks, *run.held_out], run.environments)
    parent = {
        "run": run.name,
        "path": str(run.path.absolute()),
        "identity_hash": run.manifest.get("identity_hash"),
        "attempt": state.attempt,
        "epoch": state.epoch,
        "step": state.pool.epochs[-1].step if state.pool.epochs else 0,
        "lost": lost,
        "renewed": ids,
        "left_out": left_out,
    }
    try:
        return create_run(new, config or run.config, tasks, parent, [run.path])
    except UserError as error:
        if not left_out:
            raise
        reasons = Counter(task["why"] for task in left_out).most_common()
        words = "; ".join(f"{count} × {why}" for why, count in reasons)
        raise UserError(
            f"{error.what}, and {len(left_out)} are left out, which hold no more: {words}",
            where=error.where,
            remedy=error.remedy,
        ) from error


def renewed(
    tasks: Sequence[AnyTask], environments: Environments
) -> tuple[list[AnyTask], dict[str, str], list[JsonObject]]:
    """`tasks` for the worlds as they are installed, the new ids of those that were written for
    others, and what holds no more: its `task`, `split`, `origin` and `why`. Raises
    InfrastructureError where a world broke."""
    kept: list[AnyTask] = []
    ids: dict[str, str] = {}
    left_out: list[JsonObject] = []
    for task in tasks:
        world = environments.load(task.environment.name)
        if reference(world) != task.environment:
            old = task
            needed = {call.name for call in old.goal_calls}.union(*old.later_tools.values())
            there = tuple(name for name in old.tools if name in needed.union(world.tools()))
            task = dataclasses.replace(old, environment=reference(world), tools=there, id="")
            if why := unheld(world, task):
                origin = old.provenance.get("origin", "original")
                about = {"task": old.id, "split": old.split, "origin": origin, "why": str(why[0])}
                left_out.append(about)
                continue
            ids[old.id] = task.id
        kept.append(task)
    for place, task in enumerate(kept):
        family = {
            name: ids.get(relative, relative)
            for name, relative in only(task.provenance, ("seed", "root")).items()
        }
        kept[place] = dataclasses.replace(task, provenance={**task.provenance, **family})
    return kept, ids, left_out
