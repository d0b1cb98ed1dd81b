"""The sweeps over a bare writer instead of a whole program: our log beside the plain way, and, by
strace, SQLite.

Wrapping Python's functions does not reach into SQLite, so its system calls are counted and struck
by strace, ours and the plain writer's as well, for a fair row. A power cut needs a journal of
changes and is shown for those two only.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.faults.files import Plan
from tests.faults.forge import Forge, Outcome
from tests.faults.table import Row
from tests.faults.workloads import Verdict
from tests.faults.writers import KINDS, REFUSED, held

COUNT = 6  # records a run
SYSTEM_CALLS = {
    "kill -9 at every system call": (
        ["signal=KILL"],
        "write,pwrite64,writev,fsync,fdatasync,ftruncate,rename,renameat,renameat2,"
        "link,linkat,unlink,unlinkat,mkdir",
    ),
    "ENOSPC at every write, once and for good": (
        ["error=ENOSPC"],
        "pwrite64,writev,write,ftruncate,fallocate",
    ),
    "EIO at every fsync, once and for good": (["error=EIO"], "fsync,fdatasync"),
}


class BareWriter:
    """A writer as a workload: it takes the place of tests.faults.workloads.Workload in the
    sweeps."""

    def __init__(self, kind: str, forge: Forge, scratch: Path) -> None:
        self.kind = kind
        self.program = KINDS[kind]
        self.forge = forge
        self.scratch = scratch / kind
        self.template = self.scratch / "template"
        self.template.mkdir(parents=True)
        self.run(self.template)
        self._number = 0
        self.calm = self.run(self.fresh(), journal=True)

    def run(self, folder: Path, *, plan: Plan | None = None, journal: bool = False) -> Outcome:
        return self.forge.run(
            "tests.faults.writers:append", folder, self.kind, COUNT, plan=plan, journal=journal
        )

    def fresh(self) -> Path:
        self._number += 1
        return shutil.copytree(self.template, self.scratch / str(self._number) / "run")

    def verdict(self, folder: Path, acknowledged: list[tuple[str, bytes]]) -> Verdict:
        again = self.run(folder)
        # Our log's own lines are reported as well; they are no items.
        promised = [
            line.decode()
            for _, line in [*acknowledged, *again.acknowledged]
            if not line.startswith(b"{")
        ]
        return judged(
            folder,
            self.kind,
            [*held(self.template, self.kind)[0], *promised],
            again.code,
            again.errors,
        )


def judged(folder: Path, kind: str, promised: list[str], code: int, errors: str) -> Verdict:
    """Whether all that was promised is there, once, and everything can be read."""
    try:
        items, wrong = held(folder, kind)
    except REFUSED as error:
        items = []
        wrong = [str(error)]
    if code:
        wrong.append(f"the next start ends with {code}: {errors[-800:]}")
    return Verdict(len(set(promised) - set(items)), len(items) - len(set(items)), wrong)


def struck(kind: str, fault: str, scratch: Path, share: int = 1) -> Row:
    """strace strikes at every system call of the kinds that `fault` names."""
    actions, calls = SYSTEM_CALLS[fault]
    row = Row(f"{fault} (strace): {KINDS[kind]}")
    scratch = scratch / fault.split()[0]
    template = scratch / f"{kind}.strace"
    template.mkdir(parents=True)
    before = _run(kind, template).stdout.split()
    traced = shutil.copytree(template, scratch / f"{kind}.count")
    log = scratch / f"{kind}.calls"
    _run(kind, traced, "strace", "-f", "-qq", "-o", str(log), "-e", f"trace={calls}")
    total = sum("= ?" not in line for line in log.read_text().splitlines())
    for number in range(1, total + 1, share):
        for when in (str(number),) if actions == ["signal=KILL"] else (str(number), f"{number}+"):
            folder = shutil.copytree(template, scratch / f"{kind}.{number}")
            inject = f"inject={calls}:{actions[0]}:when={when}"
            first = _run(
                kind,
                folder,
                "strace",
                "-f",
                "-qq",
                "-o",
                "/dev/null",
                "-e",
                f"trace={calls}",
                "-e",
                inject,
            )
            again = _run(kind, folder)
            promised = before + first.stdout.split() + again.stdout.split()
            verdict = judged(folder, kind, promised, again.returncode, again.stderr)
            row.add(f"call {when}", verdict)
            shutil.rmtree(folder)
    return row


def possible() -> bool:
    """Whether strace is there and may trace."""
    return (
        shutil.which("strace") is not None
        and subprocess.run(["strace", "true"], capture_output=True).returncode == 0
    )


def _run(kind: str, folder: Path, *under: str) -> subprocess.CompletedProcess[str]:
    command = [*under, sys.executable, "-m", "tests.faults.writers", kind, str(folder), str(COUNT)]
    return subprocess.run(command, capture_output=True, text=True)
