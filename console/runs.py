"""Runs by name, as the page, `rods ls` and `rods compare` know them; and the state of one in a word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rods.buffers.run import runfolder
from rods.console.progress import ProgressSample
from rods.errors import UserError


def find_runs(given: Sequence[Path]) -> dict[str, Path]:
    """Name → folder of the runs `given`, and of those in the folders that are none, the latest first. Runs of one name
    are told apart by a number. Raises UserError for what is no folder."""
    folders: set[Path] = set()
    for path in given:
        if not path.is_dir():
            raise UserError("is no folder", where=str(path), remedy="name run folders, or a folder that holds some")
        below = [path] if runfolder.exists(path) else filter(runfolder.exists, path.iterdir())
        folders |= {folder.resolve() for folder in below}
    named: dict[str, Path] = {}
    for folder in sorted(folders, key=lambda folder: ((folder / runfolder.MANIFEST).stat().st_mtime, folder)):
        name, number = folder.name, 1
        while name in named:
            number += 1
            name = f"{folder.name}~{number}"
        named[name] = folder
    return dict(reversed(named.items()))


def condition(step: int, steps: int, life: str) -> str:
    """The state of a run whose last step is `step` of `steps`, and whose trainer's life is `life`
    (rods.buffers.run.heartbeat)."""
    if life in ("running", "idle", "stuck"):
        return "being written" if life != "stuck" else "stuck"
    if step >= steps:
        return "finished"
    if life == "dead":
        return "crashed"
    return "stopped" if step else "empty"


def standing(sample: ProgressSample) -> dict[str, Any]:
    """What `rods status --json` and the page say of a sample."""
    return {name: value for name, value in sample.as_json().items() if name not in ("seconds_per_step", "finished")}
