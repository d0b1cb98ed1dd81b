"""The counts of what the daemon has done: behind a snapshot they are those of everything, and
nothing is read twice."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.folds.seeds import DaemonTotals
from rods.buffers.folds.snapshots import VERSION
from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import REJECTED, SEEDS, SNAPSHOTS
from rods.console.progress import Progress
from rods.errors import CorruptLogError
from tests.buffers.world import PICKED, SyncDaemonLog, make_run, originals, variants
from tests.daemon import runs

PART = 4_000
STEPS = 60


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose daemon has written, and counted, logs of several parts."""
    run = make_run(tmp_path_factory.mktemp("counted") / "run", operation={"log_part_bytes": PART})
    task = originals()[0].id
    with SyncDaemonLog(run) as daemon:
        for step in range(1, STEPS + 1):
            daemon.picked(step, 0, [{"task": task, **PICKED}])
            pick = f"{step}-{task}"
            daemon.rejected(
                pick, 0, stage="judge", error="grounding", evidence=f"in step {step}", raw="x" * 99
            )
            accepted = [variants()[step].id] if step < STEPS - 3 and step % 2 else []
            daemon.finished(
                pick, accepted, int(not accepted), why=None if accepted else "grounding"
            )
            daemon.log.keep_totals()
    return run


@pytest.fixture
def run(counted: Run, tmp_path: Path) -> Run:
    shutil.copytree(counted.path, tmp_path / "run")  # times of change are kept
    return Run.open(tmp_path / "run")


class Counting(DaemonTotals):
    """Notes how many records it takes."""

    def __init__(self, folder: Path, *, every_record: bool = False) -> None:
        self.taken = Counter[str]()
        super().__init__(folder, every_record=every_record)
        self.poll()

    def apply(self, record: Record) -> None:
        self.taken["rejected" if record["kind"] == "rejected" else "seeds"] += 1
        super().apply(record)

    def state(self) -> Any:
        """What both logs say, whenever they were read."""
        return [self._snapshot(SEEDS), self._snapshot(REJECTED)[0]]


def test_counts_behind_a_snapshot_take_the_records_of_the_live_parts_alone(run: Run) -> None:
    behind = Counting(run.path)
    whole = Counting(run.path, every_record=True)
    assert behind.state() == whole.state() and behind.barren == whole.barren > 3
    for log, name in ((SEEDS, "seeds"), (REJECTED, "rejected")):
        assert len(segments(run.path / log)) > 2
        live = sum(1 for _ in (run.path / log).open())
        assert (
            behind.taken[name] == live < whole.taken[name] == sum(1 for _ in read(run.path / log))
        )
    assert Progress(run.path).poll().rejected == STEPS
    assert SNAPSHOTS not in [problem["where"] for problem in verify(run.path).problems]


@pytest.mark.parametrize("log", [SEEDS, REJECTED])
@pytest.mark.parametrize("harm", ["torn", "flipped", "stale", "part changed"])
def test_a_snapshot_that_is_damaged_or_stale_is_not_believed(run: Run, log: str, harm: str) -> None:
    stem = log.removesuffix(".jsonl")
    files = sorted((run.path / SNAPSHOTS).glob(f"{stem}.*.json"))
    assert files
    for file in files:
        content = file.read_bytes()
        if harm == "torn":
            file.write_bytes(content[:-5])
        elif harm == "flipped":
            file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        elif harm == "stale":
            file.write_bytes(content.replace(b'"version":%d' % VERSION, b'"version":0'))
    if harm == "part changed":
        part = segments(run.path / log)[0]
        part.write_bytes(part.read_bytes().replace(b"\n", b" \n", 1))
        with pytest.raises(CorruptLogError):
            Counting(run.path)
        return
    behind = Counting(run.path)
    assert behind.taken[stem] == sum(1 for _ in read(run.path / log))
    assert behind.state() == Counting(run.path, every_record=True).state()


def test_a_daemon_keeps_its_counts(tmp_path: Path) -> None:
    run = runs.make_run(tmp_path / "run", {"operation": {"log_part_bytes": 2_000}})
    with runs.Daemon(run.path) as daemon, runs.Trainer(run) as trainer:

        def kept() -> bool:
            trainer.play(1)
            return all(
                any((run.path / SNAPSHOTS).glob(f"{log}.*.json")) for log in ("seeds", "rejected")
            )

        runs.until(kept)
        assert daemon.stop()[0] == 0
    assert Counting(run.path).state() == Counting(run.path, every_record=True).state()
