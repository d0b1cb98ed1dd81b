"""What a run's daemon has written, by pick and variant: the same wherever the attempts were
made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rods.buffers.log.record_bytes import Record
from rods.buffers.run.run import Run
from tests.daemon.runs import Daemon, Trainer, idle, make_run, rejected, until, variants

STEPS = 6
OF_ITS_LOG = frozenset({"seq", "id", "crc", "time", "at"})
CHANGES: dict[str, Any] = {
    "sync": "lockstep",
    # gates that many a draft fails, so that attempts learn from those before them
    "gates": {"max_string": 12},
    "selection": {
        "seeds_per_step": 6,
        "exclusion_steps": 0,
        "max_generation": 0,
        "groups": [["base", "long_context", "miss_func", "miss_param"]],
    },
    "pool": {"staging_epochs": 0.0},
}


def written(path: Path) -> dict[str, list[Record]]:
    """Variants and rejections of a run, in the order of picks, without what is of their log
    alone."""
    found = {"variants": variants(path), "rejected": rejected(path)}
    return {
        name: sorted(
            (
                {key: value for key, value in one.items() if key not in OF_ITS_LOG}
                for one in records
            ),
            key=lambda one: (one["pick"], one["index"], one.get("attempt", 0)),
        )
        for name, records in found.items()
    }


def lockstep_run(path: Path, **operation: Any) -> Run:
    return make_run(path, {**CHANGES, "operation": operation})


def finish(run: Run, daemon: Daemon, steps: int = STEPS) -> None:
    """Plays the trainer until every pick is finished."""
    with Trainer(run) as trainer:
        trainer.play(steps)
        until(lambda: idle(run.path, steps) or daemon.process.poll() is not None)
    assert daemon.process.poll() is None
