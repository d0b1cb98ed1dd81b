"""`python -m tests.faults`: every sweep in full, and the table behind docs/durability.md.

`--share 20` tries every twentieth point only, `--only WORD` the rows whose name (the table's last
column) holds the word, `--kills 20` fewer random kills. Rows go to standard output, times and what
went wrong to standard error.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rods.worlds.sandbox.confined import Tier, offered, reaches
from tests.faults import (
    bounded_readers,
    checkpoint_sweeps,
    comparison,
    damage,
    escapes,
    random_kills,
    small_disk,
    sweeps,
)
from tests.faults.forge import Forge
from tests.faults.table import HEAD, Row
from tests.faults.workloads import FUNCTIONS, Workload
from tests.trainer import kills as trainer_kills
from tests.trainer.full_disk import WRITERS

RANDOM_KILLS = 1000
Sweep = Callable[[], Row]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description="Sweep faults, print the table."
    )
    parser.add_argument("--share", type=int, default=1, help="try every n-th point only")
    parser.add_argument("--only", default="", help="part of the name of the rows wanted")
    parser.add_argument("--kills", type=int, default=RANDOM_KILLS, help="random kills")
    asked = parser.parse_args()
    # Most points write and read small files: where there is a file system in memory, they are
    # quicker there.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    bad = 0
    with tempfile.TemporaryDirectory(dir=memory) as scratch, Forge() as forge:
        print(HEAD, flush=True)
        for name, sweep in every(forge, Path(scratch), asked.share, asked.kills):
            if asked.only not in name:
                continue
            began = time.monotonic()
            row = sweep()
            row.name = name
            print(row, flush=True)
            wrong = (*row.failures[:5], *row.untried[:5])
            print(
                f"({row.fault}: {time.monotonic() - began:.0f} s)",
                *wrong,
                sep="\n",
                file=sys.stderr,
            )
            bad += bool(row.untried) or (
                row.survived < row.tried and "append and flush" not in row.fault
            )
    return 1 if bad else 0


def every(forge: Forge, scratch: Path, share: int, kills: int) -> Iterator[tuple[str, Sweep]]:
    """The sweeps by name, ours first, then those for comparison."""
    works: dict[str, Workload] = {}

    def work(program: str) -> Workload:
        if program not in works:
            works[program] = Workload(program, forge, scratch)
        return works[program]

    def on(program: str, swept: Callable[[Workload, int], Row]) -> Sweep:
        return lambda: swept(work(program), share)

    for program in FUNCTIONS:
        for sweep in sweeps.SWEEPS:
            yield f"{sweep.__name__} {program}", on(program, sweep)
        if small_disk.possible():
            yield f"full_tmpfs {program}", on(program, small_disk.full_tmpfs)
    for program in ("daemon", "trainer"):
        for damaged in (damage.truncations, damage.flips):
            yield f"{damaged.__name__} {program}", on(program, damaged)
    for swept in (checkpoint_sweeps.swapped, checkpoint_sweeps.flipped):
        yield f"checkpoints {swept.__name__}", on("trainer", swept)
    if small_disk.possible():
        for library in WRITERS:
            yield (
                f"full_disk checkpoint {library}",
                partial(checkpoint_sweeps.full_disk, library, scratch, share),
            )
    yield "bounded readers", lambda: bounded_readers.bounded_readers(scratch)
    yield "random_kills", lambda: random_kills.random_kills(scratch, kills)
    for policy in trainer_kills.POLICIES:
        for mode in trainer_kills.MODES:
            yield (
                f"trainer_kills {policy} {mode}",
                partial(
                    trainer_kills.sweep,
                    scratch / f"{policy}.{mode}",
                    mode,
                    policy,
                    min(kills, trainer_kills.KILLS),
                ),
            )
    tiers: tuple[Tier, ...] = ("landlock", "bubblewrap")
    for tier in (tier for tier in tiers if reaches(offered().tier, tier)):
        for way in escapes.WAYS:
            yield f"escapes {way} {tier}", partial(escapes.escapes, tier, way, share)
    for kind in ("log", "plain"):
        for sweep in sweeps.SWEEPS:
            yield (
                f"comparison {sweep.__name__} {kind}",
                partial(_bare, sweep, kind, forge, scratch, share),
            )
    if comparison.possible():
        for kind in ("log", "sqlite", "plain"):
            for fault in comparison.SYSTEM_CALLS:
                yield (
                    f"comparison strace {fault.split()[0]} {kind}",
                    partial(comparison.struck, kind, fault, scratch, share),
                )


def _bare(
    sweep: Callable[[sweeps.Tested, int], Row], kind: str, forge: Forge, scratch: Path, share: int
) -> Row:
    folder = scratch / f"{kind}.{sweep.__name__}"
    try:
        return sweep(comparison.BareWriter(kind, forge, folder), share)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
