"""Confined environments: calls a second of desk, and how soon a lost process is replaced.

Claim: 20,000 calls a second and a replacement within 0.1 s, in each tier of confinement that this
machine has. Anchor: the same calls in this process. Command: `python -m bench.sandbox`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.figures import Figure, run
from rods.calls import Call
from rods.config import Sandbox
from rods.environments.base import Environment, Instance
from rods.environments.loading import Environments
from rods.errors import InfrastructureError
from rods.tasks import Task
from rods.worlds.desk import fresh_tasks
from rods.worlds.sandbox.confined import TIERS, Tier, confined, offered, reaches
from rods.worlds.sandbox.environment import ConfinedWorld, Sandboxed

load = Environments().load

FACTORY = "rods.worlds.desk:environment"
WORKERS = 2
REACH_CALLS = 20_000.0
REACH_BACK = 0.1


def measure(quick: bool) -> list[Figure]:
    """In each tier of this machine: two processes, driven by one thread that waits for each call,
    and by two; beside the same calls in this process. The best of several rounds, because a busy
    machine only slows them."""
    tasks = [task for task, _ in itertools.islice(fresh_tasks(5, "bench"), 40)]
    rounds, passes = (10, 2) if quick else (60, 4)
    here = max(_rate(load("desk"), tasks, passes, 1) for _ in range(rounds))
    figures = []
    for tier in (tier for tier in TIERS if reaches(offered().tier, tier)):
        pool = confined(
            FACTORY, Sandbox(lowest_tier="limits", workers=WORKERS, seconds=30.0), tier=tier
        )
        for cell in pool._cells:
            cell.worker.open()
        for threads in (1, 2):
            rate = max(_rate(pool, tasks, passes, threads) for _ in range(rounds))
            if threads == 1:
                figures.append(
                    Figure(f"{tier}: CPU of both sides a call", _cpu(pool, tasks, passes), "µs")
                )
            name = (
                f"{tier}: calls, {threads} thread{'s' if threads > 1 else ''} on {WORKERS} "
                f"processes"
            )
            figures.append(Figure(name, rate, "calls/s", "in this process", here, REACH_CALLS))
        for name, seconds in _replacements(pool, tasks, 5 if quick else 20).items():
            figures += [
                Figure(
                    f"{tier}: back, {name}, median",
                    statistics.median(seconds),
                    "s",
                    "",
                    None,
                    REACH_BACK,
                    False,
                ),
                Figure(f"{tier}: back, {name}, worst of {len(seconds)}", max(seconds), "s"),
            ]
        figures.append(
            Figure(f"{tier}: CPU of a new process until it is ready", _cpu_of_a_start(tier), "s")
        )
        pool.close()
    return figures


def _rate(environment: Environment, tasks: Sequence[Task], passes: int, threads: int) -> float:
    """Calls a second: all ground truths, every one in a world of its own, shared out among the
    threads."""
    worlds = [(environment.reset(task.state), task) for task in tasks for _ in range(passes)]

    def play(share: Sequence[tuple[Instance, Task]]) -> None:
        for world, task in share:
            for turn in task.calls:
                for call in turn:
                    world.call(call)

    shares = [worlds[number::threads] for number in range(threads)]
    count = sum(len(turn) for _, task in worlds for turn in task.calls)
    return count / _seconds(lambda: _together(play, shares))


def _cpu(pool: Sandboxed, tasks: Sequence[Task], passes: int) -> float:
    """Microseconds of CPU time a call, in this process and the confined ones; a busy machine hardly
    changes it."""
    before = time.process_time() + _cpu_below(pool)
    calls = sum(len(turn) for task in tasks for turn in task.calls) * passes * 5
    for _ in range(5):
        _rate(pool, tasks, passes, 1)
    return 1e6 * (time.process_time() + _cpu_below(pool) - before) / calls


def _cpu_below(pool: Sandboxed) -> float:
    """CPU seconds of the pool's processes; bubblewrap's are the children of its own."""
    ticks = 0
    waiting = [cell.worker.pid for cell in pool._cells]
    while waiting:
        pid = waiting.pop()
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
        waiting += map(
            int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        )
    return ticks / os.sysconf("SC_CLK_TCK")


def _together(
    play: Callable[[Sequence[tuple[Instance, Task]]], None],
    shares: Sequence[Sequence[tuple[Instance, Task]]],
) -> None:
    threads = [threading.Thread(target=play, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _replacements(pool: Sandboxed, tasks: Sequence[Task], times: int) -> dict[str, list[float]]:
    """Seconds from the loss of processes to the next answer of an environment in each, which is
    started again. Lost is one process, all at once, or one again and again until no spare one is
    left."""
    worlds = {id(world._cell): world for world in (pool.reset(task.state) for task in tasks)}
    call = Call(next(iter(pool.tools())), {})
    everybody = list(worlds.values())
    assert len(everybody) == WORKERS
    found: dict[str, list[float]] = {"one lost": [], "all lost at once": []}
    none = found["one lost more often than there are spare ones"] = []
    for _ in range(times):
        _wait_for_spares(pool)
        found["one lost"].append(_back(everybody[:1], call))
        _wait_for_spares(pool)
        found["all lost at once"].append(_back(everybody, call))
        _wait_for_spares(pool)
        for _ in range(WORKERS):
            _back(everybody[:1], call)
        none.append(_back(everybody[:1], call))
    return found


def _wait_for_spares(pool: Sandboxed) -> None:
    """Waits until each spare process has sent its first message, which is left unread in its
    socket."""
    for future in list(pool._spares._waiting):
        select.select([future.result()._pipe], [], [], 30)


def _back(worlds: Sequence[ConfinedWorld], call: Call) -> float:
    """Kills the processes of these environments, calls all of them, and returns the seconds until
    all have answered."""
    for world in worlds:
        child = world._cell.worker._child
        assert child is not None
        os.kill(child.process.pid, signal.SIGKILL)
        select.select([child._pipe], [], [], 30)  # it is gone
    began = time.perf_counter()
    for world in worlds:
        while True:
            with contextlib.suppress(InfrastructureError):  # the process died while it answered
                world.call(call)
                break
    return time.perf_counter() - began


def _cpu_of_a_start(tier: Tier) -> float:
    fresh = [
        confined(FACTORY, Sandbox(lowest_tier="limits", workers=1), tier=tier) for _ in range(10)
    ]
    # the system counts in hundredths of a second
    used = statistics.mean(_cpu_below(pool) for pool in fresh)
    for pool in fresh:
        pool.close()
    return used


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


if __name__ == "__main__":
    run(measure)
