"""Episodes in 200 generated worlds, interleaved, with few processes: how many of these, how much
memory, how fast.

Claim: never more processes than `operation.sandbox.processes`, and memory that does not grow with
the number of worlds. Anchor: the same episodes in worlds that all have a process. Four episodes of
six calls in each world; those of some worlds are played together, a call of each in turn, as a
batch of rollouts is. Command: `python -m bench.many_worlds`.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.figures import Figure, run
from rods.analysis.sampling import Sampler
from rods.canonical import keyed_random
from rods.config import Sandbox
from rods.environments import addressed
from rods.environments.base import Environment, Instance
from rods.environments.loading import Environments
from rods.family.environments.procedural.operations import assembled
from rods.family.environments.procedural.skeletons import draw_skeleton, draw_state

WORLDS = 200
PROCESSES = 32
# of each world, and of each episode
EPISODES = 4
CALLS = 6
BATCH = 16  # worlds whose episodes are interleaved
REACH_PSS = 1.0  # GB of all processes together
SEED = 17


def measure(quick: bool) -> list[Figure]:
    """Episodes a second, processes and memory."""
    count, most, batch = (6, 4, 2) if quick else (WORLDS, PROCESSES, BATCH)
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        skeletons = [draw_skeleton(SEED, number) for number in range(count)]
        names = [addressed.keep(assembled(skeleton), folder) for skeleton in skeletons]
        states = [draw_state(skeleton, SEED, "bench") for skeleton in skeletons]
        settings = Sandbox(workers=2, processes=most, seconds=30.0)
        with _Watch() as watch, Environments(settings, folder) as environments:
            began = time.perf_counter()
            loaded = [environments.load(name) for name in names]
            loading = (time.perf_counter() - began) / count
            rates = {
                f"{batch} worlds at a time": _rate(loaded, states, batch),
                f"more worlds at a time ({2 * batch + batch // 2}) than have a process": _rate(
                    loaded[: 2 * batch + batch // 2], states, 2 * batch + batch // 2
                ),
            }
            few = _rate(loaded[:batch], states, batch, times=2)
    processes, memory = watch.most
    one = memory / processes / 1e9
    return [
        Figure(
            f"{count} worlds: processes at most",
            processes,
            "processes",
            "allowed",
            most,
            most,
            False,
        ),
        Figure(
            "memory of these at most, PSS", memory / 1e9, "GB", "of one, GB", one, REACH_PSS, False
        ),
        Figure("a world loaded for the first time", loading, "s"),
        *(
            Figure(
                f"episodes of {CALLS} calls, {title}",
                rate,
                "episodes/s",
                f"{batch} worlds that stay",
                few,
            )
            for title, rate in rates.items()
        ),
    ]


def _rate(
    loaded: Sequence[Environment],
    states: Sequence[dict[str, object]],
    together: int,
    *,
    times: int = 1,
) -> float:
    """Episodes a second: those of `together` worlds are interleaved, then come the next ones. All
    of it so many `times`, of which the last counts."""
    for _ in range(times):
        began = time.perf_counter()
        done = 0
        for start in range(0, len(loaded), together):
            playing = [
                _episode(environment.reset(state), environment, f"{start}-{number}")
                for environment, state in zip(
                    loaded[start : start + together], states[start:], strict=False
                )
                for number in range(EPISODES)
            ]
            for _ in range(CALLS):
                for episode in playing:
                    next(episode)
            done += len(playing)
    return done / (time.perf_counter() - began)


def _episode(instance: Instance, environment: Environment, key: str) -> Iterator[None]:
    sampler = Sampler(keyed_random(SEED, "episode", key))
    sampler.learn("", instance.snapshot())
    tools = list(environment.tools().values())
    while True:
        call = sampler.call(sampler.rng.choice(tools))
        sampler.heard(call, instance.call(call))
        yield


class _Watch:
    """Looks all the time at the processes that were started here, and at their memory (PSS: shared
    pages are shared out among those that map them)."""

    def __init__(self) -> None:
        self.most = (0.0, 0.0)
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._look)

    def __enter__(self) -> _Watch:
        self._watcher.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._watcher.join()

    def _look(self) -> None:
        while not self._over.wait(0.5):
            direct = _children(os.getpid())
            memory = 0
            below = direct
            while below:
                memory += sum(map(_pss, below))
                below = [each for pid in below for each in _children(pid)]
            self.most = max(self.most[0], len(direct)), max(self.most[1], memory)


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(each) for task in tasks for each in (task / "children").read_text().split()]
    except OSError:  # it has ended meanwhile
        return []


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    run(measure)
