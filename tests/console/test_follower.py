"""What a look at a run reads, and that reading on leads to what reading everything does."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rods.buffers.run.runfolder import OBSERVATIONS
from rods.buffers.state import read_state
from rods.buffers.trainer_log import TrainerLog
from rods.family.page import follower, views
from rods.family.page.columns import Columns
from rods.family.page.follower import Follower
from rods.observations import Update
from rods.rules.order import steps_per_epoch
from tests.buffers.world import BATCH, Players, SyncDaemonLog, make_run

EPOCHS = 5
_seen: list[str] | None = None  # what the interpreter's audit events say, while somebody listens


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if _seen is not None and event in ("open", "os.scandir", "os.listdir"):
        # its number varies
        opened = "descriptor" if isinstance(arguments[0], int) else Path(str(arguments[0])).name
        _seen.append(f"{event} {re.sub('[0-9]{4}', 'NNNN', opened)}")


sys.addaudithook(_listen)


@contextmanager
def listening() -> Iterator[list[str]]:
    """The files opened and folders listed meanwhile."""
    global _seen
    found: list[str] = []
    _seen = found
    try:
        yield found
    finally:
        _seen = None


def remembered(one: Follower) -> dict[str, dict[str, list[object]]]:
    """All that it knows of the history; tasks by their id, since numbers are given in the order of
    reading."""
    found: dict[str, dict[str, list[object]]] = {}
    for name, table in vars(one).items():
        if isinstance(table, Columns):
            names = table._rows.dtype.names or ()
            columns = {column: np.nan_to_num(table[column]).tolist() for column in names}
            found[name] = {
                column: [one.ids[number] for number in values]
                if column in ("task", "seed")
                else values
                for column, values in columns.items()
            }
    return found


def test_a_look_reads_no_more_after_many_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trainer and a daemon at work: each step is followed by a look. The files of variants are
    one an epoch."""
    monkeypatch.setattr(follower, "LISTED", float("inf"))
    run = make_run(tmp_path / "run")
    looks: list[Counter[str]] = []
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        players = Players(run, trainer, daemon)
        one = Follower(run.path)
        for epoch in range(EPOCHS):
            opened = trainer.merge(epoch, 1)
            length = steps_per_epoch(len(opened.slots), BATCH)
            assert length > 2
            for index in range(length):
                players.step(opened, index)
                trainer.write_update(Update(0.5, 1.0 + epoch))
                with listening() as seen:
                    one.look()
                    views.status(one, {})
                with one.whole() as now:
                    pass
            assert now.staged == len(read_state(run).staging)
            # heartbeats' own writers
            looks.append(Counter(name for name in seen if not name.endswith(".tmp")))
        variants = len(list(run.path.glob("expanded_epoch_*.jsonl")))
        trainer.flush()
        one.look()
        fresh = Follower(run.path)
        with fresh.whole(), one.whole():
            assert remembered(one) == remembered(fresh)
            assert len(one.steps) == len(one.updates) == trainer.state.last_step
            assert sorted(one.ids) == sorted(fresh.ids)
    assert variants == EPOCHS
    assert looks[1] == looks[-1], "the first look is that of a reader who comes"
    assert looks[-1][f"open {OBSERVATIONS}"] == 1, "each step is parsed once"
    assert [name for name in looks[-1] if not name.startswith("open ")] == [], "no folder is listed"
