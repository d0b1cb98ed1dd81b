"""Exported variants of BFCL's training tasks under BFCL's own checker.

Claim: of 5,000 exported variants it refuses no ground truth, and at least 97 % of corrupted ones.
Anchor: the checker of the pinned wheel, run as the benchmark runs it. Command: `python -m
bench.bfcl_export`.
"""

from __future__ import annotations

from itertools import count

from bench.bfcl_variants import write
from bench.figures import Figure, run
from bench.fixtures.official_checker import verdicts
from rods.tasks import Task
from rods.worlds.bfcl import tasks

# variants
FULL = 5_000
QUICK = 40


def measure(quick: bool) -> list[Figure]:
    """Verdicts on variants of all training tasks in turn, each round with a random seed of its
    own."""
    size = QUICK if quick else FULL
    seeds = [task for task in tasks() if task.split == "train"][:: 10 if quick else 1]
    variants: dict[str, Task] = {}
    for random_seed in count():
        found = [each.variant for each in write(seeds, random_seed)[0] if each.variant is not None]
        variants |= {task.id: task for task in found}
        if len(variants) >= size:
            break
    kept, broken = verdicts(list(variants.values()))
    return [
        Figure("variants exported", len(variants), ""),
        Figure(
            "ground truths that the official checker refuses",
            1 - kept,
            "share",
            reach=0,
            higher=False,
        ),
        Figure("corrupted ground truths that it refuses", broken, "share", reach=0.97),
    ]


if __name__ == "__main__":
    run(measure)
