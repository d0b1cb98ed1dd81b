"""The rewards of a step that is not closed yet, where they come about in processes that are none of
the trainer's: a folder in the run's `logs` for each step, and in it a log for each process. A
reward that no step may have is refused before it is put down."""

import os
import shutil
import socket
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

from rods.buffers.log.disk import refusals
from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run import runfolder
from rods.errors import UserError
from rods.observations import millionths

_one_at_a_time = Lock()  # threads of a process share its log


def put_down(
    run: Path, step: int, place: int, reward: Any, reward_range: tuple[float, float]
) -> None:
    """On the disk when this returns: what a rollout of a step's `place` earned. Raises UserError
    for what is no number in its range, and as a log's writer does."""
    try:
        value = float(reward)
        millionths(value, *reward_range)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"a reward is {str(reward)[:80]!r}: {error}"[:300],
            where=f"step {step}, place {place}",
            remedy=f"give a number in the range of its data set's `reward_range`, {reward_range}",
        ) from error
    file = _folder(run, step) / f"{socket.gethostname()}.{os.getpid()}.jsonl"
    with refusals(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time, closing(LogWriter(file)) as writer:
        writer.append([{"kind": "reward", "place": place, "reward": value}])


def rewards_by_place(run: Path, step: int) -> dict[int, list[float]]:
    """What has been put down of a step in the folder `run`. A line cut short is none: its reward
    was not handed on. Raises CorruptLogError for damage."""
    by_place: dict[int, list[float]] = {}
    for file in sorted(_folder(run, step).glob("*.jsonl")):
        for record in read(file):
            by_place.setdefault(record["place"], []).append(record["reward"])
    return by_place


def forget(run: Path, step: int) -> None:
    """Of a time that the trainer has gone back behind."""
    folder = _folder(run, step)
    if folder.exists():
        with refusals(folder):
            shutil.rmtree(folder)


def _folder(run: Path, step: int) -> Path:
    return run / runfolder.LOGS / "rewards" / f"step_{step:08d}"
