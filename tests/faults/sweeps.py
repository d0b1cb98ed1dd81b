"""The sweeps over a workload: at which points what strikes, and the row of the table that comes of
it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from tests.faults.files import KINDS, Fault, Plan
from tests.faults.forge import Outcome
from tests.faults.power import Disk, Survival
from tests.faults.table import Row
from tests.faults.workloads import Verdict


class Tested(Protocol):
    """What a sweep needs: something that can be begun anew, run, struck, and judged."""

    program: str
    scratch: Path
    template: Path
    calm: Outcome  # how it went without a fault, with its journal

    def fresh(self) -> Path: ...

    def run(self, folder: Path, *, plan: Plan | None = None, journal: bool = False) -> Outcome: ...

    def verdict(self, folder: Path, acknowledged: list[tuple[str, bytes]]) -> Verdict: ...


SPARE = 12  # changes that a run may have more than the calm one: heartbeats
TRIPLES = 100
SURVIVALS: tuple[Survival, ...] = ("nothing", "names", "zeros")


def kills(workload: Tested, share: int = 1) -> Row:
    """kill -9 before every change of a file, and in the middle of every write."""
    row = Row(
        f"kill -9 at every create, write, truncate, fsync, rename, unlink, mkdir: "
        f"{workload.program}"
    )
    plans = [Plan("kill", at) for at in range(1, _changes(workload, KINDS) + 1 + SPARE, share)]
    # begun anew, so that how many points a sample tries does not hang on how many changes the calm
    # run happened to make
    plans += [
        Plan("torn", at, ("write",))
        for at in range(1, _changes(workload, ("write",)) + 1 + SPARE, share)
    ]
    return _struck(workload, row, plans, killed=True)


def kills_of_recoveries(workload: Tested, share: int = 1) -> Row:
    """Three kills in a row at places drawn by chance, so that two starts after a kill are killed as
    well."""
    row = Row(f"kill -9 of a run and of its next two starts: {workload.program}")
    changes = _changes(workload, KINDS)
    for number in range(0, TRIPLES, share):
        chance = random.Random(number)
        folder = workload.fresh()
        acknowledged = []
        for _ in range(3):
            end = workload.run(folder, plan=Plan("kill", chance.randint(1, changes)))
            acknowledged += end.acknowledged
        _add(row, f"triple {number}", folder, workload.verdict(folder, acknowledged))
    return row


def full_disk(workload: Tested, share: int = 1) -> Row:
    """ENOSPC at every write, for good and for a moment, the first time with half of the bytes
    taken."""
    row = Row(f"ENOSPC at every create, write and mkdir: {workload.program}")
    plans = [
        Plan(fault, at, ("create", "write", "mkdir"))
        for at in range(1, _changes(workload, ("create", "write", "mkdir")) + 1)
        for fault in _faults("full", "short")
    ]
    return _struck(workload, row, plans[::share], killed=False)


def failing_fsync(workload: Tested, share: int = 1) -> Row:
    """EIO at every fsync, once and from then on."""
    row = Row(f"EIO at every fsync: {workload.program}")
    plans = [
        Plan(fault, at, ("fsync",))
        for at in range(1, _changes(workload, ("fsync",)) + 1)
        for fault in _faults("eio", "eio_forever")
    ]
    return _struck(workload, row, plans[::share], killed=False)


def power_cuts(workload: Tested, share: int = 1) -> Row:
    """The power fails before every fsync and after every promise; what was not synced is gone, or
    half there."""
    row = Row(f"power cut at every fsync boundary: {workload.program}")
    points = [
        (index, survival)
        for index in dict.fromkeys(_boundaries(workload))
        for survival in SURVIVALS
    ]
    chosen: dict[int, list[Survival]] = {}
    for index, survival in points[::share]:
        chosen.setdefault(index, []).append(survival)
    disk = Disk(workload.template)
    journal = workload.calm.journal
    for index in range(len(journal) + 1):
        for survival in chosen.get(index, ()):
            folder = workload.scratch / f"{workload.program}.{index}.{survival}" / "run"
            disk.cut(survival, folder)
            _add(
                row,
                f"change {index}, {survival}",
                folder,
                workload.verdict(folder, disk.acknowledged),
            )
        if index < len(journal):
            disk.apply(journal[index])
    return row


def _struck(workload: Tested, row: Row, plans: Sequence[Plan], *, killed: bool) -> Row:
    for plan in plans:
        folder = workload.fresh()
        end = workload.run(folder, plan=plan)
        if end.code == 0 and end.changes < plan.at:
            shutil.rmtree(folder.parent)
            continue  # this time there were fewer changes
        verdict = workload.verdict(folder, end.acknowledged)
        if not killed and "Traceback" in end.errors:
            verdict.wrong.append(f"a traceback: {end.errors[-1500:]}")
        _add(row, f"{plan.fault} at {plan.at}", folder, verdict)
    return row


def _add(row: Row, point: str, folder: Path, verdict: Verdict) -> None:
    """Keeps what went wrong for a look."""
    row.add(point, verdict)
    if verdict.good:
        shutil.rmtree(folder.parent)


def _changes(workload: Tested, kinds: Sequence[str]) -> int:
    return sum(change.kind in kinds for change in workload.calm.journal)


def _boundaries(workload: Tested) -> Iterator[int]:
    """Before every fsync is done, after every promise, and at the end."""
    journal = workload.calm.journal
    for index, change in enumerate(journal):
        if change.kind in ("fsync", "ack"):
            yield index + (change.kind == "ack")
    yield len(journal)


def _faults(*names: Fault) -> tuple[Fault, ...]:
    return names


Sweep = Callable[[Tested, int], Row]
SWEEPS: tuple[Sweep, ...] = (kills, kills_of_recoveries, full_disk, failing_fsync, power_cuts)
