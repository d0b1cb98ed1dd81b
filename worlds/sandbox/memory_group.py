"""A memory cgroup for the confined processes of this program, where this user may make one. It
counts what the kernel keeps for them as well (maps, sockets, page tables), which no limit of a
process does (docs/sandbox.md)."""

import contextlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# bytes a process beside its memory limit: what the kernel was seen to keep for one
KERNEL = 32 << 20
_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_NAME = "rods-sandbox-"  # and the number of the process that made it


@cache
def joining(most: int) -> tuple[str, ...]:
    """The command to put before a confined process's: the process begins in this program's group,
    all of which may take `most` bytes together. Empty where no group can be made."""
    group = make(_ROOT, _OWN, most)
    return (
        ()
        if group is None
        else ("/bin/sh", "-c", 'echo 0 > "$0" && exec "$@"', str(group / "cgroup.procs"))
    )


def make(root: Path, own: Path, most: int) -> Path | None:
    """Makes the group in the tree of cgroups at `root`; `own` is the file that says where this
    process stands. Groups of programs that have ended are removed: only an empty one can be. None
    where that is not possible."""
    with contextlib.suppress(OSError):
        for place, limit in _places(root, own.read_text()):
            with contextlib.suppress(OSError):
                for old in place.glob(_NAME + "*"):
                    if not Path(f"/proc/{old.name.removeprefix(_NAME)}").exists():
                        with contextlib.suppress(OSError):
                            old.rmdir()
                group = place / f"{_NAME}{os.getpid()}"
                group.mkdir(exist_ok=True)
                (group / limit).write_text(str(most))
                return group
    return None


def _places(root: Path, own: str) -> Iterator[tuple[Path, str]]:
    """Where a group could be made, and its file for the limit. In version 2 a group with processes
    in it has no group below it that counts memory; so that is one beside this process's, which a
    user may make where the tree was handed over to them (systemd for a login, Slurm for a job)."""
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield root / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
        elif not controllers:
            here = root / path.lstrip("/")
            for place in (here, here.parent):
                counted = place / "cgroup.subtree_control"
                if (
                    place.is_relative_to(root)
                    and counted.is_file()
                    and "memory" in counted.read_text().split()
                ):
                    yield place, "memory.max"
