"""A real file system that is too small: a tmpfs in a mount namespace, which most systems let
anybody make.

The forge lives in the namespace, so nothing outside sees the disk; what must be looked at is looked
at in there.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from rods.errors import EXIT_OK, EXIT_USER
from tests.faults.forge import Forge
from tests.faults.table import Row
from tests.faults.workloads import Workload

NAMESPACE = ("unshare", "-rm")
PAGE = 4096
MODULE = "tests.faults.small_disk"


def possible() -> bool:
    """Whether a tmpfs can be mounted here."""
    if shutil.which("unshare") is None:
        return False
    return (
        subprocess.run(
            [*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True
        ).returncode
        == 0
    )


def full_tmpfs(workload: Workload, share: int = 1) -> Row:
    """The workload on disks of growing size, page by page, until it fits; each is then enlarged,
    and the program started again."""
    row = Row(f"a full tmpfs of every size in pages: {workload.program}")
    disk = workload.scratch / f"{workload.program}.disk"
    disk.mkdir(exist_ok=True)
    with Forge(*NAMESPACE) as forge:
        used = forge.run(f"{MODULE}:mount", disk, 64 << 20, str(workload.template)).returned
        size = used + PAGE
        while True:
            forge.run(f"{MODULE}:mount", disk, size, str(workload.template))
            end = forge.run(workload.function, disk / "run")
            forge.run(f"{MODULE}:enlarge", disk)
            verdict = workload.verdict(disk / "run", end.acknowledged, forge)
            if "Traceback" in end.errors or end.code not in (EXIT_OK, EXIT_USER):
                verdict.wrong.append(f"ends with {end.code}: {end.errors[-1500:]}")
            row.add(f"{size >> 10} KiB", verdict)
            if end.code == EXIT_OK:
                return row
            size += share * PAGE


def mount(disk: Path, size: int, template: str) -> int:
    """Mounts a tmpfs of `size` bytes in place of the one before, with a copy of the template;
    returns bytes used."""
    empty(disk, size)
    shutil.copytree(template, disk / "run")
    return shutil.disk_usage(disk).used


def empty(disk: Path, size: int) -> None:
    """Mounts a tmpfs of `size` bytes in place of the one before."""
    subprocess.run(["umount", str(disk)], capture_output=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)], check=True)


def enlarge(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
