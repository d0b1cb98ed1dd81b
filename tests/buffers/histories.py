"""A real history with merges, retirements, rewinds and picks, for the folds' tests; and its logs as
they grew."""

from __future__ import annotations

from pathlib import Path

from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.trainer_log import TrainerLog
from tests.buffers.world import Players, SyncDaemonLog, make_run


def played(path: Path) -> Run:
    """Six epochs, then back into the third, and on to the fifth. Some variants are retired, some
    injected again."""
    run = make_run(path)
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        players = Players(run, trainer, daemon)
        for epoch in range(6):
            players.epoch(epoch)
        back = trainer.state.pool.epochs[3].step - 1
        trainer.start(back)
        for epoch in range(trainer.state.epoch + 1, 5):
            players.epoch(epoch)
    return run


def records(run: Run, log: str) -> list[Record]:
    return list(read(run.path / log))


def reopened(run: Run, folder: Path) -> Run:
    """The same run with empty logs, in which a test writes the logs again, piece by piece."""
    folder.mkdir()
    for name in ("config.toml", "manifest.json", "tasks.jsonl"):
        (folder / name).write_bytes((run.path / name).read_bytes())
    return Run.open(folder)
