"""Checkpoints: swapped for one another, flipped at every byte, and taken on disks that are too
small for them."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import orjson

from rods.buffers.checkpoints import Checkpoint, Checkpoints
from rods.console.verbs.verify import checked
from rods.errors import UserError
from tests.buffers.test_checkpoints import at, saving
from tests.console.test_swapped_checkpoint import SWAPS, checkpoints
from tests.faults.forge import Forge
from tests.faults.small_disk import NAMESPACE, empty, enlarge
from tests.faults.table import Row
from tests.faults.workloads import Verdict, Workload
from tests.trainer.full_disk import SIZE, WRITERS

STEP = 256 << 10  # bytes by which disks grow
MODULE = "tests.faults.checkpoint_sweeps"


def swapped(workload: Workload, share: int = 1) -> Row:
    """Every checkpoint, in every way, for every other one of the run."""
    row = Row("a checkpoint swapped for another one of its run")
    number = itertools.count()
    names = [folder.name for folder in checkpoints(workload.whole)]
    for newer, older in itertools.permutations(names, 2):
        for swap in SWAPS:
            if next(number) % share:
                continue
            folder = workload.scratch / "swapped" / "run"
            shutil.copytree(workload.whole, folder)
            swap(folder / "checkpoints" / older, folder / "checkpoints" / newer)
            if _contents(folder / "checkpoints" / newer) != _contents(
                workload.whole / "checkpoints" / newer
            ):
                row.add(f"{swap.__name__}, {older} as {newer}", _named(folder, newer))
            shutil.rmtree(folder.parent)
    return row


def flipped(workload: Workload, share: int = 1) -> Row:
    """One bit of every byte of every file of a checkpoint, its manifest among them."""
    row = Row("a flipped bit at every byte of a checkpoint")
    folder = workload.scratch / "flipped" / "run"
    shutil.copytree(workload.whole, folder)
    newest = checkpoints(folder)[-1]
    for file in sorted(path for path in newest.rglob("*") if path.is_file()):
        data = file.read_bytes()
        for place in range(0, len(data), share):
            file.write_bytes(
                data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :]
            )
            row.add(f"{file.name}, byte {place}", _named(folder, newest.name))
        file.write_bytes(data)
    shutil.rmtree(folder.parent)
    return row


def _contents(folder: Path) -> dict[str, object]:
    """By file; a manifest counts by what it says, since two checkpoints may hold the same
    policy."""
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return files | {"manifest.json": orjson.loads(files["manifest.json"])}


def _named(run: Path, checkpoint: str) -> Verdict:
    """Verifying has to name it."""
    problems = checked(run).problems
    found = any(problem["where"] == f"checkpoint {checkpoint}" for problem in problems)
    return Verdict(wrong=[] if found else [f"verify says {problems}"])


def full_disk(library: str, scratch: Path, share: int = 1) -> Row:
    """A checkpoint by a library that writes policies, on disks of growing size until it fits: one
    line with the reason, no half left, the earlier checkpoint as it was; and once there is room it
    is taken."""
    row = Row(f"a checkpoint on a disk of every size in 256 KiB: {library}")
    disk = scratch / "disk"
    size = 2 * SIZE // 4 + STEP
    disk.mkdir(exist_ok=True)
    with Forge(*NAMESPACE) as forge:
        while True:
            end = forge.run(f"{MODULE}:taken", disk, size, library)
            wrong = (
                [f"ends with {end.code}: {end.errors[-1500:]}"]
                if end.code
                else list(end.returned["wrong"])
            )
            row.add(f"{size >> 10} KiB", Verdict(wrong=wrong))
            if end.code or end.returned["fits"]:
                return row
            size += share * STEP


def taken(disk: Path, size: int, library: str) -> dict[str, object]:
    """Mounts a tmpfs of `size` bytes and takes checkpoints there, the second with `library`."""
    empty(disk, size)
    checkpoints = Checkpoints(disk)
    wrong = list[str]()
    first = checkpoints.write(at(0), saving("x" * (SIZE // 4)))
    try:
        fits = _whole(checkpoints.write(at(1), WRITERS[library]))
    except UserError as error:
        fits = False
        if "cannot write a checkpoint (" not in str(error) or "\n" in str(error):
            wrong.append(f"it says {error}")
        left = sum(path.stat().st_size for path in checkpoints.folder.rglob("*") if path.is_file())
        if left > SIZE // 2:
            wrong.append(f"{left} bytes are left of it")
        enlarge(disk)
        if not _whole(checkpoints.write(at(2), WRITERS[library])):
            wrong.append("it is not whole once there is room")
    if not _whole(first) or checkpoints.named(lambda attempt, step: step == 0) != [first]:
        wrong.append("the earlier checkpoint is not as it was")
    return {"fits": fits, "wrong": wrong}


def _whole(checkpoint: Checkpoint) -> bool:
    return bool(checkpoint.files) and checkpoint.intact()
