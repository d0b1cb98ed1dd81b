"""What a folder's file system gives a run: locks, renames, time to the disk, room (`rods doctor
RUN`).

Every answer is tried out in the folder itself, in a temporary one that is removed. From one machine
it cannot be seen whether locks reach others; the answer says what a run then rests on.
"""

import fcntl
import os
import shutil
import statistics
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from rods.errors import Finding, UserError, disk_error

NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "9p", "fuse.sshfs"}
)
VOLATILE = frozenset({"tmpfs", "ramfs"})
ENOUGH = 1_000_000_000  # bytes free
SLOW = 0.05  # seconds a sync
SYNCS = 15


def check_folder(folder: Path) -> list[Finding]:
    """Tries out the file system of `folder`. Raises UserError where nothing can be written
    there."""
    try:
        place = tempfile.TemporaryDirectory(dir=folder, prefix=".probe.")
    except OSError as error:
        problem = disk_error(error, folder)
        return [
            Finding(
                "writing", False, problem.what if isinstance(problem, UserError) else str(problem)
            )
        ]
    with place as inside:
        tried = [probe(Path(inside)) for probe in (_locks, _syncs)]
        return [_kind(folder), *tried, _room(folder)]


def _kind(folder: Path) -> Finding:
    name = _mounted(folder)
    if name in VOLATILE:
        return Finding(
            "file system", None, f"{name}: nothing outlives a reboot", "put the run on a disk"
        )
    if name in NETWORK:
        return Finding(
            "file system",
            None,
            f"{name}, a network file system: what is special about these was only simulated in the "
            "project's tests (bytes and names that arrive late, no flock, locks of lost machines)",
            "run trainer and daemon on one machine if you can",
        )
    return Finding("file system", True, f"{name}, of this machine")


def _locks(inside: Path) -> Finding:
    """Two openings of one file exclude each other, and a closed one gives the lock back."""
    path = inside / "lock"
    with path.open("w") as first, path.open("w") as other:
        try:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return Finding(
                    "locks",
                    False,
                    "two processes get the same lock at once",
                    "use another file system",
                )
            first.close()
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            text = (
                f"there is no flock here ({error.strerror}): heartbeats alone keep a second "
                f"process out"
            )
            return Finding(
                "locks", None, text, "never start two trainers or two daemons at the same moment"
            )
    return Finding(
        "locks",
        True,
        "flock excludes and is given back; whether other machines see it, heartbeats tell",
    )


def _syncs(inside: Path) -> Finding:
    taken = []
    with (inside / "log").open("ab", buffering=0) as log:
        for _ in range(SYNCS):
            began = time.perf_counter()
            log.write(bytes(4096))
            os.fdatasync(log.fileno())
            taken.append(time.perf_counter() - began)
    median = statistics.median(taken)
    text = f"4 kB are on the disk after {median * 1000:.2f} ms, at worst {max(taken) * 1000:.1f} ms"
    if median > SLOW:
        return Finding(
            "fsync",
            None,
            f"{text}: every step and every variant waits for that",
            "use a faster disk",
        )
    return Finding("fsync", True, text)


def _room(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    text = f"{free / 1e9:.1f} GB free"
    return (
        Finding("room", True, text)
        if free >= ENOUGH
        else Finding("room", None, text, "free some space")
    )


def _mounted(folder: Path) -> str:
    """The type of the file system that holds `folder`; "unknown" where the system does not say."""
    wanted = folder.resolve()
    best = 0
    kind = "unknown"
    with suppress(OSError):
        for line in (
            Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
        ):
            _, mount, name, *_ = line.split()
            point = Path(mount.replace("\\040", " "))
            if wanted.is_relative_to(point) and len(point.parts) >= best:
                best = len(point.parts)
                kind = name
    return kind
