"""Logs are cut by size, and a fold begins behind the closed parts without telling a difference."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.folds.observations import Observations
from rods.buffers.folds.pool import Pool, windows_json
from rods.buffers.folds.snapshots import VERSION
from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, OBSERVATIONS, POOL, SEEDS, SNAPSHOTS
from rods.buffers.trainer_log import TrainerLog
from rods.errors import CorruptLogError
from tests.buffers.world import Players, SyncDaemonLog, make_run

PART = 6_000


def played(path: Path, epochs: int = 8) -> Run:
    """A run whose logs are cut every few records."""
    run = make_run(path, operation={"log_part_bytes": PART})
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        players = Players(run, trainer, daemon)
        for epoch in range(epochs):
            players.epoch(epoch)
    return run


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return played(tmp_path_factory.mktemp("long") / "run")


@pytest.fixture
def run(long_run: Run, tmp_path: Path) -> Run:
    shutil.copytree(long_run.path, tmp_path / "run")  # times of change are kept
    return Run.open(tmp_path / "run")


def facts(run: Run, observations: Observations) -> object:
    for _ in observations.steps():
        pass
    made = [observations.digest(step) for step in range(1, observations.last_step + 2)]
    assert made[-1] is None not in made[:-1]
    return (
        windows_json(observations.tracker, Pool(())),
        observations.last_step,
        observations.starts.as_json(),
        made,
    )


def folded(run: Run, *, snapshots: bool) -> tuple[int, object]:
    """Behind which record the fold begins, and what it comes to."""
    observations = Observations(run, strict=True, every_step=not snapshots)
    return observations.tail.snapshot, facts(run, observations)


def test_every_log_is_cut_by_size_and_reads_as_one(run: Run) -> None:
    for log in (OBSERVATIONS, POOL, SEEDS, EXPANDED):
        parts = segments(run.path / log)
        assert len(parts) >= 2, log
        assert all(part.stat().st_size < 3 * PART for part in parts)
        seqs = [found["seq"] for found in read(run.path / log)]
        assert seqs == list(range(1, len(seqs) + 1))
    assert verify(run.path).problems == []


def test_a_fold_behind_a_snapshot_is_the_fold_of_everything(run: Run) -> None:
    began, short = folded(run, snapshots=True)
    live = next(read(run.path / OBSERVATIONS))
    assert live["seq"] == 1
    assert began >= segments(run.path / OBSERVATIONS)[-2].stat().st_size // 2000 > 0
    assert folded(run, snapshots=False) == (0, short)


def test_a_trainer_goes_on_behind_a_snapshot_as_if_it_had_read_everything(run: Run) -> None:
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        assert trainer.state.tail.snapshot > 0
        players = Players(run, trainer, daemon)
        trainer.start()
        players.epoch(trainer.state.epoch + 1, steps=1)
    assert verify(run.path).problems == []
    assert folded(run, snapshots=True)[1] == folded(run, snapshots=False)[1]


@pytest.mark.parametrize(
    "harm", ["torn", "flipped", "other rules", "part gone", "part changed", "part copied"]
)
def test_a_snapshot_is_believed_only_with_its_parts_as_they_were(run: Run, harm: str) -> None:
    files = sorted((run.path / SNAPSHOTS).glob("observations.*.json"))
    assert len(files) == 2
    part = segments(run.path / OBSERVATIONS)[0]
    data = part.read_bytes()
    for file in files:
        content = file.read_bytes()
        if harm == "torn":
            file.write_bytes(content[:-20])
        elif harm == "flipped":
            file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        elif harm == "other rules":
            file.write_bytes(content.replace(b'"version":%d' % VERSION, b'"version":0'))
    if harm == "part gone":
        part.rename(run.path / "aside")
    elif harm == "part changed":
        part.write_bytes(data[:900] + bytes([data[900] ^ 1]) + data[901:])
    elif harm == "part copied":
        part.write_bytes(data)
    observations = Observations(run, strict=True, every_step=False)
    # the same bytes at another time are the same
    assert (observations.tail.snapshot > 0) is (harm == "part copied")
    if harm.startswith("part") and harm != "part copied":
        with pytest.raises(CorruptLogError):
            facts(run, observations)


def test_a_rewind_behind_the_newest_snapshot_begins_at_an_older_one_or_at_the_beginning(
    long_run: Run, tmp_path: Path
) -> None:
    newest = folded(long_run, snapshots=True)[0]
    began = []
    for back in (0, 1, 2, 3, 4, 20):
        shutil.copytree(long_run.path, tmp_path / str(back))
        run = Run.open(tmp_path / str(back))
        with TrainerLog(run) as trainer:
            last = trainer.state.last_step
        # not the owner's own fold, which would write a new snapshot
        writer = LogWriter(run.path / OBSERVATIONS)
        writer.append([record("start", attempt=2, from_step=last - back)])
        writer.close()
        found, short = folded(run, snapshots=True)
        assert short == folded(run, snapshots=False)[1]
        began.append(found)
    assert began[0] >= newest and began[-1] == 0
    assert sorted(began, reverse=True) == began and len(set(began)) >= 3


def test_a_kill_between_two_parts_of_one_epoch_is_no_end(run: Run) -> None:
    """The live part was renamed, the next one was not begun."""
    live = segments(run.path / EXPANDED)[-1]
    first = next(iter(segments(run.path / EXPANDED))).name
    number = sum(1 for _ in read(run.path / EXPANDED))
    with live.open("rb") as file:
        seq = int(file.readline().split(b",")[0].split(b":")[1])
    live.rename(live.with_name(f"{live.name.removesuffix('.jsonl')}.{seq:012d}.jsonl"))
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        Players(run, trainer, daemon).epoch(trainer.state.epoch + 1)
    assert segments(run.path / EXPANDED)[0].name == first
    assert sum(1 for _ in read(run.path / EXPANDED)) >= number
    assert live.exists()
    assert verify(run.path).problems == []
