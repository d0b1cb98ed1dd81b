"""Whether calls, folding or a step has become slower since the last commit that kept its figures.

Claim: none is more than 7 % slower than `bench/watch.json` says. Anchors, in the same run, by CPU
time: BFCL's own executor; orjson over the same lines; the same rollouts in a bare loop.
Command: `python -m bench.watch`; `--keep bench/watch.json` writes what was measured.

Every ratio is a speed over that of its anchor. On a busy machine ratios move: what has fallen is
measured once more, and the better of both looks counts.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import fold, trainer_overhead
from bench.bfcl_parity import oracle, speed
from bench.figures import Figure, run
from rods import logs
from rods.buffers.run.creation import create_run
from rods.config import parse_config
from rods.family.benchmarks.bfcl.scorer import start
from rods.worlds import desk
from rods.worlds.bfcl import fetch, wheel

KEPT = Path(__file__).with_name("watch.json")
FALLEN = 0.93  # of what was kept
CALLS = ("calls, parsed", "calls, fresh states", "calls, from text")
RECORDS = 3_000
STEPS = 13  # from one merge to the next
Ratios = dict[str, float]


def measure(quick: bool, keep: str = "") -> list[Figure]:
    """Each ratio and what it was; loudly, on standard error, those that have fallen."""
    fetch()
    rounds = 2 if quick else 4
    last = json.loads(KEPT.read_text(encoding="utf-8"))
    ratios = looked_at(last, [lambda: calls(rounds), lambda: folding(rounds), lambda: step(rounds)])
    if keep:
        kept = {name: round(ratio, 3) for name, ratio in ratios.items()}
        Path(keep).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for name in fallen(last, ratios):
        print(
            f"!!! SLOWER: {name}: {ratios[name]:.3g} × its anchor's speed, was {last[name]:.3g}",
            file=sys.stderr,
        )
    return [
        Figure(name, ratio, "×", "kept", last[name], last[name] * FALLEN)
        for name, ratio in ratios.items()
    ]


def looked_at(last: Mapping[str, float], looks: Sequence[Callable[[], Ratios]]) -> Ratios:
    """What the looks give; where something in one has fallen, the better of two."""
    ratios: Ratios = {}
    for look in looks:
        first = look()
        second = look() if fallen(last, first) else first
        ratios |= {name: max(ratio, second[name]) for name, ratio in first.items()}
    return ratios


def fallen(last: Mapping[str, float], ratios: Mapping[str, float]) -> list[str]:
    """The names of those that are more than 7 % below what was kept."""
    return [name for name, ratio in ratios.items() if ratio < last[name] * FALLEN]


def calls(rounds: int) -> Ratios:
    official = start(oracle.ORACLE)
    try:
        figures = speed.compare(official, wheel.path(None), rounds, CALLS)
    finally:
        official.close()
    return {name: figure["ratio"] for name, figure in figures.items()}


def folding(rounds: int) -> Ratios:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        config = parse_config({"training": {"batch_tasks": 4}}, where="bench")
        made = create_run(Path(folder) / "run", config, desk.generate(7, 12, 0))
        return {"folding": 1 / fold.times(made, RECORDS, 5 * rounds)}


def step(rounds: int) -> Ratios:
    logs.configure("bench", "error")
    gc.freeze()  # else the anchor waits for a collector that walks through what was folded before
    config = trainer_overhead.simulated(STEPS)
    tasks = desk.generate(1, trainer_overhead.TASKS, 8)
    pairs = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for number in range(rounds):
            bare = trainer_overhead.bare(config, tasks, time.process_time)
            made = create_run(Path(folder) / str(number), config, tasks)
            pairs.append(bare / trainer_overhead.through_a_run(made, time.process_time))
    return {"a step": statistics.median(pairs)}


if __name__ == "__main__":
    run(measure, keep="the file that the ratios are written to")
