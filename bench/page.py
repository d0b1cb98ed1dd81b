"""The page over a long run: the first look, the history behind it, and a live tick.

Claim: with 1,000,000 groups and 100,000 variants `rods status` and a first look of all say where
the run stands in 2 s, with its whole history read the page holds 300 MB, a report and the task with
most groups take 2 s then, and a tick 5 ms and 5 kB, whatever the history. Anchor: a tenth of the
past. Command: `python -m bench.page`.

Each opening is a process of its own, of a run whose trainer and daemon have kept their snapshots. A
tick is one more step of 32 groups: reading it, and all that the view of the run asks for then.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import orjson

from bench.figures import Figure, run
from bench.history import BATCH, RUNS, History
from bench.many_variants import resident
from rods.buffers.folds.seeds import DaemonTotals
from rods.buffers.log.record_bytes import record
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import LOGS, OBSERVATIONS
from rods.buffers.trainer_log import TrainerLog
from rods.console.__main__ import collect_rarely
from rods.console.events import PROCESSES, TAIL
from rods.console.progress import Progress
from rods.family.page.server import Registry
from rods.observations import Group, Rollout

PASSES = 2.5  # groups of an active task an epoch
TICKS = 20
RUN = "latest"


@dataclass(frozen=True)
class Opened:
    status: float  # seconds of CPU time of `rods status`, what it imports left out
    seconds: float  # of CPU time, until the figures stand there
    history: float  # of CPU time, until the history does
    held: float  # MB, then
    report: float  # seconds of CPU time
    task: float
    after: float  # MB held behind two reports and a task
    groups: int
    reading: float  # ms of CPU time, of one tick
    answering: float
    size: float  # kB of these answers


def measure(quick: bool) -> list[Figure]:
    """CPU time and memory of processes that open a run for the first time, and their ticks."""
    many = 4_000 if quick else 100_000
    opened = {}
    for variants in (many // 10, many):
        with tempfile.TemporaryDirectory(dir=RUNS) as folder:
            history = History(Path(folder) / "run", PASSES)
            history.write(variants)
            TrainerLog(Run.open(history.path)).close()
            DaemonTotals(history.path, keep=True).poll()
            _say(history.path)
            opened[variants] = _apart(history.path)
    few = opened[many // 10]
    last = opened[many]
    told = f"{many:,} variants and {last.groups:,} groups"
    return [
        Figure(
            f"`rods status` of {told}",
            last.status,
            "s",
            "a tenth",
            few.status,
            reach=2.0,
            higher=False,
        ),
        Figure(
            f"first look at {told}",
            last.seconds,
            "s",
            "a tenth",
            few.seconds,
            reach=2.0,
            higher=False,
        ),
        Figure("its history", last.history, "s", "a tenth", few.history),
        Figure("memory then", last.held, "MB", "a tenth", few.held, reach=300.0, higher=False),
        Figure(
            "the report at that size",
            last.report,
            "s",
            "a tenth",
            few.report,
            reach=2.0,
            higher=False,
        ),
        Figure(
            "the task with most groups",
            last.task,
            "s",
            "a tenth",
            few.task,
            reach=2.0,
            higher=False,
        ),
        Figure(
            "memory behind them", last.after, "MB", "a tenth", few.after, reach=300.0, higher=False
        ),
        Figure(
            "reading a step", last.reading, "ms", "a tenth", few.reading, reach=5.0, higher=False
        ),
        Figure(
            "answering what it moves",
            last.answering,
            "ms",
            "a tenth",
            few.answering,
            reach=5.0,
            higher=False,
        ),
        Figure("these answers", last.size, "kB", "a tenth", few.size, reach=5.0, higher=False),
    ]


def _say(path: Path) -> None:
    """What a long run's processes have said: more than the page looks at."""
    said = {
        "timestamp": "2026-01-01T00:00:00Z",
        "level": "info",
        "event": "step",
        "run": path.name,
        "reward": 0.5,
    }
    (path / LOGS).mkdir(exist_ok=True)
    for process in PROCESSES:
        (path / LOGS / f"{process}.jsonl").write_bytes(
            2 * TAIL // 100 * (orjson.dumps(said) + b"\n")
        )


def _apart(path: Path) -> Opened:
    """In a fresh process, so that nothing is warm and nothing is left over."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_opened, (path,))


def _opened(path: Path) -> Opened:
    collect_rarely()
    began = time.process_time()
    Progress(path).poll()
    status = time.process_time() - began
    began = time.process_time()
    registry = Registry([path])
    registry.answer(RUN, "status", {})
    seconds = time.process_time() - began
    began = time.process_time()
    one = registry.follower(RUN)
    with one.whole():
        read = time.process_time() - began
        held = resident()
        groups = len(one.groups)
    asking = -time.process_time()
    registry.answer(RUN, "report", {})
    asking += time.process_time()
    registry.answer(RUN, "report", {})
    most = one.ids[int(np.bincount(one.groups["task"]).argmax())]
    looking = -time.process_time()
    registry.answer(RUN, "task", {"task": most})
    looking += time.process_time()
    after = resident()
    steps = registry.answer(RUN, "steps", {})["cursor"]
    merged = str(len(one.epochs))
    tasks = list(one.state.active)[:BATCH]
    reading = 0.0
    answering = 0.0
    size = 0
    for _ in range(TICKS):
        _observe(path, one.state.last_step + 1, one.state.epoch, tasks)
        reading -= time.process_time()
        one.look()
        reading += time.process_time()
        asked = {"positions": {}, "status": {}, "steps": {"after": steps, "merged": merged}}
        answering -= time.process_time()
        answers = {view: registry.answer(RUN, view, query) for view, query in asked.items()}
        size += sum(len(orjson.dumps(answer, default=str)) for answer in answers.values())
        answering += time.process_time()
        steps = answers["steps"]["cursor"]
    ticks = 1e3 * reading / TICKS, 1e3 * answering / TICKS, size / 1e3 / TICKS
    return Opened(status, seconds, read, held, asking, looking, after, groups, *ticks)


def _observe(path: Path, step: int, epoch: int, tasks: list[str]) -> None:
    """One more step, as the trainer writes it."""
    rollouts = tuple(
        Rollout(done, 4, int(done == 4), 0.0, done / 4, "finished") for done in (1, 2, 3, step % 5)
    )
    groups = [
        Group(task, 1, "identity", "progress", (0.0, 1.0), rollouts).as_json() for task in tasks
    ]
    facts = {
        "epoch": epoch,
        "groups": len(tasks),
        "policy_step": step - 1,
        "digest": f"{step:020x}",
        "time": 0.0,
    }
    with closing(LogWriter(path / OBSERVATIONS)) as log:
        log.append_group(
            [
                record("group", attempt=1, step=step, index=index, **group)
                for index, group in enumerate(groups)
            ],
            record("step", attempt=1, step=step, **facts),
        )


if __name__ == "__main__":
    run(measure)
