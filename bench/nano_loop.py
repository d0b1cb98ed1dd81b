"""Does the loop teach? nano on desk, as in `make demo`, against the same steps without it.

Claim: the loop gains more held-out progress than the same steps without synthesis. Anchors: static data, a static pool
(variants written once), variants of randomly selected seeds, and variants that call the seed's own functions.
Command: `python -m bench.nano_loop` (three random seeds, about forty minutes on two cores); `--seeds 10` (two hours);
`--quick` (a few steps, only to show that static data and the loop run).

For every random seed (of data, order, rollouts and daemon) the demonstration's warm-started policy is trained five
times on the same few originals, by the two real processes. Every run is scored on the same held-out tasks with the
same draws, so all differences are paired over tasks; their intervals are those of `evaluation.scoring`, over tasks for
one random seed and over random seeds for all of them. More supervised warm start would beat all of them: the comparison
is between ways to spend the same steps of reinforcement learning.

The runs are in lockstep and deterministic: what they give does not depend on how busy the machine is. They are kept in
runs/nano_loop, so a bench that was stopped continues where it was; remove the folder to begin anew.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w

from bench.figures import Figure, run
from evaluation.heldout import per_task, score_run
from evaluation.scoring import Estimate, estimate, paired
from rods.config import read_config

DEMO = Path(__file__).parent.parent / "console" / "demo.toml"
RUNS = Path(__file__).parent.parent / "runs"
CONDITIONS: dict[str, dict[str, dict[str, Any]]] = {
    "boundary": {},
    "static data": {"selection": {"seeds_per_step": 0}},
    "static pool": {"pool": {"static": True}},
    "random seeds": {"selection": {"order": "random"}},
    "same functions": {"pipeline": {"functions": "same"}},
}
QUICK: dict[str, dict[str, Any]] = {
    "data": {"train": 4, "held_out": 8},
    "policy": {"warm_start_steps": 20},
    "training": {"steps": 2, "batch_tasks": 4},
}
Scores = tuple[dict[str, float], dict[str, float]]  # held-out progress by task, at the start and at the end


def measure(quick: bool, seeds: int = 3) -> list[Figure]:
    """Held-out progress gained in training, and over the other conditions, with 95 % intervals."""
    if quick:
        with tempfile.TemporaryDirectory(dir=RUNS) as folder:
            some = {name: _scores(Path(folder), name, 1, QUICK) for name in ("boundary", "static data")}
        return _of_one_seed(1, some)
    figures: list[Figure] = []
    found: list[dict[str, Scores]] = []
    for seed in range(1, seeds + 1):
        found.append({name: _scores(RUNS / "nano_loop", name, seed, {}) for name in CONDITIONS})
        figures += _of_one_seed(seed, found[-1], judged=True)
    for name in CONDITIONS:
        gains = [paired(*scores[name]).mean for scores in found]
        figures.append(_figure(f"{seeds} seeds, {name}: gained", estimate(gains)))
    for name in list(CONDITIONS)[1:]:
        over = [paired(scores[name][1], scores["boundary"][1]).mean for scores in found]
        figures.append(_figure(f"{seeds} seeds, boundary over {name}", estimate(over)))
    return figures


def _of_one_seed(seed: int, scores: dict[str, Scores], *, judged: bool = False) -> list[Figure]:
    gained = [
        _figure(f"seed {seed}, {name}: held-out progress gained", paired(*both), judged and name == "boundary")
        for name, both in scores.items()
    ]
    end = scores["boundary"][1]
    others = [name for name in scores if name != "boundary"]
    return gained + [_figure(f"seed {seed}, boundary over {name}", paired(scores[name][1], end)) for name in others]


def _figure(claim: str, found: Estimate, judged: bool = False) -> Figure:
    """`found` with the lower end of its interval, which for the demonstration's own setting must lie above 0."""
    claim = f"{claim} {found.mean:+.3f}, interval to {found.high:+.3f}, from"
    return Figure(claim, found.low, "", reach=0.0 if judged else None)


def _scores(folder: Path, condition: str, seed: int, more: dict[str, dict[str, Any]]) -> Scores:
    """Trains one run to its end (or goes on with it) and scores it."""
    path = folder / f"{seed}-{condition.replace(' ', '_')}"
    values = read_config(DEMO).model_dump(mode="json", exclude_defaults=True)
    own: dict[str, dict[str, Any]] = {
        "random_seeds": {"order": seed, "rollouts": seed, "daemon": seed},
        "data": {"random_seed": seed},
        "training": {"deterministic": True},
    }
    for part in (own, CONDITIONS[condition], more):
        for section, keys in part.items():
            values[section] = {**values.get(section, {}), **keys}
    folder.mkdir(parents=True, exist_ok=True)
    config = path.with_suffix(".toml")
    config.write_text(tomli_w.dumps({**values, "sync": "lockstep"}), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "console", "up", str(path), "--config", str(config), "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{path.name}: rods up ended with {done.returncode}: {done.stderr[-2000:]}")
    start, end = (per_task(Path(score_run(path, which)["file"]))["progress"] for which in ("start", "end"))
    return start, end


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", type=int, default=3)
    known, sys.argv[1:] = parser.parse_known_args()
    run(partial(measure, seeds=known.seeds))
