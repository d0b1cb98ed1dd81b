"""What a run's processes take as its tasks grow by tens, a tenth as many groups with them: seconds
and peak memory.

Claim: selecting the seeds of a step and recording it take at most 5 and 15 ms however many tasks
there are; all else grows at most with them. Anchor: a tenth of the tasks. Command: `python -m
bench.by_tens`; `--tasks 1000000` for so many, a tenth, a hundredth; `--tasks 640 --groups 100000`
for a long run of few tasks, and one a tenth as long.

Tasks of desk in words of their own, with a hundred ground truths in all, make a run in lockstep.
Its trainer opens the first epoch and records steps of 32 groups, the daemon selects seeds after
each and writes a variant of every one, and the trainer merges them. Then the page is opened with
its history and views, `rods status` asks, and `rods verify` derives everything again. Writing a
variant is left out, records of it are not. Each of these is a process of its own, and what it
imports is left out of its seconds; all but the first include opening the run.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.figures import Figure, run
from bench.history import RUNS
from rods.buffers.daemon_log import DaemonLog
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.trainer_log import TrainerLog
from rods.calls import Call
from rods.canonical import keyed_random
from rods.config import parse_config
from rods.console.__main__ import collect_rarely
from rods.console.progress import Progress
from rods.console.verbs.verify import checked
from rods.daemon.watching import Watch
from rods.family.page.server import Registry
from rods.gates.similarity import DuplicateIndex
from rods.observations import Group, Rollout
from rods.rules.order import batch, steps_per_epoch
from rods.rules.selection import select
from rods.tasks import Task
from rods.worlds import desk

# SHARE: tasks a group
BATCH = 32
ROLLOUTS = 16
SHARE = 10
SELECTING = "selecting, a step"
RECORDING = "recording and tracking, a step"
REACH = {SELECTING: 0.005, RECORDING: 0.015}  # seconds, however many tasks there are
VIEWS = ("boundary", "steps", "report")  # those that go over the whole run
Seconds = dict[str, float]  # of CPU time


@dataclass(frozen=True)
class Taken:
    seconds: Seconds
    peak: float  # MB that the process has held at most


def measure(quick: bool, tasks: str = "", groups: str = "") -> list[Figure]:
    """CPU seconds, MB of resident memory."""
    most = int(tasks) if tasks else 5_000 if quick else 100_000
    sizes = {f"{count:,} tasks": (count, count // SHARE) for count in (most // 10, most)}
    if groups:
        longest = int(groups)
        sizes = {f"{count:,} groups": (most, count) for count in (longest // 10, longest)}
    elif not quick:
        sizes = {f"{most // 100:,} tasks": (most // 100, most // 100 // SHARE)} | sizes
    figures: list[Figure] = []
    before: dict[str, Taken] = {}
    for size, (count, recorded) in sizes.items():
        taken = {}
        with tempfile.TemporaryDirectory(dir=RUNS) as folder:
            for process, one in _all(Path(folder) / "run", count, recorded):
                small = before.get(process)
                taken[process] = one
                made = []
                for what, seconds in one.seconds.items():
                    anchor = None if small is None else small.seconds[what]
                    made.append(
                        Figure(
                            f"{size}: {what}",
                            seconds,
                            "s",
                            "a tenth",
                            anchor,
                            REACH.get(what),
                            False,
                        )
                    )
                peak = f"{size}: peak of {process}"
                made.append(
                    Figure(peak, one.peak, "MB", "a tenth", None if small is None else small.peak)
                )
                print(*made, sep="\n", file=sys.stderr, flush=True)
                figures += made
        before = taken
    return figures


def _all(path: Path, count: int, groups: int) -> Iterator[tuple[str, Taken]]:
    """Each process by name, once it has ended."""
    yield "creation", _apart(_created, path, count, groups)
    with get_context("spawn").Pool(1) as pool:
        pool.apply(_trained, (path, groups // BATCH))
        yield "daemon", _apart(_selected, path)
        yield "trainer", pool.apply(_merged)
    for name, work in READERS.items():
        yield name, _apart(work, path)


def _apart(work: Callable[..., Taken], *arguments: Any) -> Taken:
    """In a fresh process, so that nothing is warm and nothing is left over."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


class Clock:
    """CPU seconds of this process since it was last asked."""

    def __init__(self) -> None:
        self._asked = time.process_time()

    def lap(self) -> float:
        before = self._asked
        self._asked = time.process_time()
        return self._asked - before


def _taken(seconds: Seconds) -> Taken:
    lines = Path("/proc/self/status").read_text().splitlines()
    # of this program; in kB
    peak = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return Taken(seconds, int(peak) * 1024 / 1e6)


def _own_words(task: Task, mark: str) -> tuple[str, ...]:
    return tuple(" ".join(f"{word}{mark}" for word in text.split()) for text in task.script)


def _tasks(count: int) -> Iterator[Task]:
    templates = [task for task, _ in itertools.islice(desk.fresh_tasks(3, "bench by tens"), 100)]
    for number in range(count):
        template = templates[number % len(templates)]
        yield dataclasses.replace(template, script=_own_words(template, str(number)), id="")


def _created(path: Path, count: int, groups: int) -> Taken:
    tasks = list(_tasks(count))
    clock = Clock()
    asked = {
        # a merge in lockstep waits for the daemon, which starts when all is recorded
        "sync": "free" if groups > count else "lockstep",
        "training": {"batch_tasks": BATCH},
        "pool": {"max_generated": count},
    }
    create_run(path, parse_config(asked, where="bench.by_tens"), tasks)
    return _taken({"creating the run": clock.lap()})


# of the process that is the trainer: it lives from one merge to another
TRAINER: list[tuple[TrainerLog, Seconds]] = []


def _trained(path: Path, steps: int) -> None:
    clock = Clock()
    log = TrainerLog(Run.open(path))
    log.start()
    seconds = {"opening, trainer": clock.lap()}
    slots = log.merge(0, 1).slots
    seconds["the first merge, which builds the index"] = clock.lap()
    rng = keyed_random(0, "bench by tens")
    for step in range(steps):
        epoch, place = divmod(step, steps_per_epoch(len(slots), BATCH))
        slots = log.merge(epoch, 1).slots if step and not place else slots
        groups = [
            _group(slot.task_id, rng.choices(range(5), k=ROLLOUTS))
            for slot in batch(slots, BATCH, place)
        ]
        log.write_step(step + 1, epoch, groups)
    seconds[RECORDING] = clock.lap() / steps
    TRAINER.append((log, seconds))


def _group(task: str, resolved: list[int]) -> Group:
    rollouts = tuple(
        Rollout(count, 4, count // 4, 0.0, count / 4, "finished") for count in resolved
    )
    return Group(task, 1, "identity", "progress", (0.0, 1.0), rollouts)


def _merged() -> Taken:
    log, seconds = TRAINER.pop()
    clock = Clock()
    log.merge(log.state.epoch + 1, 1)
    seconds["the merge of an epoch"] = clock.lap()
    log.close()
    return _taken(seconds)


def _selected(path: Path) -> Taken:
    clock = Clock()
    made = Run.open(path)
    log = DaemonLog(made)
    watch = Watch(made)
    watch.look(0)
    seconds = {"opening and reading on, daemon": clock.lap()}
    index = DuplicateIndex(made.tasks, staging=True)
    seconds["the daemon's index"] = clock.lap()
    seconds[SELECTING] = asyncio.run(_picked(log, watch, index))
    return _taken(seconds)


async def _picked(log: DaemonLog, watch: Watch, index: DuplicateIndex) -> float:
    """CPU seconds of selection a step. Every pick gets a variant of its own; the log is closed."""
    spent = 0.0
    steps = 0
    while (step := watch.due(log.state.last_considered)) is not None:
        clock = Clock()
        picks = select(
            step.step, watch.candidates(step), watch.active, log.state.last_picked, watch.run.config
        )
        spent = spent + clock.lap()
        steps = steps + 1
        await log.picked(step.step, step.epoch, [pick.as_json() for pick in picks])
        await asyncio.gather(
            *(_written(log, watch.run, index, step.step, pick.task) for pick in picks)
        )
    log.close()
    return spent / steps


async def _written(log: DaemonLog, made: Run, index: DuplicateIndex, step: int, seed: str) -> None:
    task = made.training[seed]
    pick = f"{step}-{seed}"
    assert isinstance(task, Task)
    facts = {"generation": 1, "seed": seed, "root": seed, "plan": ["recipe"], "attempts": 1}
    # which nobody executes
    calls = tuple(tuple(Call(call.name, {"n": pick}) for call in turn) for turn in task.calls)
    script = _own_words(task, f"v{step}")
    state = {"n": pick}
    variant = dataclasses.replace(
        task, script=script, calls=calls, state=state, provenance=facts, id=""
    )
    assert not index.admit(variant)
    await log.expanded(pick, 0, variant)
    index.written(variant.id)
    await log.finished(pick, [variant.id], 0)


def _paged(path: Path) -> Taken:
    collect_rarely()
    clock = Clock()
    registry = Registry([path])
    registry.answer("latest", "status", {})
    with registry.follower("latest").whole():
        seconds = {"the page, its history read": clock.lap()}
    for view in VIEWS:
        registry.answer("latest", view, {})
    return _taken(seconds | {f"its views {', '.join(VIEWS)}": clock.lap()})


def _asked(path: Path) -> Taken:
    collect_rarely()
    clock = Clock()
    Progress(path).poll()
    return _taken({"`rods status`": clock.lap()})


def _verified(path: Path) -> Taken:
    collect_rarely()
    clock = Clock()
    findings = checked(path)
    assert findings.ok, findings.problems[:3]
    return _taken({"`rods verify`": clock.lap()})


READERS: dict[str, Callable[[Path], Taken]] = {
    "page": _paged,
    "status": _asked,
    "verify": _verified,
}

if __name__ == "__main__":
    run(measure, tasks="the most tasks", groups="the most groups, all of so many tasks")
