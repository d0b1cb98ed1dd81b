"""Selection of seeds.

Claim: O(batch) a step whatever the pool's size; under 20 ms with a million tasks. Anchor: a pool of
a thousand tasks. Command: `python -m bench.selection`.
"""

from __future__ import annotations

import time
from statistics import median

from bench.figures import Figure, run
from rods.canonical import keyed_random
from rods.config import Config
from rods.observations import Group, Rollout
from rods.rules.selection import TaskFacts, select, signals
from rods.tasks import TASK_TYPES

BATCH = 32
ROLLOUTS = 16
STEPS = 200


def measure(quick: bool) -> list[Figure]:
    """Milliseconds a step of 32 tasks × 16 rollouts, in pools of a thousand and of a million
    tasks."""
    small = _milliseconds(1_000)
    large = _milliseconds(100_000 if quick else 1_000_000)
    name = "100k" if quick else "1M"
    return [
        Figure(
            f"selection, a step, pool of {name} tasks",
            large,
            "ms",
            "the same, 1k tasks",
            small,
            20,
            higher=False,
        ),
        Figure("selection, large pool ÷ small pool", large / small, "×", reach=2, higher=False),
    ]


def _milliseconds(tasks: int) -> float:
    config = Config()
    active = {f"{number:020x}": TaskFacts(TASK_TYPES[number % 4]) for number in range(tasks)}
    ids = list(active)
    last_picked: dict[str, int] = {}
    times = []
    for step in range(1, STEPS + 1):
        chance = keyed_random(0, "bench", step)
        groups = [
            _group(chance.choice(ids), [chance.randrange(5) for _ in range(ROLLOUTS)])
            for _ in range(BATCH)
        ]
        began = time.perf_counter()
        picks = select(step, signals(groups, config.selection), active, last_picked, config)
        times.append((time.perf_counter() - began) * 1000)
        last_picked |= {pick.task: step for pick in picks}
    return median(times)


def _group(task: str, resolved: list[int]) -> Group:
    rollouts = tuple(
        Rollout(count, 4, count // 4, 0.0, count / 4, "finished") for count in resolved
    )
    return Group(task, 1, "identity", "progress", (0.0, 1.0), rollouts)


if __name__ == "__main__":
    run(measure)
