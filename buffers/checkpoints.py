"""Checkpoints: a folder each, `checkpoints/step_<step>.a<attempt>/`, with `policy/` and a manifest.

A checkpoint counts only once its manifest exists, names every policy file with its SHA-256, and all of them match. It
is written into a temporary folder, every file fsynced, the manifest last, and then renamed. What does not count (torn
by a kill, or damaged later) is moved to `checkpoints/incomplete/` and never deleted. It may be resumed only while its
(attempt, step) is live: no later start went back beyond it.

Kept are step 0 (the untrained policy, which evaluation compares with) and the newest few.
"""

from __future__ import annotations

import hashlib
import operator
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from buffers.log.disk import replace as replace_file
from rods.errors import UserError
from rods.files import read_regular

KEEP = 3
MANIFEST = "manifest.json"
POLICY = "policy"
INCOMPLETE = "incomplete"
PART = ".part"
ADOPTED = "adopted.json"  # in a policy's folder: another run has trained it
OPTIMIZER = ("optimizer.pt", "deepspeed")  # what trainer/sharding.py, which needs torch, calls these

Live = Callable[[int, int], bool]  # live(attempt, step): whether the fold of the observations still has it


@dataclass(frozen=True, slots=True)
class Position:
    """Where a run stands between two rollout batches.

    `cursor` counts the epoch's steps already taken; `order_hash` and `pool_seq` are those of the epoch's record (empty
    and 0 before there is one); `curriculum` holds the stage and what its transitions need; `random` names the keyed
    random seeds, which are all the chance outside the policy's own files.
    """

    attempt: int
    step: int
    epoch: int
    cursor: int
    order_hash: str
    pool_seq: int
    curriculum: Mapping[str, Any] = field(default_factory=dict)
    random: Mapping[str, int] = field(default_factory=dict)


UNSTARTED = Position(attempt=0, step=0, epoch=0, cursor=0, order_hash="", pool_seq=0)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder whose manifest exists. `files` maps the policy's files to their hashes."""

    folder: Path
    position: Position
    files: Mapping[str, str]

    @property
    def policy(self) -> Path:
        return self.folder / POLICY

    def intact(self) -> bool:
        """Whether every file is as it was written; takes about a second a gigabyte."""
        return all(
            (self.policy / name).is_file() and _sha256(self.policy / name) == digest
            for name, digest in self.files.items()
        )


class Checkpoints:
    """The checkpoints of one run. One process at a time writes here: the owner of the trainer's log."""

    def __init__(self, run_folder: Path) -> None:
        self.folder = run_folder / "checkpoints"

    def named(self, live: Live) -> list[Checkpoint]:
        """All live checkpoints with a manifest, by step and attempt; their files are not hashed."""
        found = [item for folder in self._folders() if (item := _read(folder)) is not None]
        alive = [item for item in found if live(item.position.attempt, item.position.step)]
        return sorted(alive, key=lambda item: (item.position.step, item.position.attempt))

    def newest(self, live: Live) -> Checkpoint | None:
        """The newest live checkpoint that is intact. Changes nothing."""
        return next((item for item in reversed(self.named(live)) if item.intact()), None)

    def set_aside(self, live: Live, resumed: Checkpoint | None) -> list[Path]:
        """Moves to `incomplete/` what is torn, and the live checkpoints beyond the `resumed` one, which are damaged.
        Returns their new places. Raises UserError where that is the policy that a fork was to begin with."""
        torn = [folder for folder in self._folders() if _read(folder) is None]
        reached = -1 if resumed is None else resumed.position.step
        damaged = [item.folder for item in self.named(live) if item.position.step > reached]
        adopted = [folder for folder in torn + damaged if folder.name.removesuffix(PART) == _name(UNSTARTED)]
        if resumed is None and adopted:
            raise UserError(
                "the policy that this run took over is torn or damaged, and without it another would be trained",
                where=str(adopted[0]),
                remedy="make the fork again",
            )
        moved = []
        for folder in torn + damaged:
            target, number = self.folder / INCOMPLETE / folder.name, 1
            while target.exists():
                number += 1
                target = target.with_name(f"{folder.name}.{number}")
            target.parent.mkdir(exist_ok=True)
            folder.rename(target)
            moved.append(target)
        return moved

    def write(self, position: Position, save: Callable[[Path], object]) -> Checkpoint:
        """Makes a checkpoint durable; `save` fills its policy folder. Raises UserError when the disk refuses."""
        final = self.folder / _name(position)
        temporary = final.with_name(final.name + PART)
        try:
            for folder in (self.folder, temporary, temporary / POLICY):
                folder.mkdir(exist_ok=folder != temporary / POLICY)  # the run folder itself may have been moved
            save(temporary / POLICY)
            files = {}
            for path in sorted((temporary / POLICY).rglob("*")):
                _fsync(path)
                if path.is_file():
                    files[str(path.relative_to(temporary / POLICY))] = _sha256(path)
            _fsync(temporary / POLICY)
            manifest = temporary / MANIFEST
            manifest.write_bytes(orjson.dumps({**asdict(position), "files": files}, option=orjson.OPT_INDENT_2))
            _fsync(manifest)
            _fsync(temporary)
            temporary.rename(final)
            _fsync(self.folder)
        except OSError as error:
            raise UserError(
                f"cannot write a checkpoint ({error.strerror})",
                where=str(temporary),
                remedy="make room or make the folder writable, then start the same command again",
            ) from error
        return Checkpoint(final, position, files)

    def amend(self, checkpoint: Checkpoint, curriculum: Mapping[str, Any]) -> Checkpoint:
        """Gives a checkpoint another curriculum state; its files stay. Raises UserError when the disk refuses."""
        position = replace(checkpoint.position, curriculum=curriculum)
        content = {**asdict(position), "files": checkpoint.files}
        replace_file(checkpoint.folder / MANIFEST, orjson.dumps(content, option=orjson.OPT_INDENT_2))
        return Checkpoint(checkpoint.folder, position, checkpoint.files)

    def adopt(self, source: Checkpoint) -> Checkpoint:
        """Makes another run's policy the untrained policy of this one, which has not been started yet (a fork with
        `--weights`). The optimizer's state is left out: it holds the learning rate, and this run may have another
        optimizer."""

        def copied(folder: Path) -> None:
            left = shutil.ignore_patterns(*OPTIMIZER)
            shutil.copytree(source.policy, folder, ignore=left, dirs_exist_ok=True)
            (folder / ADOPTED).write_bytes(orjson.dumps({"checkpoint": str(source.folder)}))

        return self.write(UNSTARTED, copied)

    def prune(self, live: Live, keep: int = KEEP) -> None:
        """Deletes checkpoints that are no longer live, and live ones beyond step 0 and the newest `keep`. The manifest
        goes first, so that a kill in between leaves nothing that counts."""
        alive = self.named(live)
        kept = {item.folder for item in alive if item.position.step == 0} | {item.folder for item in alive[-keep:]}
        for folder in self._folders():
            if folder not in kept and _read(folder) is not None:
                (folder / MANIFEST).unlink()
                shutil.rmtree(folder)

    def _folders(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if path.is_dir() and path.name != INCOMPLETE)


def _name(position: Position) -> str:
    return f"step_{position.step:08d}.a{position.attempt}"


def _read(folder: Path) -> Checkpoint | None:
    """The checkpoint that `folder`'s manifest describes; None without a readable manifest."""
    if folder.name.endswith(PART):
        return None
    try:
        record = orjson.loads(read_regular(folder / MANIFEST))
        files, position = dict(record.pop("files")), Position(**record)
        for name in ("attempt", "step", "epoch", "cursor", "pool_seq"):
            operator.index(getattr(position, name))
        return Checkpoint(folder, position, {str(name): str(digest) for name, digest in files.items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UserError):
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
