"""Memory and time after months: the same live tasks, with ten times as many variants that were
injected and retired.

Claim: a variant that has left leaves at most 1.5 kB. Anchor: the same live tasks with a tenth of
the past. Command: `python -m bench.history`.

The logs are written as trainer and daemon write them: every epoch injects a cohort, retires the
oldest one as mastered, and observes every active task once. Every pick has one candidate that
failed and one variant. Some of the first variants are retired as too hard instead and stay
revivable. Then the trainer's side opens and merges, and the daemon's side opens; each in a process
of its own, once to see what it holds, once to see how long it takes.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import sys
import tempfile
import time
import tracemalloc
from collections import deque
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.figures import Figure, run
from rods.buffers.daemon_log import DaemonLog
from rods.buffers.log.record_bytes import Record, line, record
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS, POOL, REJECTED, SEEDS, expanded_segment
from rods.buffers.trainer_log import TrainerLog
from rods.canonical import keyed_random
from rods.config import Operation, parse_config
from rods.daemon.watching import Watch
from rods.observations import Group, Rollout
from rods.rules.order import batch, order_hash, slots, steps_per_epoch
from rods.tasks import AnyTask
from rods.worlds import desk

# tasks; the last three are variants
ORIGINALS = 100
LIVE = 300
COHORT = 100
REVIVABLE = 40
BATCH = 32
ROLLOUTS = 4
PART = Operation().log_part_bytes
LEFT = 1_500  # bytes that a variant which has left may leave in memory (docs/decisions/history.md)
RUNS = Path(__file__).parent.parent / "runs"  # a real disk, as a user's run has


def measure(quick: bool) -> list[Figure]:
    """Bytes that Python and NumPy hold, CPU seconds; each the figure of one process."""
    few = 500 if quick else 5_000
    many = 10 * few
    held: dict[tuple[int, str], Opened] = {}
    for variants in (few, many):
        with tempfile.TemporaryDirectory(dir=RUNS) as folder:
            path = Path(folder) / "run"
            History(path).write(variants)
            for side in ("daemon", "trainer"):  # the trainer's writes a merge
                held[variants, side] = _apart(_opened, path, side)
    figures = []
    for side in ("trainer", "daemon"):
        small = held[few, side]
        large = held[many, side]
        figures += [
            Figure(
                f"memory of the {side}'s side after {many:,} variants against {few:,}, live tasks "
                f"alike",
                large.kept / small.kept,
                "×",
                "bytes after the fewer",
                small.kept,
            ),
            Figure(
                f"what a variant that has left leaves there ({side})",
                (large.kept - small.kept) / (many - few),
                "bytes",
                reach=LEFT,
                higher=False,
            ),
            Figure(
                f"most memory while the {side}'s side opens, {many:,} against {few:,}",
                large.peak / small.peak,
                "×",
            ),
            Figure(f"opening {many:,} variants of history, {side}", large.seconds, "s"),
        ]
    return figures


@dataclasses.dataclass(frozen=True)
class Opened:
    kept: int  # bytes
    peak: int
    seconds: float  # of CPU time


def _apart(work: Callable[..., Opened], *arguments: Any) -> Opened:
    """In a fresh process, so that nothing is warm and nothing is left over."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def _opened(path: Path, side: str) -> Opened:
    run = Run.open(path)
    run.check_environments()
    began = time.process_time()
    kept: Any = OPEN[side](run)
    seconds = time.process_time() - began
    _close(kept)
    del kept
    gc.collect()
    # the interpreter's table of names grows in jumps, whoever's name is the last straw:
    for number in range(100_000):
        sys.intern(f"{number} made before")  # not while we measure
    tracemalloc.start()
    kept = OPEN[side](run)
    _, peak = tracemalloc.get_traced_memory()
    if side == "trainer":  # its first merge builds the index of near duplicates
        log = kept[0]
        log.start()
        log.merge(log.state.epoch + 1, 1)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    _close(kept)
    return Opened(held, peak, seconds)


def _close(kept: Any) -> None:
    for one in kept:
        if isinstance(one, TrainerLog | DaemonLog):
            one.close()


def _trainer(run: Run) -> tuple[TrainerLog]:
    return (TrainerLog(run),)


def _daemon(run: Run) -> tuple[DaemonLog, Watch, list[AnyTask]]:
    log = DaemonLog(run)
    watch = Watch(run)
    for _ in range(2):  # the second look finds nothing, and lets go of what the first has read
        watch.look(10**9)
    return log, watch, watch.generated()


OPEN: dict[str, Callable[[Run], Any]] = {"trainer": _trainer, "daemon": _daemon}


class _Log:
    """One log being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seq = 0
        self._first = 1
        self.file = path.open("wb")

    def put(self, kind: str, **fields: Any) -> int:
        self.seq += 1
        self.file.write(line(self.seq, record(kind, **fields)))
        return self.seq

    def close_group(self, first: int, kind: str, **fields: Any) -> None:
        made: Record = record(kind, **fields)
        self.seq += 1
        self.file.write(line(self.seq, {"id": made["id"], "kind": kind, "first": first, **made}))

    def cut(self) -> None:
        """Closes a part that is full, as `rods.buffers.log.writer` does; no group is open."""
        if self.file.tell() >= PART:
            self.file.close()
            self.path.rename(self.path.with_name(f"{self.path.stem}.{self._first:012d}.jsonl"))
            self.file = self.path.open("wb")
            self._first = self.seq + 1


class History:
    """A run folder with a past, in which an epoch observes every active task `passes` times."""

    def __init__(self, path: Path, passes: float = 1.0) -> None:
        self.passes = passes
        originals = desk.generate(1, ORIGINALS, 0)
        create_run(
            path, parse_config({"training": {"batch_tasks": BATCH}}, where="bench"), originals
        )
        self.path = path
        self.originals = [task.id for task in originals]
        self.logs = [_Log(path / name) for name in (OBSERVATIONS, POOL, SEEDS, REJECTED)]
        self.observations, self.pool, self.seeds, self.rejected = self.logs
        self.rng = keyed_random(0, "bench history")
        self.templates = [
            task for task, _ in itertools.islice(desk.fresh_tasks(3, "bench history"), 100)
        ]
        self.cohorts: deque[list[str]] = deque()
        self.staged: list[tuple[str, int]] = []  # variant, its seq in the expanded log
        self.written = self.step = self.revivable = 0

    def write(self, variants: int) -> None:
        self.observations.put("start", attempt=1, from_step=0, time=0.0)
        for epoch in range(variants // COHORT + 1):
            self._merge(epoch)
            self._expand(epoch)
        for log in self.logs:
            log.file.close()

    def _merge(self, epoch: int) -> None:
        where = {"attempt": 1, "epoch": epoch, "step": self.step}
        first = self.pool.seq + 1
        leaving = self.cohorts.popleft() if len(self.cohorts) == LIVE // COHORT else []
        for task in leaving:
            rule = "drift_too_hard" if self.revivable < REVIVABLE else "drift_mastered"
            self.revivable += 1
            self.pool.put(
                "retired", **where, task=task, rule=rule, groups=3, mean=0.99, variance=0.001
            )
        for task, seq in self.staged:
            self.pool.put(
                "injected",
                **where,
                task=task,
                expanded=seq,
                pick=self._pick(seq),
                type="base",
                generation=1,
            )
        if self.staged:
            self.cohorts.append([task for task, _ in self.staged])
        active = self.originals + [task for cohort in self.cohorts for task in cohort]
        visited = slots(0, epoch, active, ())
        counts = {
            "active": len(active),
            "originals": ORIGINALS,
            "generated": len(active) - ORIGINALS,
        }
        counts |= {"slots": len(active), "retests": 0, "revived": 0, "refused": 0}
        counts |= {"retired": len(leaving), "injected": len(self.staged)}
        self.pool.close_group(
            first,
            "epoch",
            **where,
            stage=1,
            expanded_seq=self.written,
            counts=counts,
            deferred={"count": 0, "first": 0, "last": 0},
            retests=[],
            order=order_hash(visited),
        )
        self.pool.cut()
        steps = steps_per_epoch(len(visited), BATCH)
        for index in range(round(self.passes * steps)):
            self._observe(epoch, [slot.task_id for slot in batch(visited, BATCH, index % steps)])

    def _observe(self, epoch: int, tasks: list[str]) -> None:
        self.step += 1
        first = self.observations.seq + 1
        for index, task in enumerate(tasks):
            earned = self.rng.choices(range(5), k=ROLLOUTS)
            rollouts = tuple(
                Rollout(done, 4, int(done == 4), 0.0, done / 4, "finished") for done in earned
            )
            group = Group(task, 1, "identity", "progress", (0.0, 1.0), rollouts)
            self.observations.put(
                "group", attempt=1, step=self.step, index=index, **group.as_json()
            )
        closing = {
            "epoch": epoch,
            "groups": len(tasks),
            "policy_step": self.step - 1,
            "digest": f"{self.step:020x}",
        }
        self.observations.close_group(first, "step", attempt=1, step=self.step, **closing, time=0.0)
        self.observations.cut()

    def _expand(self, epoch: int) -> None:
        """A cohort of variants, each like no other: a template's words with a number of their
        own."""
        self.staged = []
        log = _Log(self.path / expanded_segment(epoch))
        log.seq = self.written
        for number in range(self.written + 1, self.written + COHORT + 1):
            template = self.templates[number % len(self.templates)]
            seed = self.originals[number % ORIGINALS]
            script = tuple(
                " ".join(f"{word}{number}" for word in text.split()) for text in template.script
            )
            provenance = {
                "generation": 1,
                "seed": seed,
                "root": seed,
                "plan": ["recipe"] * 8,
                "attempts": 1,
            }
            task = dataclasses.replace(template, script=script, provenance=provenance, id="")
            pick = {"pick": self._pick(number), "step": number}
            self.seeds.put(
                "picked",
                **pick,
                task=seed,
                epoch=epoch,
                rank=0,
                type="base",
                score=1.0,
                why={"generation": 0},
            )
            self.seeds.close_group(self.seeds.seq, "considered", step=number, epoch=epoch, picks=1)
            failed = {
                "pick": pick["pick"],
                "index": 0,
                "attempt": 1,
                "stage": "judge",
                "error": "grounding",
            }
            self.rejected.put(
                "rejected",
                **failed,
                evidence="turn 0: a value is not said",
                raw="x" * 600,
                time=0.0,
            )
            self.rejected.cut()
            seq = log.put("expanded", **pick, index=0, rank=0, task=task.as_json(), time=0.0)
            ended = {"accepted": [task.id], "discarded": 0, "dropped_stale": None, "why": None}
            self.seeds.put("finished", **pick, task=seed, **ended, time=0.0)
            self.seeds.cut()
            self.staged.append((task.id, seq))
        self.written = log.seq
        log.file.close()

    def _pick(self, number: int) -> str:
        return f"{number}-{self.originals[number % ORIGINALS]}"


if __name__ == "__main__":
    run(measure)
