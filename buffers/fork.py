"""A new run from another one's originals and active variants: new tasks.jsonl, empty logs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from buffers.ends import check_fork
from buffers.run.creation import create_run
from buffers.run.run import Run
from buffers.run.runfolder import exists
from buffers.state import LostVariant, read_state
from rods.config import Config
from rods.errors import UserError
from rods.tasks import AnyTask


def fork(run: Run, new: Path, config: Config | None = None) -> Run:
    """Creates `new` from the state of `run` behind its latest merge; `config` gives it another identity.

    Held-out tasks come along. Every training task's provenance gains `origin` (original or variant) and `forked_from`;
    variants stay variants there: they may retire, and count as generated. A variant whose record was lost to damage
    stays behind, named in the manifest.
    """
    if exists(new):
        raise UserError("is a run folder already", where=str(new), remedy="choose another name")
    check_fork(run)
    state = read_state(run)
    tasks, lost = [], []
    for task_id, member in state.active.items():
        try:
            tasks.append(_came_from(run, state.task(task_id), member.generated))
        except LostVariant:
            lost.append(task_id)
    parent = {
        "run": run.name,
        "path": str(run.path.absolute()),
        "identity_hash": run.manifest.get("identity_hash"),
        "attempt": state.attempt,
        "epoch": state.epoch,
        "step": state.pool.epochs[-1].step if state.pool.epochs else 0,
        "lost": lost,
    }
    return create_run(new, config or run.config, tasks + run.held_out, parent, [run.path])


def _came_from(run: Run, task: AnyTask, generated: bool) -> AnyTask:
    provenance: dict[str, Any] = {
        **task.provenance,
        "origin": "variant" if generated else "original",
        "forked_from": run.name,
    }
    return dataclasses.replace(task, provenance=provenance)
