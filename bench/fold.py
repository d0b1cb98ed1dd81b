"""Recovery without a snapshot: opening a run's observations and folding them.

Claim: at most 1.5 times the time of parsing the same bytes, linear in the number of records.
Anchor: orjson over the same lines. Command: `python -m bench.fold`; `--records 10000000` for a log
of so many, besides a fiftieth of it.

A start reads every record, checks its checksum and seq, follows steps and attempts, and fills the
tracker's windows. Also measured: the same with a snapshot of the closed parts, and what the fold
keeps in memory.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import orjson

from bench.figures import Figure, run
from rods.buffers.folds.observations import Observations
from rods.buffers.log.record_bytes import line, record
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.canonical import keyed_random
from rods.config import parse_config
from rods.observations import Group, Rollout
from rods.worlds import desk

# the paper's setting (004 Appendix J)
TASKS = 400
BATCH = 32
ROLLOUTS = 16


def measure(quick: bool, records: str = "") -> list[Figure]:
    """CPU seconds, best of three turns each."""
    sizes = (5_000, 20_000) if quick else (50_000, 200_000)
    if records:
        sizes = int(records) // 50, int(records)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        run_folder = Path(folder) / "run"
        config = parse_config({"training": {"batch_tasks": 4}}, where="bench")
        opened = create_run(run_folder, config, desk.generate(7, 12, 0))
        kept = [0, 0]
        small = _measure(opened, sizes[0])
        kept[0] = _kept(opened)
        large = _measure(opened, sizes[1])
        kept[1] = _kept(opened)
        behind = _behind_snapshot(opened)
    parsing, folding, count = large
    per_record = folding / count, small[1] / small[2]
    return [
        Figure(
            f"folding {count:,} records of observations against parsing the same bytes",
            folding / parsing,
            "×",
            "orjson seconds",
            parsing,
            reach=1.5,
            higher=False,
        ),
        Figure("seconds to fold a million records", per_record[0] * 1e6, "s"),
        Figure(f"opening the same {count:,} records behind a snapshot", behind * 1000, "ms"),
        Figure(
            f"memory kept after {count:,} records against {small[2]:,}, tasks alike",
            kept[1] / kept[0],
            "×",
        ),
        Figure("memory kept for a known task", kept[1] / TASKS, "bytes"),
        Figure(
            f"time a record at {count:,} against {small[2]:,} (1 is linear)",
            per_record[0] / per_record[1],
            "×",
        ),
    ]


def _measure(opened: Run, count: int) -> tuple[float, float, int]:
    """Seconds to parse, seconds to fold, records."""
    path = opened.path / "observations.jsonl"
    _write(path, count)
    parse = []
    fold = []
    for _ in range(3):
        parse.append(_seconds(lambda: _parse(path)))
        fold.append(_seconds(lambda: _fold(opened)))
    with path.open("rb") as file:
        records = sum(1 for _ in file)
    return min(parse), min(fold), records


def times(opened: Run, count: int, rounds: int) -> float:
    """How many times as long folding takes as parsing: the median over rounds."""
    path = opened.path / "observations.jsonl"
    _write(path, count)
    return statistics.median(
        _seconds(lambda: _fold(opened)) / _seconds(lambda: _parse(path)) for _ in range(rounds)
    )


def _kept(opened: Run) -> int:
    """Bytes that a fold holds once it is done."""
    tracemalloc.start()
    observations = Observations(opened, strict=True, every_step=False)
    observations.catch_up()
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept


def _behind_snapshot(opened: Run) -> float:
    """Seconds to open a log whose live part has just begun."""
    path = opened.path / "observations.jsonl"
    writer = LogWriter(path, part_bytes=1)
    writer.append([record("start", attempt=2, from_step=10**6, time=0.0)])
    writer.close()
    owner = Observations(opened, strict=True, every_step=False, keep=True)
    owner.catch_up()
    assert owner.tail.snapshot > 0
    return min(_seconds(lambda: _fold(opened)) for _ in range(3))


def _parse(path: Path) -> None:
    with path.open("rb") as file:
        for text in file:
            orjson.loads(text)


def _fold(opened: Run) -> None:
    observations = Observations(opened, strict=True, every_step=False)
    observations.catch_up()
    assert observations.last_step > 0


def _seconds(work: Callable[[], None]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _write(path: Path, count: int) -> None:
    """A history of `count` group records, as the trainer writes it."""
    rng = keyed_random(0, "bench fold")
    with path.open("wb") as file:
        seq = 1
        file.write(line(1, record("start", attempt=1, from_step=0, time=0.0)))
        for step in range(1, count // BATCH + 1):
            first = seq + 1
            for index in range(BATCH):
                seq += 1
                rollouts = tuple(
                    Rollout(done, 4, int(done == 4), 0.0, done / 4, "finished")
                    for done in rng.choices(range(5), k=ROLLOUTS)
                )
                group = Group(
                    f"{rng.randrange(TASKS):020x}", 1, "identity", "progress", (0.0, 1.0), rollouts
                )
                file.write(
                    line(seq, record("group", attempt=1, step=step, index=index, **group.as_json()))
                )
            seq += 1
            closing = record(
                "step",
                attempt=1,
                step=step,
                epoch=0,
                groups=BATCH,
                policy_step=step - 1,
                digest=f"{step:020x}",
                time=0.0,
            )
            file.write(line(seq, {"id": closing["id"], "kind": "step", "first": first, **closing}))


if __name__ == "__main__":
    run(measure, records="records of the longer log")
