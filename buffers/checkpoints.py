"""Checkpoints: a folder each, `checkpoints/step_<step>.a<attempt>/`, with `policy/` and a manifest.

A checkpoint counts only once its manifest exists, names every policy file with its SHA-256, and all
of them match. It is written into a temporary folder, every file fsynced, the manifest last, and
then renamed. What does not count (torn by a kill, or damaged later) is moved to
`checkpoints/incomplete/` and never deleted. It may be resumed only while its (attempt, step) is
live: no later start went back beyond it.

Kept are step 0 (the untrained policy, which evaluation compares with) and the newest few.

`truncations` finds logs that do not reach as far as checkpoints and other logs know of them: one
that was emptied, removed or cut at a record looks sound. What is missing then is for a person to
decide about, so every start compares, and `rods verify` does.
"""

import errno
import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

import orjson

from rods.buffers.folds.observations import Observations
from rods.buffers.folds.seeds import Seeds
from rods.buffers.folds.slot_sources import sources
from rods.buffers.log.disk import free_name, fsync, replace as replace_file
from rods.buffers.log.parts import last_of
from rods.buffers.log.record_bytes import LOST, Record
from rods.buffers.log.shapes import fault_of
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import (
    CHECKPOINTS,
    EXPANDED,
    EXTENSIONS,
    OBSERVATIONS,
    POOL,
    SEEDS,
    operation,
)
from rods.canonical import JsonMapping, frozen
from rods.errors import RefusedError, UserError
from rods.files import explained, read_regular

KEEP = 3
MANIFEST = "manifest.json"
POLICY = "policy"
INCOMPLETE = "incomplete"
PART = ".part"
ADOPTED = "adopted.json"  # in a policy's folder: another run has trained it
# what trainer/sharding.py, which needs torch, calls these
OPTIMIZER = ("optimizer.pt", "deepspeed")

NUMBERS = ("attempt", "step", "epoch", "cursor", "pool_seq")
FAULT = fault_of({**dict.fromkeys(NUMBERS, "whole"), "files": {"*": "text"}})  # of a manifest

# live(attempt, step): whether the fold of the observations still has it
Live = Callable[[int, int], bool]


@frozen
class Position:
    """Where a run stands between two rollout batches.

    `cursor` counts the epoch's steps already taken; `order_hash` and `pool_seq` are those of the
    epoch's record (empty and 0 before there is one); `curriculum` holds the stage and what its
    transitions need; `random` names the keyed random seeds, which are all the chance outside the
    policy's own files.
    """

    attempt: int
    step: int
    epoch: int
    cursor: int
    order_hash: str
    pool_seq: int
    curriculum: JsonMapping = field(default_factory=dict)
    random: Mapping[str, int] = field(default_factory=dict)


UNSTARTED = Position(attempt=0, step=0, epoch=0, cursor=0, order_hash="", pool_seq=0)


@frozen
class Checkpoint:
    """A folder whose manifest exists. `files` maps the policy's files to their hashes."""

    folder: Path
    position: Position
    files: Mapping[str, str]

    @property
    def policy(self) -> Path:
        return self.folder / POLICY

    def manifest(self) -> bytes:
        return orjson.dumps(
            {**asdict(self.position), "files": self.files}, option=orjson.OPT_INDENT_2
        )

    def noted(self) -> dict[str, str]:
        """What a `checkpoint` record says: the folder, and the SHA-256 of the manifest that names
        the files there."""
        return {"folder": self.folder.name, "manifest": hashlib.sha256(self.manifest()).hexdigest()}

    def intact(self) -> bool:
        """Whether every file is as it was written; takes about a second a gigabyte."""
        return all(
            (self.policy / name).is_file() and _sha256(self.policy / name) == digest
            for name, digest in self.files.items()
        )


class Checkpoints:
    """The checkpoints of one run. One process at a time writes here: the owner of the trainer's
    log."""

    def __init__(self, run_folder: Path) -> None:
        self.folder = run_folder / CHECKPOINTS

    def named(self, live: Live) -> list[Checkpoint]:
        """All live checkpoints with a manifest, by step and attempt; their files are not hashed."""
        checkpoints = [item for folder in self._folders() if (item := _read(folder)) is not None]
        alive = [item for item in checkpoints if live(item.position.attempt, item.position.step)]
        return sorted(alive, key=lambda item: (item.position.step, item.position.attempt))

    def unreadable(self) -> list[str]:
        """Folders whose manifest is there, and is none or that of another folder. No kill leaves
        that: a manifest is durable before its folder has its name, and the first thing of it to
        go."""
        named = (folder for folder in self._folders() if not folder.name.endswith(PART))
        return [
            folder.name
            for folder in named
            if (folder / MANIFEST).exists() and _read(folder) is None
        ]

    def recorded(self) -> dict[str, object]:
        """Folder → hash of its manifest, as the trainer recorded it last; empty where that log
        cannot be read."""
        with suppress(OSError, UserError):
            records = [
                each
                for each in read(self.folder.parent / operation("trainer"))
                if each["kind"] == "checkpoint"
            ]
            return {str(each.get("folder")): each.get("manifest") for each in records}
        return {}

    def newest(self, live: Live) -> Checkpoint | None:
        """The newest live checkpoint that is intact. Changes nothing."""
        return next((item for item in reversed(self.named(live)) if item.intact()), None)

    def set_aside(self, live: Live, resumed: Checkpoint | None) -> list[Path]:
        """Moves to `incomplete/` what is torn, and the live checkpoints beyond the `resumed` one,
        which are damaged. Returns their new places. Raises UserError where that is the policy that
        a fork was to begin with."""
        torn = [folder for folder in self._folders() if _read(folder) is None]
        reached = -1 if resumed is None else resumed.position.step
        damaged = [item.folder for item in self.named(live) if item.position.step > reached]
        adopted = [
            folder
            for folder in torn + damaged
            if folder.name.removesuffix(PART) == _name(UNSTARTED)
        ]
        if resumed is None and adopted:
            raise UserError(
                "the policy that this run took over is torn or damaged, and without it another "
                "would be trained",
                where=adopted[0],
                remedy="make the fork again",
            )
        places = []
        for folder in torn + damaged:
            target = free_name(self.folder / INCOMPLETE / folder.name, 2)
            target.parent.mkdir(exist_ok=True)
            places.append(folder.rename(target))
        return places

    def write(self, position: Position, save: Callable[[Path], object]) -> Checkpoint:
        """Makes a checkpoint durable; `save` fills its policy folder. Raises UserError when the
        disk refuses, or has less room than an earlier checkpoint takes."""
        final = self.folder / _name(position)
        temporary = final.with_name(final.name + PART)
        remedy = "make room or make the folder writable, then start the same command again"
        with explained("cannot write a checkpoint", temporary, remedy):
            for folder in (self.folder, temporary, temporary / POLICY):
                # the run folder itself may have been moved
                folder.mkdir(exist_ok=folder != temporary / POLICY)
            self._fill(temporary / POLICY, save)
            files = {}
            for path in sorted((temporary / POLICY).rglob("*")):
                fsync(path)
                if path.is_file():
                    files[str(path.relative_to(temporary / POLICY))] = _sha256(path)
            fsync(temporary / POLICY)
            checkpoint = Checkpoint(final, position, files)
            (temporary / MANIFEST).write_bytes(checkpoint.manifest())
            fsync(temporary / MANIFEST)
            fsync(temporary)
            temporary.rename(final)
            fsync(self.folder)
        return checkpoint

    def _fill(self, folder: Path, save: Callable[[Path], object]) -> None:
        """Has `save` fill the new `folder`; of half of it nothing is left. Raises OSError for too
        little room."""
        sizes = (sum(path.lstat().st_size for path in old.rglob("*")) for old in self._folders())
        if (needed := max(sizes, default=0)) > (free := shutil.disk_usage(folder).free):
            raise OSError(errno.ENOSPC, f"one takes {needed:,} bytes, and {free:,} are free")
        try:
            save(folder)
        except Exception:
            shutil.rmtree(folder, ignore_errors=True)  # it is of no use, and logs may need the room
            raise

    def amend(self, checkpoint: Checkpoint, curriculum: Mapping[str, Any]) -> Checkpoint:
        """Gives a checkpoint another curriculum state; its files stay. Raises UserError when the
        disk refuses."""
        amended = replace(checkpoint, position=replace(checkpoint.position, curriculum=curriculum))
        replace_file(amended.folder / MANIFEST, amended.manifest())
        return amended

    def adopt(self, source: Checkpoint) -> Checkpoint:
        """Makes another run's policy the untrained policy of this one, which has not been started
        yet (a fork with `--weights`). The optimizer's state is left out: it holds the learning
        rate, and this run may have another optimizer."""

        def copied(folder: Path) -> None:
            shutil.copytree(
                source.policy, folder, ignore=shutil.ignore_patterns(*OPTIMIZER), dirs_exist_ok=True
            )
            (folder / ADOPTED).write_bytes(orjson.dumps({"checkpoint": str(source.folder)}))

        return self.write(UNSTARTED, copied)

    def prune(self, live: Live, keep: int = KEEP) -> None:
        """Deletes checkpoints that are no longer live, and live ones beyond step 0 and the newest
        `keep`. The manifest goes first, so that a kill in between leaves nothing that counts."""
        alive = self.named(live)
        staying = {item.folder for item in alive if item.position.step == 0} | {
            item.folder for item in alive[-keep:]
        }
        for folder in self._folders():
            if folder not in staying and _read(folder) is not None:
                (folder / MANIFEST).unlink()
                shutil.rmtree(folder)

    def _folders(self) -> list[Path]:
        return sorted(
            path for path in self.folder.glob("*") if path.is_dir() and path.name != INCOMPLETE
        )


def _name(position: Position) -> str:
    return f"step_{position.step:08d}.a{position.attempt}"


def _read(folder: Path) -> Checkpoint | None:
    """The checkpoint that `folder`'s manifest describes; None without a readable manifest of its
    own."""
    if folder.name.endswith(PART):
        return None
    try:
        record = orjson.loads(read_regular(folder / MANIFEST))
        if FAULT(record):
            return None
        files = record.pop("files")
        checkpoint = Checkpoint(folder, Position(**record), files)
        return checkpoint if _name(checkpoint.position) == folder.name else None
    except (OSError, ValueError, TypeError, UserError):
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


Truncation = tuple[str, str]  # a log that ends before what is known of it, and that in words


def truncations(run: Run) -> list[Truncation]:
    """Of all logs of `run`, those that have lost their ends. What is known of a log is read before
    the log, so that a run may go on meanwhile."""
    checkpoints = _known(run)
    pool = last_of(run.path / POOL)
    variant = last_of(run.path / EXPANDED)
    seeds = Seeds(run.path)
    observations = Observations(run, every_step=False)
    seeds.poll()
    observations.catch_up()
    return [
        *_trainers(run, observations, checkpoints, pool),
        *_daemons(run, seeds.last_considered, pool, variant),
    ]


def check_fork(run: Run) -> None:
    """Raises RefusedError when a log that tells who is active has lost its end."""
    _refuse(run, [cut for cut in truncations(run) if cut[0] != SEEDS])


def check_trainers(run: Run, observations: Observations) -> None:
    """Raises RefusedError when a log that the trainer writes has lost its end. For the owner of the
    observations."""
    _refuse(run, [*_trainers(run, observations, _known(run), last_of(run.path / POOL))])


def check_daemons(run: Run, considered: int) -> None:
    """Raises RefusedError when a log that the daemon writes has lost its end. For the owner of
    seeds.jsonl, of whose steps `considered` is the last one considered."""
    _refuse(
        run, [*_daemons(run, considered, last_of(run.path / POOL), last_of(run.path / EXPANDED))]
    )


def _refuse(run: Run, cut: list[Truncation]) -> None:
    if cut:
        raise RefusedError(
            "; ".join(what for _, what in cut),
            where=run.path / cut[0][0],
            remedy="it was emptied, removed or cut: put it back from a copy, or begin a new run",
        )


def _known(run: Run) -> list[Checkpoint]:
    return Checkpoints(run.path).named(lambda attempt, step: True)


def _extensions(curriculum: Any) -> int:
    """The extensions that a checkpoint knows of; 0 where its manifest is nonsense, which its reader
    will say."""
    number = curriculum.get("extensions", 0) if isinstance(curriculum, Mapping) else 0
    return number if isinstance(number, int) else 0


def _trainers(
    run: Run, observations: Observations, checkpoints: Sequence[Checkpoint], pool: Record | None
) -> Iterator[Truncation]:
    extended = max(
        (_extensions(checkpoint.position.curriculum) for checkpoint in checkpoints), default=0
    )
    if extended > run.times_extended:
        yield (
            EXTENSIONS,
            f"it ends at extension {run.times_extended}, but a checkpoint knows of {extended}",
        )
    end = last_of(run.path / OBSERVATIONS)
    if end is None or end["kind"] != LOST:  # after `rods recover` the end is what was agreed to
        ends = [
            (saved.position.attempt, saved.position.step, f"checkpoint {saved.folder.name}")
            for saved in checkpoints
        ]
        if pool is not None and pool["kind"] != LOST:
            ends.append((pool["attempt"], pool["step"], f"record {pool['seq']} of {POOL}"))
        attempt, step, who = max(ends, default=(0, 0, ""))
        start = observations.attempt
        last = observations.last_step
        if (attempt, step) > (start, last):
            yield (
                OBSERVATIONS,
                f"it ends at step {last} of start {start}, but {who} knows of step {step} of start "
                f"{attempt}",
            )
    for slots, source in sources(run):
        if what := source.lacking(slots, observations):
            yield source.log, what
    seq = 0 if pool is None else pool["seq"]
    last, name = max(
        ((saved.position.pool_seq, saved.folder.name) for saved in checkpoints), default=(0, "")
    )
    if last > seq:
        yield POOL, f"it ends at record {seq}, but checkpoint {name} knows of record {last}"


def _daemons(
    run: Run, considered: int, pool: Record | None, variant: Record | None
) -> Iterator[Truncation]:
    named = 0 if pool is None else pool.get("expanded_seq", 0)
    seq = 0 if variant is None else variant["seq"]
    if named > seq:
        yield (
            EXPANDED,
            f"it ends at record {seq}, but a merge of {POOL} has read up to record {named}",
        )
    end = last_of(run.path / SEEDS)
    agreed = end is not None and end["kind"] == LOST
    if (
        variant is not None
        and variant["kind"] != LOST
        and variant["step"] > considered
        and not agreed
    ):
        yield (
            SEEDS,
            f"it has considered step {considered}, but variant {seq} was written for step "
            f"{variant['step']}",
        )
